"""The figure of an attack as one HTML file: original and reconstructed images side by side, and their numbers."""

import base64
import io
from collections.abc import Sequence
from html import escape
from statistics import fmean, stdev

from PIL import Image
from torch import Tensor

from app.privacy.leaks import Leak
from app.report.charts import Chart, axes
from app.report.page import document, figures

_SIZE = 72  # pixels; how large an image is shown, whatever its own size


def leaks_page(title: str, note: str, leaks: Sequence[Leak]) -> str:
    """The whole HTML text. `leaks` as `find_leaks` gives them."""
    head = "".join(f"<th>{escape(name)}</th>" for name in ("update", "PSNR in dB", "SSIM", "images"))
    rows = "".join(map(_row, leaks))
    body = (
        f'<header><h1>{escape(title)}</h1><p class="lead">What updates give away: images recovered by gradient '
        f'inversion.</p><p class="note">{escape(note)}</p></header>\n'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n'
        + figures([_chart("PSNR", "dB", [(leak.kind, leak.psnr) for leak in leaks[1:]]),
                   _chart("SSIM", "1 is equal", [(leak.kind, leak.ssim) for leak in leaks[1:]])])
    )  # fmt: skip
    return document(title, body)


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation over the images."""
    return f"{fmean(values):.2f} ± {stdev(values):.2f}" if len(values) > 1 else "".join(f"{v:.2f}" for v in values)


def _row(leak: Leak) -> str:
    images = "".join(f'<img src="{_png(image)}" width="{_SIZE}" height="{_SIZE}" alt="" style="image-rendering: '
                     'pixelated; margin-right: 4px">' for image in leak.images)  # fmt: skip
    cells = f'<td class="number">{spread(leak.psnr)}</td><td class="number">{spread(leak.ssim)}</td>'
    return f'<tr><td>{escape(leak.kind)}</td>{cells}<td style="white-space: nowrap">{images}</td></tr>'


def _png(image: Tensor) -> str:
    """An image (1, c, h, w) in [0, 1] as a data URI."""
    pixels = (image[0].clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()  # (h, w, c)
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _chart(title: str, unit: str, rows: Sequence[tuple[str, Sequence[float]]]) -> Chart:
    """A bar for each kind of update, with the standard deviation over the images."""
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [escape(kind) for kind, _ in rows],
        "x": [fmean(values) for _, values in rows],
        "error_x": {"type": "data", "array": [stdev(values) if len(values) > 1 else 0 for _, values in rows]},
        "marker": {"color": "var(--s0)"},
        "showlegend": False,
    }
    layout = axes(f"{title} ({unit})", "", height=120 + 28 * len(rows))
    layout["yaxis"] |= {"autorange": "reversed"}
    return Chart(title, "Mean over the images, with their standard deviation; less is given away where it is lower.",
                 [trace], layout)  # fmt: skip
