"""docs/devices.md and its files fit each other; what they do is in test_deployment.py."""

import os
import re
import shutil
import subprocess

import pytest

from app.config import compose
from tests.deployment import DEPLOY, settings, unit
from tests.runs import ROOT

DOC = (ROOT / "docs" / "devices.md").read_text()


@pytest.mark.parametrize(("script", "file"), [("superlink", "server"), ("supernode", "device")])
def test_the_files_of_a_service_fit_each_other(script, file, tmp_path):
    """What the script asks for is what the environment file gives; what is missing is named."""
    text = (DEPLOY / f"{script}.sh").read_text()
    assert set(re.findall(r"\$\{(FEDSLICE_\w+):\?", text)) == set(settings(file))
    section = unit(script)["Service"]
    assert section["ExecStart"] == f"/opt/fedslice/docs/deploy/{script}.sh"
    assert section["EnvironmentFile"] == f"/etc/fedslice/{file}.env"
    for name in settings(file):
        env = {**{key: str(tmp_path) for key in settings(file) if key != name}, "PATH": os.environ["PATH"]}
        done = subprocess.run([DEPLOY / f"{script}.sh"], env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, name in done.stderr) == (1, True)


@pytest.mark.parametrize("name", ["superlink", "supernode"])
def test_systemd_takes_the_units(name, tmp_path):
    if (systemd := shutil.which("systemd-analyze")) is None:
        pytest.skip("no systemd on this machine")
    copy = tmp_path / f"fedslice-{name}.service"
    copy.write_text((DEPLOY / copy.name).read_text().replace("/opt/fedslice", str(ROOT)))
    done = subprocess.run([systemd, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert copy.name not in done.stderr
    assert done.returncode == 0, done.stderr


def test_the_guide_makes_every_file_that_the_services_need(tmp_path):
    """Its own commands, in a folder that stands for /; the server's files and the device's side by side."""
    for folder in ("systemd/system", "nginx/conf.d"):
        (tmp_path / "etc" / folder).mkdir(parents=True)
    blocks = re.findall(r"```\n(.*?)```", DOC.partition("## Register devices")[0], re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if not line.startswith(("chown ", "systemctl "))]
    for line in lines:
        here = line.replace("scp root@server.example:", "cp ").replace("/opt/fedslice", str(ROOT))
        subprocess.run(here.replace("/etc/", f"{tmp_path}/etc/"), shell=True, check=True, capture_output=True)
    needed = {path for file in DEPLOY.iterdir() for path in re.findall(r"/etc/[\w./-]+", file.read_text())}
    assert len(needed) > 6
    assert [path for path in sorted(needed) if not (tmp_path / path[1:]).exists()] == []


def test_the_document_names_every_file():
    for path in DEPLOY.iterdir():
        assert path.name in DOC
        if path.suffix == ".sh":
            assert os.access(path, os.X_OK)


@pytest.mark.parametrize("overrides", sorted(set(re.findall(r'overrides="([^"]+)"', DOC))))
def test_the_runs_in_it_compose(overrides):
    cfg = compose(overrides.split())
    assert cfg.cohort.min_clients == 2
