"""Peak memory is this process's, and never falls."""

import subprocess
import sys

import numpy as np

from clients.peak import peak_memory_mb
from tests.runs import ROOT, environ


def test_it_rises_with_what_is_held_and_does_not_fall():
    before = peak_memory_mb()
    array = np.ones(256 * 2**17)  # 256 MB, written to
    held = peak_memory_mb()
    del array
    assert held >= 256
    assert held >= before
    assert peak_memory_mb() >= 0.98 * held  # the kernel counts in batches of pages


def test_it_is_not_that_of_the_process_that_started_this_one():
    array = np.ones(256 * 2**17)
    command = [sys.executable, "-c", "from clients.peak import peak_memory_mb; print(peak_memory_mb())"]
    done = subprocess.run(command, cwd=ROOT, env=environ(), capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) < 256 <= array.nbytes / 2**20
