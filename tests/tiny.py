"""Models, a task and a grid that are small enough to check by hand."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import torch
from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from torch import nn
from torch.nn import functional as F

from clients.layers import layer_groups, layout
from clients.macs import macs_per_example
from clients.messages import model_record, read_order, reply_content
from clients.tasks.task import Examples
from clients.weights import weights_of
from clients.wire import pack

torch.set_num_threads(1)  # as clients do
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 0, 1, 0  # Flower's messages ask for it
COSTS = {"loss": 0.5, "macs": 7, "macs-dense": 11, "seconds": 0.25}


def linear_net():
    """Two layer groups, `0` (4 to 3) and `1` (3 to 2): 12 and 6 multiply-accumulates an example."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))


class ConvNet(nn.Module):
    """Three layer groups, conv1+bn1, conv2+bn2, fc, over (n, 1, 4, 4); dropout before the last."""

    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.conv1 = nn.Conv2d(1, 2, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(2)
        self.conv2 = nn.Conv2d(2, 3, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(3)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))  # (n, 2, 4, 4)
        x = F.relu(self.bn2(self.conv2(x)))  # (n, 3, 4, 4)
        return self.fc(self.dropout(x.mean(dim=(2, 3))))


@dataclass(frozen=True)
class TinyTask:
    """Normally distributed inputs of a given shape, drawn per partition (implements `Task`)."""

    shape: tuple = (1, 4, 4)
    model: Callable[[], nn.Module] = ConvNet
    examples: int = 10
    classes: int = 2
    clients: int = 3
    name: str = "tiny"
    augments: bool = False

    def build_model(self, seed=0):
        return self.model()

    def client_examples(self, partition, clients=None):
        generator = torch.Generator().manual_seed(partition)
        inputs = torch.randn(self.examples, *self.shape, generator=generator) + partition
        return Examples(inputs, torch.randint(self.classes, (self.examples,), generator=generator))

    def prepare(self, inputs):
        return inputs.float()

    def augment(self, inputs, generator):
        return inputs


def layout_of(source):
    """Layout by the rule's own groups."""
    return layout(source, layer_groups(source))


def macs_of(model, shape, trained, cached=False):
    """Multiply-accumulates of an example of `shape`: in every epoch, or (once, in every epoch) where cached."""
    once, each = macs_per_example(model, (1, *shape), torch.float32, tuple(trained), "eval", cached)
    assert cached or once == 0
    return (once, each) if cached else each


def cross_entropy(inputs, outputs, targets):
    """The plain local objective."""
    return F.cross_entropy(outputs, targets)


def bits(state):
    """Names and bytes of a model's whole state or of weights: equal exactly when every bit is."""
    arrays = weights_of(state) if isinstance(state, nn.Module) else state
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def changed(before, after):
    """Names whose bits differ between two `bits`."""
    return {name for name in before if before[name] != after[name]}


def answer(message, weights, examples=1, **metrics):
    """A client's reply to a message, with these arrays."""
    return Message(reply_content(model_record(pack(weights)), examples, {**COSTS, **metrics}), reply_to=message)


def failure(message, reason="out of memory"):
    """Flower's own error reply to a message."""
    return Message(Error(6, reason), reply_to=message)


def asked(message):
    """The order that a server's message holds."""
    return read_order(message.content)


@dataclass
class ScriptedGrid(Grid):
    """Nodes whose answers a test writes: `answer` gives the reply to a message, None for silence.

    arrange: the order in which the messages are answered. sent: every message pushed so far; answered: how many
    replies were taken so far, for a reply is only made when it is asked for.
    """

    answer: Callable[[Message], Message | None] = lambda message: None
    node_ids: list[int] = field(default_factory=lambda: [1])
    arrange: Callable[[list[Message]], Iterable[Message]] = list
    sent: list[Message] = field(default_factory=list)
    answered: int = 0

    def set_run(self, run):
        pass

    @property
    def run(self):
        return Run.create_empty(run_id=0)

    def create_message(self, content: RecordDict, message_type, dst_node_id, group_id, ttl=None):
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self):
        return list(self.node_ids)

    def push_messages(self, messages):
        ids = []
        for message in messages:
            ids.append(str(uuid4()))
            message.metadata.__dict__["_message_id"] = ids[-1]
            self.sent.append(message)
        return ids

    def pull_messages(self, message_ids):
        wanted = set(message_ids)
        return self._replies([message for message in self.sent if message.metadata.message_id in wanted])

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))

    def _replies(self, messages) -> Iterator[Message]:
        for message in self.arrange(messages):
            reply = self.answer(message)
            if reply is not None:
                self.answered += 1
                yield reply
