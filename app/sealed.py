"""Files of arrays and texts that are read as they were written, or not at all."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.numpy import save_file

from clients.weights import Weights, fingerprint

_FORMAT, _SEAL = "format", "sha256"


def save_sealed(path: Path, form: int, arrays: Weights, texts: Mapping[str, str]) -> None:
    """Write a safetensors file with a hash over all that is in it; `form` says what its reader will find."""
    texts = {**texts, _FORMAT: str(form)}
    save_file(arrays, path, {**texts, _SEAL: _seal(arrays, texts)})


def read_sealed(path: Path, form: int) -> tuple[Weights, dict[str, str]]:
    """The arrays and texts. Raises ValueError for another format, and for whatever was changed since."""
    try:
        with safe_open(path, framework="numpy") as file:
            texts = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except Exception as error:  # of safetensors, of NumPy, and of the disk
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error
    seal = texts.pop(_SEAL, None)
    if texts.get(_FORMAT) != str(form):
        raise ValueError(f"of format {texts.get(_FORMAT)}, by another version of fedslice; must be {form}")
    if _seal(arrays, texts) != seal:
        raise ValueError("not what was written")
    return arrays, texts


def _seal(arrays: Weights, texts: Mapping[str, str]) -> str:
    own = f"{sorted(texts.items())} {fingerprint(dict(sorted(arrays.items())))}"
    return hashlib.sha256(own.encode()).hexdigest()
