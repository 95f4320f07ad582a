"""The transformer text classifier of the FedPart paper (Wang et al. 2024, arXiv 2410.11559).

Embedding, sinusoidal positions (Vaswani et al. 2017, Section 3.5), post-norm encoder layers, and a linear
classifier that reads the last position. That is the last token of the text itself: padding comes after it, is
masked in attention and is never read, so a prediction does not depend on how far its batch is padded.

Deviation: each encoder layer is initialised on its own, where `nn.TransformerEncoder` copies the first one.
"""

import math
from typing import Final

import torch
from torch import Tensor, nn

PADDING: Final = 0
"""The token that fills short texts up; it stands nowhere else."""


class TextTransformer(nn.Module):
    """Logits for texts given as token ids, as rows of (n, length) filled up with `PADDING` at the end."""

    positions: Tensor

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        max_length: int = 512,
        hidden: int = 200,
        heads: int = 2,
        feedforward: int = 200,
        layers: int = 3,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        # The order of registration is the order of the layer groups.
        self.embedding = nn.Embedding(vocabulary_size, hidden)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

        def layer() -> nn.TransformerEncoderLayer:
            return nn.TransformerEncoderLayer(hidden, heads, feedforward, dropout, batch_first=True)

        self.encoder = nn.TransformerEncoder(layer(), 1, enable_nested_tensor=False)
        self.encoder.layers = nn.ModuleList(layer() for _ in range(layers))
        self.fc = nn.Linear(hidden, num_classes)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("positions", sinusoids(max_length, hidden), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, length) token ids to logits (n, num_classes); a row of padding alone is a text of one token."""
        tokens = tokens.long()  # ids may come in any type, as zeros do that stand for an input of some shape
        lengths = (tokens != PADDING).sum(dim=1).clamp(min=1)  # (n,)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim) + self.positions[: len(places)]
        x = self.encoder(self.dropout(x), src_key_padding_mask=places >= lengths[:, None])  # (n, length, hidden)
        last = x[torch.arange(len(x), device=x.device), lengths - 1]  # (n, hidden)
        return self.fc(last)  # type: ignore[no-any-return]


def sinusoids(length: int, width: int) -> Tensor:
    """The position code (length, width): sines and cosines in turn, wavelengths from 2 pi to 10,000 times that."""
    place = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))  # (width / 2,)
    waves = torch.stack((torch.sin(place * rate), torch.cos(place * rate)), dim=2)  # (length, width / 2, 2)
    return waves.flatten(1)[:, :width].contiguous()
