"""Compute slices: what the frozen part below the slice gives for an example, it gives every time.

So its activations are computed once per local round, and only the rest is run in every epoch. The model's graph
(torch.fx) tells where the frozen part ends: at the first thing that learns, that looks at the whole batch
(a normalisation layer in training mode) or that draws random numbers (dropout). A model whose graph cannot be
traced is trained without this; the result is the same up to the last bits of a float.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from clients.partial import FrozenNorm
from clients.per_model import per_model

_RANDOM = ("dropout", "rand", "bernoulli", "multinomial", "normal_", "uniform_")
_LOOKS = ("getitem", "getattr", "size", "dim")


@dataclass(frozen=True)
class Split:
    """A model in two: `suffix(*prefix(inputs))` is `model(inputs)`. Both share the model's modules."""

    prefix: fx.GraphModule
    suffix: fx.GraphModule


@per_model
def split(model: nn.Module, trained: tuple[str, ...], frozen_norm: FrozenNorm) -> Split | None:
    """The model split below what `trained` names, None where nothing below it is worth it.

    To be called inside `clients.partial.training_only` with the same arguments, whose modes it looks at.
    """
    graph = _trace(model)
    if graph is None:
        return None
    live, constant = _live(model, graph), _constant(graph)
    fixed = [node for node in graph.nodes if node not in live]
    if any(_acts(node) for node in fixed):
        return None
    frontier = [node for node in fixed if node not in constant and any(user in live for user in node.users)]
    if all(node.op == "placeholder" for node in frontier):
        return None
    return Split(_prefix(model, fixed, frontier), _suffix(model, graph, live | constant, frontier))


@torch.no_grad()
def activations(parts: Split, batches: Iterable[Tensor], count: int, limit: int) -> tuple[Tensor, ...] | None:
    """What the prefix gives for `count` examples in `batches`; None where it would take over `limit` bytes.

    None too where it does not give one row per example, or another row for the same example in another batch.
    """
    rows: list[tuple[Tensor, ...]] = []
    for batch in batches:
        values = parts.prefix(batch)
        if not all(isinstance(value, Tensor) and value.dim() and len(value) == len(batch) for value in values):
            return None
        if not rows and not _same(values, parts.prefix(batch[: (len(batch) + 1) // 2])):
            return None
        if sum(value.nbytes for value in values) / len(batch) * count > limit:
            return None
        rows.append(values)
    shapes = [{value.shape[1:] for value in column} for column in zip(*rows, strict=True)]
    if any(len(shape) > 1 for shape in shapes):
        return None
    return tuple(torch.cat(column) for column in zip(*rows, strict=True))


def _same(whole: tuple[Tensor, ...], part: tuple[Tensor, ...]) -> bool:
    """Whether a smaller batch gave the same rows, up to the last bits."""
    pairs = zip(whole, part, strict=True)
    return all(w.shape[1:] == p.shape[1:] and torch.allclose(w[: len(p)], p, 1e-3, 1e-4) for w, p in pairs)


@per_model
def _trace(model: nn.Module) -> fx.Graph | None:
    try:
        return fx.Tracer().trace(model)
    except Exception:  # whatever a model's own forward raises when it is given a proxy
        return None


def _live(model: nn.Module, graph: fx.Graph) -> set[fx.Node]:
    """Nodes whose value may differ from epoch to epoch."""
    live: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op == "output" or any(source in live for source in node.all_input_nodes) or _moves(model, node):
            live.add(node)
    return live


def _constant(graph: fx.Graph) -> set[fx.Node]:
    """Nodes that no input reaches, such as a table of positions: not examples, so not to be kept by example."""
    constant: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op != "placeholder" and all(source in constant for source in node.all_input_nodes):
            constant.add(node)
    return constant


def _looks_at_batch(module: nn.Module) -> bool:
    """Whether a normalisation layer takes the batch's own mean and variance."""
    return isinstance(module, nn.modules.batchnorm._NormBase) and (module.training or module.running_mean is None)


def _moves(model: nn.Module, node: fx.Node) -> bool:
    """Whether a node learns, looks at the whole batch, or draws random numbers."""
    if node.op == "call_module":
        module = model.get_submodule(str(node.target))
        learns = any(parameter.requires_grad for parameter in module.parameters())
        batchwise = any(map(_looks_at_batch, module.modules()))
        random = any(isinstance(part, nn.modules.dropout._DropoutNd) and part.training for part in module.modules())
        return learns or batchwise or random
    if node.op == "get_attr":
        owner, _, name = str(node.target).rpartition(".")
        return bool(getattr(model.get_submodule(owner), name).requires_grad)
    return node.op != "placeholder" and any(word in str(node.target) for word in _RANDOM)


def _acts(node: fx.Node) -> bool:
    """Whether a node's value is not used: it is there for what it does, such as `x.relu_()`, which no copy would."""
    looks = getattr(node.target, "__name__", node.target) in _LOOKS  # as unpacking a shape does
    return node.op.startswith("call") and not node.users and not looks


def _prefix(model: nn.Module, fixed: list[fx.Node], frontier: list[fx.Node]) -> fx.GraphModule:
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    needed = set(frontier)
    for node in reversed(fixed):
        if node in needed:
            needed.update(node.all_input_nodes)
    for node in fixed:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in frontier))
    return fx.GraphModule(model, graph)


def _suffix(model: nn.Module, whole: fx.Graph, live: set[fx.Node], frontier: list[fx.Node]) -> fx.GraphModule:
    graph = fx.Graph()
    copies = {node: graph.placeholder(f"given_{number}") for number, node in enumerate(frontier)}
    for node in whole.nodes:
        if node in live:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return fx.GraphModule(model, graph)
