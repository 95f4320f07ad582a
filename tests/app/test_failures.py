"""A run that did not do its work says so; one that lost some clients goes on and names them."""

import logging
import shlex

import pytest
import yaml

from app.__main__ import one_by_one
from clients.numpy_client import FederatedClient
from strategies.cohort import RunFailed
from tests.runs import Run, command, merged, play, shell


@pytest.fixture
def failing(monkeypatch):
    """Makes training fail where `condition(partition, round)` holds."""
    original = FederatedClient.fit

    def install(condition):
        def fit(self, parameters, config):
            if condition(self.partition, config["round"]):
                raise RuntimeError("out of memory")
            return original(self, parameters, config)

        monkeypatch.setattr(FederatedClient, "fit", fit)

    return install


@pytest.mark.parametrize("rounds", [2, 3, 8])
def test_all_fail_in_every_round(failing, cli, rounds, tmp_path):
    """However few the rounds: none of them did anything."""
    failing(lambda partition, server_round: True)
    status, _, complaint = cli(*merged("hydra.run.dir=run", f"rounds={rounds}"))
    assert status == 1
    assert complaint.count("\n") == 1
    assert "client 0: RuntimeError: out of memory" in complaint
    assert not (tmp_path / "run" / "summary.json").exists()
    rows = Run(tmp_path / "run").rows  # the round that ends the run is recorded too
    assert [row["round"] for row in rows] == list(range(min(rounds, 3) + 1))


def test_all_are_rejected(cli):
    """Training that runs away gives NaN, which nobody lets into the model."""
    status, _, complaint = cli(*merged("client.optimizer=sgd", "client.lr=1e30"))
    assert (status, complaint.count("\n")) == (1, 1)
    assert "NaN or infinity" in complaint


def test_some_fail(failing, tmp_path):
    failing(lambda partition, server_round: partition == 1 and server_round != 2)
    run = play(tmp_path)
    reason = {"1": "RuntimeError: out of memory"}
    assert [row["failed"] for row in run.rows] == [0, 1, 0, 1]
    assert [row["completed"] for row in run.rows] == [0, 2, 3, 2]
    assert [row["reasons"] for row in run.rows] == [{}, reason, {}, reason]
    assert [row["sampled"] for row in run.rows[1:]] == [[0, 1, 2]] * 3
    assert (run.summary["failed_total"], run.summary["completed_total"]) == (2, 7)


def test_a_round_in_which_all_fail_keeps_the_model(failing, tmp_path):
    failing(lambda partition, server_round: server_round == 2)
    run = play(tmp_path, "strategy=fedavg")
    assert [row["completed"] for row in run.rows] == [0, 3, 0, 3]
    assert (run.rows[2]["accuracy"], run.rows[2]["loss"]) == (run.rows[1]["accuracy"], run.rows[1]["loss"])
    assert run.rows[2]["train_loss"] is None


def test_so_many_failed_rounds_in_a_row_end_the_run(failing, tmp_path):
    failing(lambda partition, server_round: server_round in (1, 3, 4))
    with pytest.raises(RunFailed, match=r"^2 rounds in a row without 1 accepted replies; client 0: RuntimeError"):
        play(tmp_path, "rounds=9", "cohort.max_failed_rounds=2")


def test_too_few_accepted_replies(failing, tmp_path):
    failing(lambda partition, server_round: partition > 0)
    with pytest.raises(RunFailed, match="without 2 accepted replies; client 1: RuntimeError"):
        play(tmp_path, "rounds=5", "cohort.min_clients=2")


def test_clients_with_too_few_examples_are_named(tmp_path):
    """A skewed split may leave a client with nothing to learn from."""
    overrides = ("partition=dirichlet", "partition.alpha=0.02", "partition.min_size=0", "task.clients=12", "rounds=1")
    run = play(tmp_path, *overrides, "strategy=fedavg")
    assert run.rows[1]["failed"] > 0
    assert run.rows[1]["completed"] + run.rows[1]["failed"] == 12
    assert all("at least 2 are needed" in reason for reason in run.rows[1]["reasons"].values())


def test_whoever_fails_is_named_on_the_console(failing, cli):
    failing(lambda partition, server_round: partition == 1)
    status, out, complaint = cli(*merged("rounds=1"))
    assert (status, complaint) == (0, "")
    assert "FedPartStrategy: " in out.splitlines()[0]
    assert "round 1: client 1 left out: RuntimeError: out of memory" in out.splitlines()


def test_the_logger_is_left_as_it_was(tmp_path):
    log = logging.getLogger("fedslice")
    before = (log.level, log.propagate, list(log.handlers))
    play(tmp_path, "rounds=1")
    assert (log.level, log.propagate, log.handlers) == before


def test_a_sweeps_status_is_its_worst(failing, cli):
    failing(lambda partition, server_round: True)
    status, _, complaint = cli("-m", "hydra.sweep.dir=sweep", "strategy=fedavg,fedpart", *merged("rounds=1"))
    assert (status, complaint.count("\n")) == (1, 2)


def test_a_sweep_over_strategies_sets_their_keys(tmp_path, cli):
    """Keys that the default strategy does not have, beside the choice of the strategy, in any order."""
    folder = f"hydra.sweep.dir='{tmp_path}'"
    keys = ("strategy.sparsity=0.9", "strategy.dense_layers=[fc]", "strategy=sparsyfed,topk", "client.lr=0.1")
    status, out, _ = cli("-m", folder, *keys, *merged("rounds=1"))
    assert (status, out.splitlines()[-1]) == (0, f"compare: python -m app.report {tmp_path}")
    runs = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert runs == ["0-sparsyfed", "1-topk"]
    assert yaml.safe_load((tmp_path / "1-topk" / "config.yaml").read_text())["strategy"]["dense_layers"] == ["fc"]


