"""Every task and partition yaml composes with any other and constructs what it says."""

from pathlib import Path

import pytest
from hydra.errors import InstantiationException
from omegaconf import OmegaConf

from clients.tasks.images import ImageTask
from clients.tasks.text import TextTask

CONF = Path(__file__).resolve().parents[2] / "conf"
IMAGES = ("digits", "cifar10", "asc_kws", "speech")
TASKS = {**dict.fromkeys(IMAGES, ImageTask), "agnews": TextTask, "sogou": TextTask}
PARTITIONS = sorted(path.stem for path in (CONF / "partition").glob("*.yaml"))


def test_the_partitions_are_there():
    assert set(PARTITIONS) >= {"iid", "dirichlet", "pathological", "natural", "draw"}


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", TASKS)
def test_every_combination_constructs(make_task, name, partition):
    column = ["partition.column=writer"] if partition == "natural" else []
    task = make_task(f"task={name}", f"partition={partition}", "seed=7", "task.clients=10", *column)
    assert isinstance(task, TASKS[name])
    assert (task.name, task.seed, task.clients) == (name, 7, 10)
    assert type(task.partition).__name__.lower() == {"skewed": "dirichlet"}.get(partition, partition)


@pytest.mark.parametrize("partition", [p for p in PARTITIONS if p != "natural"])
def test_every_partition_splits_the_digits(make_task, partition):
    statistics = make_task(f"partition={partition}", "task.clients=8", "task.examples=20").split_statistics()
    assert statistics["clients"] == 8
    assert max(statistics["examples"]) <= 20


def test_defaults_of_cifar10_are_the_papers(compose_config):
    task = compose_config("task=cifar10").task
    assert (task.model, task.stem, task.flip, task.rotation) == ("resnet8", "imagenet", True, 15)


def test_defaults_of_ag_news_are_the_papers(compose_config):
    task = compose_config("task=agnews").task
    assert (task.hidden, task.heads, task.feedforward, task.layers) == (200, 2, 200, 3)
    assert (task.dropout, task.max_length, task.min_count, task.tokens) == (0.1, 512, 5, "words")


def test_sogou_differs_in_its_data_alone(compose_config):
    news, sogou = compose_config("task=agnews").task, compose_config("task=sogou").task
    assert {key for key in news if news[key] != sogou[key]} == {"name", "source"}
    assert (sogou.source.hub, sogou.source.classes) == ("community-datasets/sogou_news", 5)
    assert sogou.source.text_columns == ["title", "content"]


@pytest.mark.parametrize("name", ["cifar10", "agnews", "sogou", "asc_kws", "speech"])
def test_the_path_reaches_the_source(make_task, name):
    task = make_task(f"task={name}", "task.data='/some where'")
    assert task.data == task.source.path == "/some where"


def test_a_row_filter_reaches_the_source(make_task):
    task = make_task("task=agnews", "task.where={source: iid5k}")
    assert task.where == task.source.where == {"source": "iid5k"}


def test_overrides_of_a_partition_reach_it(make_task):
    assert make_task("partition=dirichlet", "partition.alpha=0.1").partition.alpha == 0.1


def test_a_wrong_model_names_the_choices(make_task):
    with pytest.raises(InstantiationException) as caught:
        make_task("task.model=resnet9")
    assert (
        str(caught.value.__cause__)
        == "task.model=resnet9: must be one of cnn, resnet8, resnet18, or package.module:Class"
    )


def test_a_resolved_task_section_stands_alone(compose_config):
    """A configuration that was resolved and sent as text holds the whole partition."""
    section = OmegaConf.to_container(compose_config("partition=draw").task, resolve=True)
    assert section["partition"] == {"_target_": "clients.tasks.partition.Draw"}
