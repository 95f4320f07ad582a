"""What updates give away: python -m app.privacy [--images 5] [--out privacy.html] [overrides].

An honest but curious server sees the update of one step of plain gradient descent on one image, which is the
gradient but for its sign and the learning rate, and tries to get the image back (`clients.inversion`): from a full
update, from a partial one (one layer group alone, as FedPart sends it, each in turn), and from sparse ones (the
values at the largest weights, as SparsyFed sends them, or the largest changes). This is the attacker's best case:
local epochs over many images give away less.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from app.config import compose, make
from app.files import write_text
from app.privacy.leaks import Leak, find_leaks, partial_mean
from app.privacy.page import leaks_page, spread
from app.stored import read_weights
from clients.inversion import Attack
from clients.tasks.images import ImageTask


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and write the page; 2 for what cannot be attacked."""
    args = _arguments(argv)
    try:
        title, note, leaks = _attack(args)
        write_text(args.out, leaks_page(title, note, leaks))
    except (ValueError, OSError) as error:
        print(f"fedslice: {error}", file=sys.stderr)
        return 2
    table = Table("update", "PSNR in dB", "SSIM", title=title, caption=note)
    for leak in [*leaks[1:], partial_mean(leaks)]:
        table.add_row(leak.kind, spread(leak.psnr), spread(leak.ssim))
    Console().print(table)
    print(f"figure: {args.out}")
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m app.privacy", description="What updates give away.")
    parser.add_argument("--images", type=int, default=5, help="how many to reconstruct (default: 5)")
    parser.add_argument("--iterations", type=int, default=400, help="of the attack (default: 400)")
    parser.add_argument("--sparsity", type=float, default=0.95, help="of the sparse updates (default: 0.95)")
    parser.add_argument("--weights", type=Path, help="model.safetensors of a run; default: the initial model")
    parser.add_argument("--out", type=Path, default=Path("privacy.html"), help="default: privacy.html")
    parser.add_argument("overrides", nargs="*", help="as for python -m app: task=cifar10 task.data=FOLDER")
    return parser.parse_intermixed_args(argv)


def _attack(args: argparse.Namespace) -> tuple[str, str, list[Leak]]:
    """A title, the setting in words, and the leaks."""
    if args.images < 1:
        raise ValueError(f"--images={args.images}: must be at least 1")
    if not 0 <= args.sparsity < 1:
        raise ValueError(f"--sparsity={args.sparsity}: must be at least 0 and below 1")
    cfg = compose(args.overrides)
    task = make(cfg, "task")
    if not isinstance(task, ImageTask):
        raise ValueError(f"task={cfg.task.name}: must be one of images, which can be looked at")
    torch.set_num_threads(cfg.client.threads)  # more only wait for each other over such small images
    model = task.build_model(cfg.seed)
    if args.weights:
        read_weights(model, args.weights)
    attack = Attack(args.iterations)
    leaks = find_leaks(task, model, args.images, attack, args.sparsity, cfg.seed)
    state = f"weights of {args.weights.name}" if args.weights else "initial weights"
    note = (
        f"{args.images} test images, one gradient step on one image each, {state}, seed {cfg.seed}; label known, "
        f"norms with running statistics; {attack.iterations} iterations"
    )
    return f"{cfg.task.name}, {cfg.task.model}: gradient inversion", note, leaks


if __name__ == "__main__":
    sys.exit(main())
