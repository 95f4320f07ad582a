"""Text classification split among clients: what conf/task/agnews and conf/task/sogou construct."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clients.tasks import own_model
from clients.tasks.seeded import seeded
from clients.tasks.split_files import MissingSplitError
from clients.tasks.split_task import SplitTask, check_fixed
from clients.tasks.task import Classes, Examples
from clients.tasks.texts import StoredTexts, Texts
from clients.tasks.transformer import PADDING, TextTransformer
from clients.tasks.vocabulary import TokenKind, Vocabulary, build_vocabulary, check_vocabulary, read_vocabulary


@dataclass(frozen=True)
class TextTask(SplitTask):
    """Texts with one label each (implements `Task`); for the other attributes see `SplitTask`.

    All devices must number tokens alike: where they have data of their own, or no training split, they need the
    vocabulary's file. Without a file each process builds the same vocabulary from the same training split.

    Attributes:
        model: transformer, or an import path (`own_model`) of a model that takes ids as `prepare` gives them.
        model_args: what a model by import path is called with besides.
        classes: how many, or their names, as the configuration gave it to the source.
        max_length: tokens of a text that are used; the rest is cut off.
        tokens: words or characters.
        min_count: how often the training split must have a token for it to be in the vocabulary.
        vocabulary: file of the vocabulary, or None to build it.
        where: rows of the training split that are used, as the configuration gave it to the source.
        hidden: width of the embedding and of the encoder layers.
        heads: of each attention.
        feedforward: inner width of the feed-forward blocks.
        layers: number of encoder layers.
        dropout: probability, in [0, 1).
    """

    source: StoredTexts
    model: str = "transformer"
    model_args: Mapping[str, Any] | None = None
    classes: Classes | None = None
    max_length: int = 512
    tokens: TokenKind = "words"
    min_count: int = 5
    vocabulary: str | None = None
    where: dict[str, str | int] | None = None
    hidden: int = 200
    heads: int = 2
    feedforward: int = 200
    layers: int = 3
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fixed(classes=(self.classes, self.source.classes), where=(self.where, self.source.where))
        check_vocabulary(self.tokens, self.min_count)
        own_model.check_args(self.model, self.model_args)
        if own_model.is_path(self.model):
            own_model.find(self.model)
        elif self.model != "transformer":
            raise ValueError(f"task.model={self.model}: must be transformer, or package.module:Class")
        for name in ("max_length", "hidden", "heads", "feedforward", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"task.{name}={getattr(self, name)}: must be 1 or more")
        if self.hidden % self.heads:
            raise ValueError(f"task.heads={self.heads}: must divide task.hidden={self.hidden}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"task.dropout={self.dropout}: must be from 0 to below 1")

    @property
    def num_classes(self) -> int:
        """The source's."""
        return self.source.num_classes

    def build_vocabulary(self) -> Vocabulary:
        """The vocabulary of the training split."""
        try:
            texts = self.source.train_texts().texts
        except MissingSplitError as error:
            raise ValueError(
                f"{error}; without a training split to build the vocabulary from, as on a device, "
                "give task.vocabulary=FILE"
            ) from error
        return build_vocabulary(texts, self.tokens, self.min_count)

    @cached_property
    def _known(self) -> Vocabulary:
        return self.build_vocabulary() if self.vocabulary is None else read_vocabulary(self.vocabulary, self.tokens)

    def build_model(self, seed: int) -> nn.Module:
        """A freshly initialised model on the CPU; the same seed gives the same bits."""
        if own_model.is_path(self.model):
            facts = {"num_classes": self.num_classes, "vocabulary_size": len(self._known)}
            return own_model.build(self.model, self.model_args or {}, facts, self.blank(), seed)
        with seeded(seed):
            return TextTransformer(
                len(self._known), self.num_classes, self.max_length,
                self.hidden, self.heads, self.feedforward, self.layers, self.dropout,
            )  # fmt: skip

    def _encoded(self, texts: Texts) -> Examples:
        return Examples(self._known.encode(texts.texts, self.max_length), torch.from_numpy(texts.labels))

    def _read_train(self, rows: np.ndarray) -> Examples:
        return self._encoded(self.source.train_texts(rows))

    def _read_test(self) -> Examples:
        return self._encoded(self.source.test_texts())

    def device_examples(self, path: str) -> Examples:
        """All training examples at `path`, read anew at each call, for a device's data may grow."""
        if self.vocabulary is None:
            raise ValueError(
                "task.vocabulary=null: a device with data of its own needs the vocabulary that all share; write it "
                "once with python -m app.vocabulary, copy it to every device and give task.vocabulary=FILE"
            )
        return self._encoded(self.source.device_texts(path))

    def prepare(self, inputs: Tensor) -> Tensor:
        """Ids (n, length) to int64, cut to the longest of these texts: what lies behind it is padding alone."""
        used = (inputs != PADDING).any(dim=0).sum().clamp(min=1)
        return inputs[:, : int(used)].long()

    def blank(self) -> Tensor:
        """A text of the greatest length, (1, max_length) int64."""
        return torch.full((1, self.max_length), PADDING)

    @property
    def augments(self) -> bool:
        """Never."""
        return False

    def augment(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """The same batch; there is no augmentation of text, as in the paper."""
        return inputs
