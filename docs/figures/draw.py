"""Draws the figures of docs/ with the product's own functions: python docs/figures/draw.py [FOLDER]."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from pen import BLUE, INK, ORANGE, PALE, bar, line, svg, text
from saving import saving

from clients.layers import layer_groups
from clients.sparse import keep_largest, powerprop
from clients.sparse_layers import prunable
from clients.tasks.models import build_image_model
from clients.weights import weights_of
from strategies.consensus import densities_of
from strategies.layers import LayerSchedule

MODEL = build_image_model("resnet8", "imagenet", 3, 10, seed=0)


def schedule() -> str:
    """Which layer groups of ResNet-8 each of the first 50 rounds trains."""
    groups = layer_groups(MODEL)
    plan, left, cell = LayerSchedule(len(groups)), 150, 14
    parts = [
        text(left - 8, 33 + row * cell, group[0].removesuffix(".weight"), "end") for row, group in enumerate(groups)
    ]
    for server_round in range(1, 51):
        chosen = plan(server_round)
        x = left + (server_round - 1) * cell
        for row in range(len(groups)):
            if chosen is None or row in chosen:
                parts.append(bar(x, 22 + row * cell, cell - 1, cell - 1, PALE if chosen is None else BLUE))
        if server_round == 1 or server_round % 5 == 0:
            parts.append(text(x + cell / 2, 15, str(server_round), "middle"))
    parts.append(text(left - 8, 15, "round", "end"))
    return svg(left + 50 * cell + 10, 30 + len(groups) * cell, parts)


def theta() -> str:
    """What a layer computes with, and how its gradient is scaled, against the stored weight."""
    w = torch.linspace(-1.5, 1.5, 121)
    colours = {1.0: INK, 1.25: BLUE, 2.0: ORANGE}
    parts = []
    for left, zero, title in ((20, 150, "theta(w)"), (320, 250, "d theta / d w")):
        parts += [bar(left, zero, 250, 1, "#999"), bar(left + 125, 25, 1, 250, "#999")]
        parts.append(text(left + 125, 15, title, "middle"))
    for row, (beta, colour) in enumerate(colours.items()):
        leaf = w.clone().requires_grad_()
        value = powerprop(leaf, beta)
        (slope,) = torch.autograd.grad(value.sum(), leaf)
        parts += [curve(20, 150, w, value.detach(), 50, colour), curve(320, 250, w, slope, 70, colour)]
        parts += [bar(30, 40 + 16 * row, 14, 3, colour), text(50, 45 + 16 * row, f"beta = {beta:g}")]
    return svg(590, 285, parts)


def curve(left: float, zero: float, xs: torch.Tensor, ys: torch.Tensor, scale: float, colour: str) -> str:
    """A line through points; x is 0 in the middle of a field, y at `zero`, and one unit of y is `scale` points high."""
    return line(
        [(left + 125 + 83 * x, zero - scale * y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)], colour
    )


def density() -> str:
    """What one Top-K of 95 % leaves of each layer of an initial ResNet-8, without and with a floor."""
    names, weights = prunable(MODEL), weights_of(MODEL)
    parts, shown = [text(150, 15, "share of weights kept, of each layer, at 95 % sparsity")], 400
    for place, (floor, colour) in enumerate(((0.0, ORANGE), (0.2, BLUE))):
        kept = keep_largest(weights, 0.95, names, floor)
        parts += _bars(list(densities_of({name: kept[name] for name in names}).values()), place, colour, shown)
        parts.append(text(150 + 90 * place, 32, f"floor {floor:g}", colour=colour))
    parts += [text(142, 55 + 26 * row, name.removesuffix(".weight"), "end") for row, name in enumerate(names)]
    return svg(640, 50 + 26 * len(names), parts)


def _bars(shares: Sequence[float], place: int, colour: str, width: int) -> Iterable[str]:
    for row, share in enumerate(shares):
        y = 40 + 26 * row + 11 * place
        yield bar(150, y, width * share, 9, colour)
        yield text(156 + width * share, y + 9, f"{share:.1%}")


def main(folder: Path) -> None:
    """Write all figures into a folder."""
    figures = {"fedpart_schedule": schedule, "sparsyfed_theta": theta, "sparsyfed_density": density, "saving": saving}
    for name, figure in figures.items():
        (folder / f"{name}.svg").write_text(figure())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
