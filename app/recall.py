"""What clients remembered when a run was broken off, and have again where it is resumed.

The inline runtime has it all in this process: what belongs to a client alone is in the checkpoint, and the model that
they hold is what the strategy would send. On Flower's nodes memory belongs to the run that was broken off.
"""

import logging

from flwr.app import RecordDict
from omegaconf import DictConfig

from app.checkpoint import Checkpoint
from app.config import make
from clients.memory import Memory, give_back
from strategies.fedavg import FedAvgStrategy

LOG = logging.getLogger("fedslice")


def recall(cfg: DictConfig, done: Checkpoint, strategy: FedAvgStrategy, memory: RecordDict | None) -> None:
    """Fill `memory`; warn where something is lost of which more than bytes depends."""
    if memory is not None:
        held = strategy.downlink.rounded(strategy.weights, strategy.wire, strategy.wire_seed)
        Memory(memory).remember(done.round + 1, held)
        give_back(memory, done.clients)
    needed = make(cfg, "objective").queue > 0 or cfg.wire != "lossless"
    if needed and (memory is None or not done.clients):
        LOG.warning("resumed without clients' local models and rounding errors: it differs from an unbroken run")
