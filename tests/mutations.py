"""Files as bad disks, broken downloads and strangers leave them."""

from collections.abc import Iterator

import numpy as np


def mutated(whole: bytes, count: int) -> Iterator[bytes]:
    """The same `count` files at every call: cut off, with a piece taken out, or with one to three other bytes."""
    draw = np.random.default_rng(0)
    for kind in draw.integers(4, size=count):
        first, last = sorted(draw.integers(len(whole), size=2))
        changed = bytearray(whole)
        if kind < 2:
            del changed[first : last if kind else None]
        else:
            for place in draw.integers(len(whole), size=draw.integers(1, 4)):
                changed[place] = draw.integers(256)
        yield bytes(changed)


def check_mutations(file, read, *names, count=300, head=None):
    """Every mutation of the file is read, or refused by a ValueError of one line that begins with one of `names`.

    head: so many bytes are changed and the rest is left; None: all may be.
    """
    said, whole = [], file.read_bytes()
    head = head or len(whole)
    for changed in mutated(whole[:head], count):
        file.write_bytes(changed + whole[head:])
        try:
            read()
        except ValueError as error:
            said.append(str(error))
    file.write_bytes(whole)
    read()
    assert said
    assert [text for text in said if not text.startswith(names) or len(text.splitlines()) > 1] == []
