"""The deployment of docs/devices.md on loopback: its own scripts, units and proxy, and somebody who plays systemd."""

import configparser
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import tomli_w

from app.flower import environment, free_port, started
from tests.devices import own_digits
from tests.runs import ROOT

DEPLOY = ROOT / "docs" / "deploy"
NO_RAY = 'raise ModuleNotFoundError("no ray on this machine", name="ray")\n'


def unit(name: str) -> configparser.ConfigParser:
    """A unit file of docs/deploy."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(DEPLOY / f"fedslice-{name}.service")
    return parser


def settings(name: str) -> dict[str, str]:
    """An environment file of docs/deploy."""
    lines = (DEPLOY / f"{name}.env").read_text().splitlines()
    return {key: value.strip("'") for key, value in (line.split("=", 1) for line in lines)}


class Service(threading.Thread):
    """Plays systemd: starts a unit's program, and anew some seconds after it ended, with nothing left of it."""

    def __init__(self, name: str, env: Mapping[str, str], log: Path) -> None:
        super().__init__(name=name)
        section = unit(name)["Service"]
        self.program = section["ExecStart"].replace("/opt/fedslice", str(ROOT))
        self.pause = float(section["RestartSec"])
        self.env, self.log, self.starts = env, log, 0
        self._over = threading.Event()
        self.start()
        self.wait_for(lambda: self.starts == 1)

    def run(self) -> None:
        while not self._over.is_set():
            with started([self.program], self.env, self.log) as self.process:
                self.starts += 1
                while self.process.poll() is None and not self._over.wait(0.1):
                    pass
                with suppress(ProcessLookupError):  # one that a test has stopped could not end
                    os.killpg(self.process.pid, signal.SIGCONT)
            self._over.wait(self.pause)

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *args: object) -> None:
        self._over.set()
        self.join()

    @property
    def said(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def wait_for(self, condition: Callable[[], object], seconds: float = 240) -> None:
        """Wait until `condition` holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{self.name} did not get there; its log:\n{self.said[-4000:]}"
            time.sleep(0.05)


class Deployment(ExitStack):
    """A server and its devices. The operator's Flower home, for `flwr_run`, is `home`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.certificates, self.home = folder, folder / "certificates", folder / "operator"
        self.port, self.door = free_port(), free_port()
        self.home.mkdir()
        (folder / "no ray").mkdir()
        (folder / "no ray" / "ray.py").write_text(NO_RAY)
        make_certificates(self.certificates)
        connection = {"address": f"127.0.0.1:{self.port}", "root-certificates": str(self.certificates / "ca.crt")}
        config = {"superlink": {"default": "fedslice", "fedslice": connection}}
        (self.home / "config.toml").write_text(tomli_w.dumps(config))

    def server(self) -> Service:
        """The SuperLink, and the proxy before it where nginx is installed (else devices reach it directly)."""
        env = self._environment("server", FEDSLICE_CERTIFICATES=str(self.certificates), FEDSLICE_PORT=str(self.port))
        service = self.enter_context(Service("superlink", env, self.folder / "superlink.log"))
        service.wait_for(lambda: "Uvicorn running" in service.said)
        if (nginx := shutil.which("nginx")) is None:
            self.door = self.port
        else:
            self.enter_context(
                started([nginx, "-p", str(self.folder), "-c", self._proxy()], env, self.folder / "nginx")
            )
        return service

    def device(self, number: int, registered: bool = True, **changes: str) -> Service:
        """A device with its own key and data, and without Ray; `changes` to its environment file."""
        name = f"device {number}"
        key = self.folder / f"{name}.key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", key], check=True)
        if registered:
            assert self.flwr("supernode", "register", f"{key}.pub", "fedslice").returncode == 0
        given = {
            "FEDSLICE_SUPERLINK": f"127.0.0.1:{self.door}",
            "FEDSLICE_CA": str(self.certificates / "ca.crt"),
            "FEDSLICE_KEY": str(key),
            "FEDSLICE_NODE": f'partition-id={number} data-path="{own_digits(self.folder, number, 12)}"',
            "PYTHONPATH": os.pathsep.join([str(self.folder / "no ray"), str(ROOT)]),
        }
        env = self._environment(name, FEDSLICE_PORT=str(free_port()), **{**given, **changes})
        return self.enter_context(Service("supernode", env, self.folder / f"{name}.log"))

    def flwr(self, *arguments: str, home: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """Flower's command line, as the operator."""
        env = environment(home or self.home)
        return subprocess.run(["flwr", *arguments], env=env, capture_output=True, text=True, check=False)

    def _environment(self, name: str, **changes: str) -> dict[str, str]:
        state = self.folder / f"state of {name}"
        state.mkdir()
        return {**environment(state), "FEDSLICE_STATE": str(state), **changes}

    def _proxy(self) -> str:
        """The proxy's configuration with this deployment's ports and paths; its path."""
        text = (DEPLOY / "nginx-fedslice.conf").read_text()
        text = text.replace("/etc/fedslice/certificates", f"{self.folder}/certificates")
        text = text.replace("/var/log/nginx", str(self.folder))
        text = text.replace("8443", f"127.0.0.1:{self.door}").replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {self.folder}/nginx-{kind};\n" for kind in kinds)
        path = self.folder / "nginx.conf"
        main = f"daemon off;\npid {self.folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
        path.write_text(f"{main}http {{\naccess_log off;\n{folders}{text}}}\n")
        return str(path)


def make_certificates(folder: Path) -> None:
    """With the script of docs/deploy."""
    subprocess.run([DEPLOY / "certificates.sh", folder, "server.example"], check=True, capture_output=True)
