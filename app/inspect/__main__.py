"""python -m app.inspect RUN...: first-layer kernels, and images that units of each layer respond to, as one page.

Several runs stand side by side, such as full against partial training.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from app.inspect.models import load, look
from app.inspect.page import page


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 2 there is nothing to look at."""
    parser = argparse.ArgumentParser(prog="python -m app.inspect", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a finished run's directory")
    parser.add_argument("--units", type=_positive, default=8, help="of each layer (default: 8)")
    parser.add_argument("--steps", type=_positive, default=128, help="of ascent for each image (default: 128)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise that images start from (default: 0)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: inside.html in the first run's directory")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    target = args.out or args.runs[0] / "inside.html"
    try:
        trained = [load(path) for path in args.runs]
        seen = [(one, look(one, args.units, args.steps, args.seed)) for one in trained]
        note = f"{args.steps} steps of ascent from the noise of seed {args.seed}, for {args.units} units of each layer"
        target.write_text(page(seen, note), encoding="utf-8")
    except (ValueError, OSError) as error:
        print(f"fedslice: {error}", file=sys.stderr)
        return 2
    print(f"inside: {target}")
    return 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
