import time
import uuid

import pytest

from app.flower import marked
from tests.runs import ROOT


@pytest.fixture
def leaves_nothing(monkeypatch):
    """Marks the environment of whatever a test starts, and looks afterwards for who still has the mark."""
    mark = f"FEDSLICE_TEST={uuid.uuid4().hex}"
    monkeypatch.setenv(*mark.split("="))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield
    deadline = time.monotonic() + 20
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == {}
