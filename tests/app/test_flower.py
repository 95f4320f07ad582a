"""What starts Flower's programs leaves nothing of them behind."""

import os
import sys
import time

import pytest

from app import flower

PARENT = "import subprocess, time; subprocess.Popen(['sleep', '611'], start_new_session=True); time.sleep(612)"


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="no /proc")  # noqa: PTH110
def test_descendants_that_left_the_group_end_with_it(tmp_path, monkeypatch):
    """Flower's SuperExec starts a session of its own, and what it starts outlives a SuperLink that was killed."""
    monkeypatch.setattr(flower, "_GRACE", 0.1)
    mark = f"FEDSLICE_TEST=descendants-{os.getpid()}"
    env = {**os.environ, "FEDSLICE_TEST": mark.partition("=")[2]}
    with flower.started([sys.executable, "-c", PARENT], env, tmp_path / "log") as process:
        deadline = time.monotonic() + 60
        while not any("611" in line and "sleep" in line.split()[0] for line in flower.marked(mark).values()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert process.poll() is not None
    assert flower.marked(mark) == {}
