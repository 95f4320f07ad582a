"""What was found inside, as one HTML file that loads nothing."""

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
import torch
from torch import Tensor

from app.inspect.features import Features
from app.inspect.models import LayerView, Trained, first_kernels
from app.report.style import CSS

_STYLE = """
body { max-width: 90rem; } .runs { display: grid; gap: 0 2rem; }
img { width: 64px; height: 64px; image-rendering: pixelated; margin: 0 2px 2px 0; background: var(--card); }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(runs: Sequence[tuple[Trained, Sequence[LayerView]]], note: str) -> str:
    """The whole HTML text; several runs stand side by side, layer by layer."""
    title = "Looking inside " + "; ".join(trained.name for trained, _ in runs)
    columns = f"grid-template-columns: repeat({len(runs)}, minmax(0, 1fr))"
    rows = ["".join(_cell(trained.name, "h2", _kernels(first_kernels(trained))) for trained, _ in runs)]
    depth = max(len(views) for _, views in runs)
    for index in range(depth):
        rows.append("".join(_layer(views[index]) if index < len(views) else "<div></div>" for _, views in runs))
    body = "".join(f'<section class="runs" style="{columns}">{row}</section>\n' for row in rows)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)} - fedslice</title>\n<style>{CSS}{_STYLE}</style>\n</head>\n<body>\n"
        f'<header><h1>{escape(title)}</h1><p class="note">{escape(note)}</p></header>\n{body}</body>\n</html>\n'
    )


def _cell(title: str, heading: str, *parts: str) -> str:
    return f"<div><{heading}>{escape(title)}</{heading}>{''.join(parts)}</div>"


def _kernels(kernels: Tensor | None) -> str:
    if kernels is None:
        return '<p class="note">The first layer is no convolution: it has no kernels to show.</p>'
    if kernels.shape[1] not in (1, 3):
        kernels = kernels.mean(1, keepdim=True)
    pictures = "".join(_picture(kernel, None, f"kernel {number}") for number, kernel in enumerate(kernels))
    return f'<p class="note">kernels of the first layer, each stretched to the full range</p>{pictures}'


def _layer(view: LayerView) -> str:
    methods = (("gradient ascent", view.plain), ("MACO", view.maco))
    return _cell(view.name, "h3", *(_method(name, found, view.units) for name, found in methods))


def _method(name: str, found: Features, units: Sequence[int]) -> str:
    pictures = (
        _picture(image, opacity, f"unit {unit}")
        for image, opacity, unit in zip(found.images, found.opacity, units, strict=True)
    )
    return f'<p class="note">{name}</p>{"".join(pictures)}'


def _picture(image: Tensor, opacity: Tensor | None, label: str) -> str:
    """An image (c, h, w) of any values, stretched to the full range, as an img element."""
    low, high = image.min(), image.max()
    pixels = ((image - low) / (high - low).clamp(min=1e-12)).expand(3, -1, -1)  # grey is equal in all three
    alpha = torch.ones_like(pixels[:1]) if opacity is None else 0.2 + 0.8 * opacity[None]
    array = (torch.cat((pixels, alpha)) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()  # (h, w, 4)
    return f'<img alt="{label}" title="{label}" src="data:image/png;base64,{_png(array)}">'


def _png(array: np.ndarray) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(array, "RGBA").save(buffer, format="PNG")
    return base64.b64encode(buffer.getvalue()).decode()
