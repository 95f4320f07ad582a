"""What inline clients remembered when a run was broken off, and have again where it is resumed.

What belongs to a client alone is in the checkpoint, and the model that they hold is what the strategy would send. On
Flower's nodes both are theirs: the first in their `app.keepsakes`, the second gone with Flower's run.
"""

from flwr.app import RecordDict

from app.checkpoint import Checkpoint
from clients.memory import Memory, give_back
from strategies.fedavg import FedAvgStrategy


def recall(done: Checkpoint, strategy: FedAvgStrategy, memory: RecordDict | None) -> None:
    """Fill `memory`, where it is in this process."""
    if memory is not None:
        held = strategy.downlink.rounded(strategy.weights, strategy.wire, strategy.wire_seed)
        Memory(memory).remember(done.round + 1, held)
        give_back(memory, done.clients)
