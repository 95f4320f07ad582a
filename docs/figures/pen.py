"""What all figures are drawn with: SVG as text, in one size of type, on white, so that it can be read on any page."""

from collections.abc import Iterable, Sequence

BLUE, ORANGE, GREEN, PALE, INK = "#0072b2", "#d55e00", "#009e73", "#bcd3e6", "#1f2328"


def svg(width: int, height: int, parts: Iterable[str]) -> str:
    """A whole file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    style = f'font-family="sans-serif" font-size="12" fill="{INK}"'
    return "\n".join([f"{head} {style}>", f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>\n"])


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = INK) -> str:
    """A line of text whose baseline begins, is centred or ends at x."""
    fill = "" if colour == INK else f' fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fill}>{words}</text>'


def bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def line(points: Sequence[tuple[float, float]], colour: str) -> str:
    """A line through points."""
    return f'<polyline points="{_pairs(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'


def field(points: Sequence[tuple[float, float]], colour: str) -> str:
    """A pale field with these corners."""
    return f'<polygon points="{_pairs(points)}" fill="{colour}" opacity="0.18"/>'


def _pairs(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
