"""Server optimizers: how far the model follows the clients' mean.

Reddi et al., *Adaptive Federated Optimization*, ICLR 2021 (arXiv 2003.00295), Algorithm 2: FedAdam, FedYogi and
FedAdagrad, without bias correction. FedAvgM, the momentum: Hsu, Qi, Brown, arXiv 1909.06335, Section 4.3. The
pseudo-gradient is the mean minus the global model.

Deviations. Only floating-point arrays that came in this round are stepped; running statistics and counts become the
clients' mean. A weight whose mean is exactly 0 becomes 0, and its moments start anew: all clients pruned it, and
a momentum or a part of a step would bring it back and make a sparse model dense. Steps are computed in
float64; moments are kept in the weights' own type.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clients.weights import Weights, is_statistic

Moments = dict[str, NDArray[Any]]
"""One array's moments by kind: `m` of the first order, `v` of the second."""


class ServerOptimizer:
    """Takes the mean as it is, which is FedAvg; the base of those that do not.

    lr: how much of a step is taken.
    """

    lr = 1.0

    def __init__(self) -> None:
        self._remember({})

    def _remember(self, starts: dict[str, float]) -> None:
        """Have moments of these kinds, each of which begins at that value."""
        self._starts = starts
        self._moments: dict[str, Weights] = {kind: {} for kind in starts}

    def step(self, old: Weights, new: Weights) -> Weights:
        """The model after the round, from the one before and what the strategy merged.

        Arrays that are the same object in both did not come in this round, and stay.
        """
        return {
            name: self._stepped(name, old[name], array)
            if self._starts and array is not old[name] and array.dtype.kind == "f" and not is_statistic(name)
            else array
            for name, array in new.items()
        }

    def state(self) -> dict[str, Weights]:
        """The moments by kind and name, for a checkpoint."""
        return self._moments

    def restore(self, state: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
        """The inverse of `state`."""
        self._moments = {kind: dict(state[kind]) for kind in self._starts}

    def _stepped(self, name: str, old: NDArray[Any], mean: NDArray[Any]) -> NDArray[Any]:
        change = np.subtract(mean, old, dtype=np.float64)
        before = {kind: self._moments[kind].get(name, np.full_like(old, start)) for kind, start in self._starts.items()}
        direction, after = self._direction(change, before)
        pruned = mean == 0
        for kind, start in self._starts.items():
            self._moments[kind][name] = np.where(pruned, start, after[kind]).astype(old.dtype)
        return np.where(pruned, mean, old + self.lr * direction).astype(old.dtype)

    def _direction(self, change: NDArray[Any], before: Moments) -> tuple[NDArray[Any], Moments]:
        """Where to go, and the moments after it, from a pseudo-gradient and the moments before."""
        return change, before


class Momentum(ServerOptimizer):
    """FedAvgM: m = momentum m + change; the model moves by lr m. At lr 1 and momentum 0 it is FedAvg."""

    def __init__(self, lr: float = 1.0, momentum: float = 0.9) -> None:
        super().__init__()
        self._remember({"m": 0.0})
        self.lr = _above_zero("lr", lr)
        self.momentum = _below_one("momentum", momentum)

    def _direction(self, change: NDArray[Any], before: Moments) -> tuple[NDArray[Any], Moments]:
        first = self.momentum * before["m"] + change
        return first, {"m": first}


class Adaptive(ServerOptimizer):
    """FedAdam, FedYogi or FedAdagrad: the model moves by lr m / (sqrt(v) + tau), with v starting at tau squared.

    rule: how v follows the squared change. tau: the larger, the less adaptive. beta1, beta2: how much of m and of v
    stays from round to round; adagrad, whose v is a sum, has no beta2.
    """

    def __init__(
        self,
        rule: Literal["adam", "yogi", "adagrad"],
        lr: float = 0.01,
        tau: float = 1e-3,
        beta1: float = 0.9,
        beta2: float | None = None,
    ) -> None:
        if (beta2 is None) != (rule == "adagrad"):
            raise ValueError(f"beta2={beta2}: adam and yogi need one, adagrad has none")
        super().__init__()
        self.lr, self.tau = _above_zero("lr", lr), _above_zero("tau", tau)
        self._remember({"m": 0.0, "v": tau**2})
        self.rule = rule
        self.beta1 = _below_one("beta1", beta1)
        self.beta2 = 0.0 if beta2 is None else _below_one("beta2", beta2)

    def _direction(self, change: NDArray[Any], before: Moments) -> tuple[NDArray[Any], Moments]:
        first = self.beta1 * before["m"] + (1 - self.beta1) * change
        second = self._second(np.square(change), before["v"].astype(np.float64))
        return first / (np.sqrt(second) + self.tau), {"m": first, "v": second}

    def _second(self, squared: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
        """Algorithm 2, its last three options: v after a round of this squared change."""
        growth: NDArray[Any] = squared - v  # adam
        if self.rule == "yogi":
            growth = np.sign(growth) * squared
        elif self.rule == "adagrad":
            growth = squared
        return v + (1 - self.beta2) * growth


def _above_zero(name: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}={value}: must be above 0")
    return value


def _below_one(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise ValueError(f"{name}={value}: must be at least 0 and below 1")
    return value