HYDRAS_OWN = [["--config-dir", "folder"], ["-cd", "folder"], ["--config-name=other"], ["-cn", "other"], ["-c", "job"],
              ["--cfg", "job"], ["--package", "strategy"], ["--info", "config"], ["--resolve"], []]  # fmt: skip


@pytest.mark.parametrize("options", HYDRAS_OWN, ids=" ".join)
@pytest.mark.parametrize("first", [True, False])
def test_in_a_sweep_values_of_hydras_own_options_stay_what_they_are(options, first):
    def sweep(key):
        overrides = ["strategy=topk,zerofl", key]
        return ["-m", *options, *overrides] if first else ["-m", *overrides, *options]

    assert one_by_one(sweep("strategy.sparsity=0.9")) == sweep("strategy.sparsity=choice(0.9)")


def test_a_sweep_and_help_with_a_folder_of_ones_own_choices(tmp_path, cli):
    (tmp_path / "own" / "scale").mkdir(parents=True)
    (tmp_path / "own" / "scale" / "mine.yaml").write_text("# @package _global_\nrounds: 1\n")
    own = ("--config-dir", str(tmp_path / "own"))
    keys = [key for key in merged("strategy=fedavg,topk") if not key.startswith("rounds=")]
    assert cli("-m", *own, f"hydra.sweep.dir='{tmp_path}'", "scale=mine", *keys)[0] == 0
    assert [len((folder / "rounds.jsonl").read_text().splitlines()) for folder in tmp_path.glob("?-*")] == [2, 2]
    assert cli("--help", *own)[0] == 0


def test_another_process_exits_with_1(tmp_path):
    """One example each: every setting is well typed, no client can train."""
    done = shell(command(tmp_path / "run", "task.examples=1"), tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "client 0 has 1 examples: at least 2 are needed to train" in done.stderr
    assert not (tmp_path / "run" / "summary.json").exists()


def test_more_clients_wanted_than_there_are(cli, files_left):
    """Nobody would ever come, so that nobody is waited for."""
    status, out, complaint = cli(*merged("cohort.min_clients=9"))
    assert complaint == "fedslice: cohort.min_clients=9: must be at most 3, task.clients\n"
    assert (status, out, files_left()) == (2, "", [])


def test_the_round_that_ends_a_run_is_recorded(tmp_path):
    """At this rate every client's model is NaN from round 1 on: three rounds are recorded, then the run ends."""
    with pytest.raises(RunFailed, match="3 rounds in a row"):
        play(tmp_path, "client.lr=1e30", "rounds=6", "strategy=fedavg")
    rows = Run(tmp_path).rows
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    assert [row["rejected"] for row in rows] == [0, 3, 3, 3]


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C in the local training of this round."""
    original = FederatedClient.fit

    def in_round(server_round):
        def fit(self, parameters, config):
            if config["round"] == server_round:
                raise KeyboardInterrupt
            return original(self, parameters, config)

        monkeypatch.setattr(FederatedClient, "fit", fit)

    return in_round


def test_an_interrupted_run_says_how_to_go_on(interrupted, cli, tmp_path):
    interrupted(3)
    given = merged("hydra.run.dir=run", "checkpoint.every=2", "task.clients=5")
    status, _, complaint = cli(*given)
    assert status == 130
    ours = shlex.join(text for text in given if not text.startswith("hydra."))
    command = f"python -m app {ours} resume={tmp_path / 'run'}"
    assert complaint == f"fedslice: interrupted; {command} goes on after its newest checkpoint\n"


def test_an_interrupted_run_without_a_checkpoint_says_so(interrupted, cli, tmp_path):
    interrupted(2)
    status, _, complaint = cli(*merged("hydra.run.dir=run", "checkpoint.every=2"))
    assert status == 130
    assert complaint.startswith("fedslice: interrupted before the first checkpoint")
    assert str(tmp_path / "run") in complaint
    assert [row["round"] for row in Run(tmp_path / "run").rows] == [0, 1]


def test_an_interrupt_before_the_run_is_one_word(monkeypatch, cli):
    def interrupted(cfg):
        raise KeyboardInterrupt

    monkeypatch.setattr("app.__main__.check", interrupted)
    status, _, complaint = cli("hydra.run.dir=run")
    assert (status, complaint[:21]) == (130, "fedslice: interrupted")


def test_a_run_that_never_was_leaves_no_folder(cli, tmp_path):
    assert cli("hydra.run.dir=run", "client.lr=-1")[0] == 2
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_named(cli, tmp_path):
    (tmp_path / "file").touch()
    status, _, complaint = cli("hydra.run.dir=file/run")
    assert (status, complaint.count("\n")) == (1, 1)
    assert complaint.startswith("fedslice: file/run: the run's directory cannot be made (")


def test_all_files_of_a_run_have_the_same_readers(tmp_path):
    """Those that a new file has here, for the checkpoint and the model too."""
    run = play(tmp_path / "run", "rounds=1", "checkpoint.every=1")
    (tmp_path / "new").touch()
    modes = {(run.folder / name).stat().st_mode for name in run.files}
    assert modes == {(tmp_path / "new").stat().st_mode}
