"""A ClientApp that refuses the mods of Flower that cannot work on packed messages."""

from collections.abc import Sequence

from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

_BLIND = ("LocalDpMod", "fixedclipping_mod", "adaptiveclipping_mod", "secagg_mod", "secaggplus_mod")
"""Differential privacy and secure aggregation: their arithmetic wants an order's arrays and a reply's one to one."""


class PackedClientApp(ClientApp):
    """Flower's ClientApp for messages that hold one packed array of a slice of the model.

    Raises ValueError for a mod that computes on a message's arrays. Those that leave them alone work.
    """

    def __init__(self, mods: Sequence[Mod] = ()) -> None:
        for mod in mods:
            name = getattr(mod, "__name__", type(mod).__name__)
            if name in _BLIND:
                raise ValueError(
                    f"mod {name}: computes on the arrays of a message by name, but messages here hold one packed "
                    "array of a slice of the model; allowed are mods that leave arrays alone, such as message_size_mod"
                )
        super().__init__(mods=list(mods))
