"""Flower's ClientApp: the same on a device, in Flower's simulation and inline."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from torch import nn

from app.config import from_run_config, make, plain
from app.keepsakes import FOLDER, Keepsakes
from app.packed_app import PackedClientApp
from clients.adapter import train_reply
from clients.allocator import keep_freed_memory
from clients.memory import LocalModels, Memory
from clients.messages import WHO, Order
from clients.numpy_client import FederatedClient
from clients.objectives import Objective
from clients.tasks.task import Task
from clients.training import LocalTraining

app = PackedClientApp()


@dataclass(frozen=True)
class Site:
    """What all clients of one process share: nothing in it remembers a client."""

    task: Task
    model: nn.Module
    training: LocalTraining
    seed: int
    batch_norm: str
    objective: Objective
    groups: Sequence[Sequence[str]] | None
    checkpoint_every: int


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train as the message says, on the data of the client that it names or on the device's own."""

    def client_for(order: Order) -> FederatedClient:
        here = _site_of(context)
        if path := context.node_config.get("data-path"):
            examples = here.task.device_examples(str(path))
        else:
            examples = here.task.client_examples(order.partition, order.clients)
        return FederatedClient(
            here.model,
            here.task,
            examples,
            here.training,
            order.partition,
            here.seed,
            here.batch_norm,
            here.objective,
            LocalModels(context.state, order.partition),
            here.groups,
            _own_sparsity(context.node_config.get("sparsity")),
        )

    def kept(order: Order) -> AbstractContextManager[None]:
        folder = os.environ.get(FOLDER)
        if not order.plan.lineage or not folder or not context.run_id:  # inline, the checkpoint holds it
            return nullcontext()
        keepsakes = Keepsakes(
            Path(folder), order.plan, order.partition, context.run_id, _site_of(context).checkpoint_every
        )
        return keepsakes.around(context.state)

    return train_reply(message, Memory(context.state), client_for, kept)


def _site_of(context: Context) -> Site:
    return _site(str(context.run_config.get("cfg-yaml", "")), str(context.run_config.get("overrides", "")))


def _own_sparsity(value: Any) -> float | None:
    """A device's own target, from its node-config. Raises ValueError for what is no number."""
    try:
        return None if value is None else float(value)
    except ValueError:
        raise ValueError(f"sparsity={value} in the node-config: must be a number from 0 to below 1") from None


@app.query(WHO)
def who(message: Message, context: Context) -> Message:
    """Say which client this node is, from its node-config."""
    return Message(RecordDict({WHO: ConfigRecord(_identity(context.node_config))}), reply_to=message)


def _identity(node_config: Mapping[str, Any]) -> dict[str, Any]:
    """Partition and number of partitions, or a name for the device's own data, or what is missing."""
    texts = {key: str(node_config[key]) for key in ("partition-id", "num-partitions") if key in node_config}
    answer = {key: int(text) for key, text in texts.items() if text.isdecimal()}
    path = node_config.get("data-path")
    if path and answer.keys() == texts.keys():
        answer.pop("num-partitions", None)
        return {**answer, "data": hashlib.sha256(str(path).encode()).hexdigest()}
    if not path and len(answer) == 2 and answer["partition-id"] < answer["num-partitions"]:
        return answer
    example = "--node-config 'partition-id=0 num-partitions=2', or 'data-path=\"/path/to/its/own/data\"'"
    return {
        "error": f"its node-config {dict(node_config)} does not say which data to train on; start it with {example}"
    }


@lru_cache(maxsize=1)
def _site(cfg_yaml: str, overrides: str) -> Site:
    """Built once per process and run."""
    keep_freed_memory()
    cfg = from_run_config({"cfg-yaml": cfg_yaml, "overrides": overrides})
    task: Task = make(cfg, "task")
    training: LocalTraining = make(cfg, "client")
    model = task.build_model(cfg.seed)
    if training.channels_last:
        model = model.to(memory_format=torch.channels_last)
    return Site(
        task,
        model,
        training,
        cfg.seed,
        cfg.batch_norm,
        make(cfg, "objective"),
        plain(cfg.groups),
        cfg.checkpoint.every,
    )
