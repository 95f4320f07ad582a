"""What runs reached and sent, a line a round, for `saving.py`.

python docs/figures/measured.py RUN... > FILE.csv
"""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path


def rounds(run: Path) -> Iterator[list[object]]:
    """Strategy, seed, round, accuracy, and bytes both ways until then, of all rounds that were evaluated."""
    summary = json.loads((run / "summary.json").read_text())
    for row in map(json.loads, (run / "rounds.jsonl").read_text().splitlines()):
        if row["accuracy"] is not None:
            sent = row["bytes_down_total"] + row["bytes_up_total"]
            yield [summary["strategy"], summary["seed"], row["round"], row["accuracy"], sent]


def main(runs: list[Path]) -> None:
    """Write the runs' rounds to standard output."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["strategy", "seed", "round", "accuracy", "bytes"])
    for run in runs:
        out.writerows(rounds(run))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
