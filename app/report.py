"""stub replaced below"""

from pathlib import Path


def write_report(run_dirs, target):
    Path(target).write_text("x")
