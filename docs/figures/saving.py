"""Accuracy against what was sent, up and down, from measured runs (`measured.py` writes their files)."""

import csv
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from pen import BLUE, INK, ORANGE, bar, field, line, svg, text

NAMES = {"fedavg": ("FedAvg", INK), "fedpart": ("FedPart", BLUE), "sparsyfed": ("SparsyFed", ORANGE)}
HERE = Path(__file__).parent
WIDTH, HEIGHT, TOP = 350, 210, 40


def saving() -> str:
    """A panel for each data set."""
    digits = _panel(50, "digits, 10 clients", "digits.csv", lowest=0.8, step=25)
    cifar10 = _panel(470, "CIFAR-10, ResNet-8, 40 clients x 500", "cifar10.csv", lowest=0.45, step=2000)
    return svg(850, 300, [*digits, *cifar10])


class _Scale:
    """Bytes and accuracies as places in a panel."""

    def __init__(self, left: float, points: list[tuple[float, float]], lowest: float) -> None:
        self.left, self.lowest = left, lowest
        self.most, self.highest = (max(values) for values in zip(*points, strict=True))

    def x(self, sent: float) -> float:
        """Where so many bytes stand."""
        return self.left + WIDTH * sent / self.most

    def y(self, accuracy: float) -> float:
        """Where an accuracy stands; the panel's foot for all that are lower than it shows."""
        share = (max(accuracy, self.lowest) - self.lowest) / (self.highest - self.lowest)
        return TOP + HEIGHT * (1 - share)


def _panel(left: float, title: str, file: str, lowest: float, step: int) -> Iterator[str]:
    """The lines of one file's runs. lowest: accuracy at the foot. step: megabytes between marks."""
    runs = _rounds(HERE / file)
    scale = _Scale(left, [point for rounds in runs.values() for points in rounds for point in points], lowest)
    yield text(left, 20, title)
    yield from _axes(scale, step)
    for row, (strategy, (name, colour)) in enumerate(NAMES.items()):
        rounds = runs.get(strategy)
        if rounds is None:
            continue
        sent_mb = mean(x for x, _ in rounds[-1]) / 1e6
        sent = [scale.x(mean(x for x, _ in points)) for points in rounds]
        highs, lows, means = ([scale.y(of(y for _, y in points)) for points in rounds] for of in (max, min, mean))
        yield field([*zip(sent, highs, strict=True), *reversed([*zip(sent, lows, strict=True)])], colour)
        yield line([*zip(sent, means, strict=True)], colour)
        yield text(left + WIDTH, TOP + HEIGHT - 50 + 18 * row, f"{name}, {sent_mb:.0f} MB", "end", colour)


def _axes(scale: _Scale, step: int) -> Iterator[str]:
    for twentieth in range(round(20 * scale.lowest), math.floor(20 * scale.highest) + 1):
        y = scale.y(twentieth / 20)
        yield bar(scale.left, y, WIDTH, 1, "#e3e6ea")
        yield text(scale.left - 8, y + 4, f"{twentieth / 20:.2f}", "end")
    for megabytes in range(0, math.floor(scale.most / 1e6) + 1, step):
        yield text(scale.x(megabytes * 1e6), TOP + HEIGHT + 18, f"{megabytes} MB", "middle")
    yield text(scale.left, TOP + HEIGHT + 38, "accuracy of the global model, by what was sent up and down")


def _rounds(file: Path) -> dict[str, list[list[tuple[float, float]]]]:
    """By strategy, for each round that sent something: bytes so far and accuracy of each seed."""
    runs: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    with file.open() as lines:
        for row in csv.DictReader(lines):
            if int(row["bytes"]):
                runs[row["strategy"]][int(row["round"])].append((int(row["bytes"]), float(row["accuracy"])))
    return {strategy: list(rounds.values()) for strategy, rounds in runs.items()}
