"""Files of runs that are damaged: refused by name or, where a run can do without, passed over."""

import shutil

import pytest

from app.checkpoint import load
from app.config import ConfigError, compose
from app.privacy.__main__ import main as privacy
from app.stored import load_run
from tests.app.test_keepsakes import trains
from tests.mutations import check_mutations, mutated
from tests.runs import merged, play

OVERRIDES = ("strategy=fedavg", "rounds=2", "checkpoint.every=1")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return play(tmp_path_factory.mktemp("run"), *OVERRIDES).folder


@pytest.fixture
def copy(run, tmp_path):
    """The run's directory, which a test may break."""
    return shutil.copytree(run, tmp_path / "copy")


def head(file):
    """The length of a safetensors file's header: names, shapes and texts. In what follows every value is one."""
    return 8 + int.from_bytes(file.read_bytes()[:8], "little")


def test_the_model_of_a_finished_run(copy):
    file = copy / "model.safetensors"
    check_mutations(file, lambda: load_run(copy), f"{copy}: ", count=100, head=head(file))


def test_the_configuration_of_a_finished_run(copy):
    check_mutations(copy / "config.yaml", lambda: load_run(copy), f"{copy}: ", count=60)


def test_weights_to_attack(copy, capsys, monkeypatch):
    file = copy / "model.safetensors"
    monkeypatch.setattr("app.privacy.__main__.find_leaks", lambda *_: pytest.fail("attacked"))
    for changed in mutated(file.read_bytes()[: head(file) // 2], 20):
        file.write_bytes(changed)
        assert privacy(["--weights", str(file), "--out", str(copy / "out.html")]) == 2
        said = capsys.readouterr().err
        assert (said.startswith(f"fedslice: {file}: "), said.count("\n")) == (True, 1)


def test_the_newest_checkpoint(copy):
    """It gives way to the one before, whatever was changed: values, names, or the texts of rows and state."""
    cfg, file = compose(merged(*OVERRIDES)), copy / "checkpoints" / "round-000002.safetensors"
    whole = file.read_bytes()
    end = head(file)
    for changed in mutated(whole[:end], 150):
        file.write_bytes(changed + whole[end:])
        assert load(copy, cfg).round == 1 + (changed == whole[:end])
    for changed in mutated(whole[:end], 20):
        file.write_bytes(changed + whole[end:])
        with pytest.raises(ConfigError, match=rf"^resume={file}: none of its .* can be read \(round-000002.*\)$"):
            load(file, cfg)


def test_what_a_client_kept(tmp_path, caplog):
    """Passed over with a warning, whatever was changed."""
    trains(tmp_path, 1)
    file = next(tmp_path.rglob("round-*"))
    whole, name = file.read_bytes(), file.name
    for changed in mutated(whole, 150):
        shutil.rmtree(file.parent)
        file.parent.mkdir()
        file.write_bytes(changed)
        caplog.clear()
        assert trains(tmp_path, 2) == [1] * (changed == whole)
        assert (f"{name}: cannot be read" in caplog.text) == (changed != whole)
