"""Freed memory stays with the process; in a process of its own, because it stays so."""

import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from clients.allocator import keep_freed_memory

if {keep}:
    assert keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(5 << 20)  # 40 MB, which glibc would hand back each time
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep):
    done = subprocess.run([sys.executable, "-c", FAULTS.format(keep=keep)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's own")
def test_memory_that_is_asked_for_again_costs_no_faults():
    assert faults(keep=True) < faults(keep=False) / 5
