"""Clients in processes of their own: the same bits, no run that hangs, nobody left behind."""

import os
import pickle
import signal
import subprocess
import time
import uuid
from contextlib import closing
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from app.building import build_strategy
from app.config import compose, make, to_yaml
from app.flower import marked
from app.grids import InlineGrid
from app.workers import Workers, _Worker
from clients.messages import PLAN
from strategies.roster import SimulatedRoster
from tests.runs import command, environ, merged, play

SLICES = ("strategy=fedpart", "strategy.warmup=1", "strategy.rounds_per_layer=1", "task.clients=5")
TWO = "runtime.workers=2"


def test_two_workers_equal_one_and_can_be_resumed(tmp_path):
    """Five clients, three a round, so that a client is played now by this worker and now by that."""
    overrides = (*SLICES, "cohort.fraction=0.6", "rounds=4")
    one = play(tmp_path / "one", *overrides)
    two = play(tmp_path / "two", *overrides, TWO, "checkpoint.every=2")
    assert (two.timeless, two.sha256) == (one.timeless, one.sha256)
    half = two.folder / "checkpoints" / "round-000002.safetensors"
    rest = play(tmp_path / "rest", *overrides, TWO, f"resume='{half}'")
    assert (rest.timeless, rest.sha256) == (one.timeless, one.sha256)


def test_local_models_are_found_by_whoever_plays_the_client(tmp_path):
    overrides = ("objective=moon", "objective.queue=2", "task.clients=5", "cohort.fraction=0.6", "rounds=4")
    one, two = play(tmp_path / "one", *overrides), play(tmp_path / "two", *overrides, TWO)
    assert (two.timeless, two.sha256) == (one.timeless, one.sha256)


def test_a_worker_that_dies_fails_its_message_and_is_replaced():
    cfg = compose(merged("strategy=fedavg"))
    task = make(cfg, "task")
    strategy = build_strategy(cfg, task, SimulatedRoster(task.clients))
    run_config = {"cfg-yaml": to_yaml(cfg), "overrides": ""}
    with closing(Workers(2, run_config)) as workers:
        grid = InlineGrid(workers, run_config)
        orders = strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid)
        for worker in workers._workers:
            worker.process.kill()
        replies = {reply.metadata.reply_to_message_id: reply for reply in grid.send_and_receive(orders)}
        first, second, third = (replies[order.metadata.message_id] for order in orders)
        assert third.has_content()
        for failed in (first, second):
            assert failed.error.reason == "the process that played this client died"


def test_a_late_reply_is_dropped_with_what_its_client_would_remember(monkeypatch):
    """One worker, whose part the test plays: round 1 times out, and its reply comes while round 2 waits for its own."""
    ours, theirs = Pipe()
    process = SimpleNamespace(terminate=lambda: None, join=lambda: None)
    monkeypatch.setattr(Workers, "_start", lambda self: _Worker(process, ours))
    monkeypatch.setattr("app.workers._PATIENCE", 0)

    def order(text):
        return [Message(RecordDict({PLAN: ConfigRecord({"partition": 0, "text": text})}), 1, "train")]

    def reply():
        message, state = pickle.loads(theirs.recv_bytes())
        said = str(message.content[PLAN]["text"])
        answer = Message(RecordDict({said: ConfigRecord()}), reply_to=message)
        theirs.send_bytes(pickle.dumps((answer, {"memory-0": ConfigRecord({"of": said})})))
        return dict(state)

    with closing(Workers(1, {})) as workers:
        grid = InlineGrid(workers, {})
        assert grid.pull_messages(grid.push_messages(order("late"))) == []
        second = grid.push_messages(order("second"))
        states = [reply()]
        assert [grid.pull_messages(second), grid.pull_messages(second)] == [[], []]
        states.append(reply())
        (answer,) = grid.pull_messages(second)
    assert list(answer.content) == ["second"]
    assert states == [{}, {}]
    assert grid.context.state["memory-0"]["of"] == "second"


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whoever_ends_a_run_ends_its_workers(tmp_path, sign):
    """As Ctrl-C does, the signal goes to all processes of the run; kill reaches the first alone."""
    mark = f"FEDSLICE_TEST={uuid.uuid4().hex}"
    folder = tmp_path / "run"
    process = subprocess.Popen(
        command(folder, "rounds=10000", TWO),
        cwd=tmp_path, env=environ(**dict([mark.split("=")])),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # Where the tests themselves run in a shell's background, they and their children would ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    wait_for(lambda: (folder / "rounds.jsonl").exists() and "\n" in (folder / "rounds.jsonl").read_text()[1:])
    assert len(marked(mark)) > 3
    if sign == signal.SIGINT:
        os.killpg(process.pid, sign)
    else:
        process.send_signal(sign)
    complaint = process.communicate(timeout=60)[1]
    assert process.returncode == (130 if sign == signal.SIGINT else -sign)
    assert "Traceback" not in complaint
    wait_for(lambda: not marked(mark))


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
