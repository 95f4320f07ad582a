"""Texts to token ids by one vocabulary for all devices, and the file that carries it to them.

The FedPart paper keeps the words seen at least 5 times (30,333 for AG News). The order is by count, then by code
points, so that every process builds the same from the same texts.

The file is UTF-8 text: a header line that says how it was built, then one token a line. Id 0 is padding, 1 stands
for every token that is not listed, and the listed ones follow from 2 on.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from clients.tasks.transformer import PADDING

TokenKind = Literal["words", "characters"]
UNKNOWN: Final = 1
_FIRST: Final = 2
_HEADER: Final = "# fedslice vocabulary: tokens="
_WORD: Final = re.compile(r"\w+(?:'\w+)*")


def tokenize(text: str, kind: TokenKind) -> list[str]:
    """The lower-cased words of a text, or all its characters except white space (for Chinese, say)."""
    text = text.lower()
    return _WORD.findall(text) if kind == "words" else [character for character in text if not character.isspace()]


@dataclass(frozen=True)
class Vocabulary:
    """The known tokens, in the order of their ids, and what kind of tokens they are."""

    kind: TokenKind
    tokens: tuple[str, ...]

    def __len__(self) -> int:
        """How many ids there are, padding and unknown included."""
        return _FIRST + len(self.tokens)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens, _FIRST)}

    def encode(self, texts: Iterable[str], max_length: int) -> Tensor:
        """Ids (n, length) int32 of the first `max_length` tokens, filled up to the longest of these texts.

        A text without any token is one unknown token.
        """
        rows = []
        for text in texts:
            tokens = tokenize(text, self.kind)[:max_length]
            rows.append([self._ids.get(token, UNKNOWN) for token in tokens] or [UNKNOWN])
        ids = np.full((len(rows), max(map(len, rows), default=1)), PADDING, np.int32)
        for place, row in zip(ids, rows, strict=True):
            place[: len(row)] = row
        return torch.from_numpy(ids)

    def write(self, path: str, note: str) -> None:
        """Write the file; `note` ends its header and says how the vocabulary was built."""
        place = Path(path).expanduser()
        place.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{_HEADER}{self.kind} {' '.join(note.split())}", *self.tokens]
        place.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def build_vocabulary(texts: Sequence[str], kind: TokenKind, min_count: int) -> Vocabulary:
    """The tokens seen at least `min_count` times, the most frequent first, ties in the order of code points."""
    counts = Counter(token for text in texts for token in tokenize(text, kind))
    kept = sorted((token for token in counts if counts[token] >= min_count), key=lambda token: (-counts[token], token))
    if not kept:
        raise ValueError(f"task.min_count={min_count}: no token is as frequent in the {len(texts)} training texts")
    return Vocabulary(kind, tuple(kept))


def read_vocabulary(path: str, kind: TokenKind) -> Vocabulary:
    """The vocabulary in a file, which must be of this kind of tokens."""
    origin = f"task.vocabulary={path}"
    try:
        header, *tokens = Path(path).expanduser().read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    except OSError as error:
        raise ValueError(f"{origin}: not readable ({error.strerror}); python -m app.vocabulary writes it") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{origin}: not UTF-8 text") from error
    if not header.startswith(_HEADER):
        raise ValueError(f"{origin}: no vocabulary; its first line must begin with {_HEADER!r}")
    found = header.removeprefix(_HEADER).split(" ")[0]
    if found != kind:
        raise ValueError(f"{origin}: holds {found}, but task.tokens={kind}; they must be equal")
    if "" in tokens or len(set(tokens)) < len(tokens):
        raise ValueError(f"{origin}: a token is empty or there twice")
    return Vocabulary(kind, tuple(tokens))


def check_vocabulary(kind: str, min_count: int) -> None:
    """Refuse a kind of tokens that there is not, and a count below 1."""
    if kind not in get_args(TokenKind):
        raise ValueError(f"task.tokens={kind}: must be one of {', '.join(get_args(TokenKind))}")
    if min_count < 1:
        raise ValueError(f"task.min_count={min_count}: must be 1 or more")
