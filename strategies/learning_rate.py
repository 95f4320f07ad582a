"""The clients' learning rate as a function of the round."""


def rate_of_round(server_round: int, first: float, final: float | None, rounds: int) -> float:
    """Exponential decay from `first` in round 1 to `final` in round `rounds`, both exactly; None: always `first`.

    The schedule of SparsyFed's experiments (Guastella et al., ICLR 2025).
    """
    if final is None or server_round <= 1:
        return first
    if server_round >= rounds:
        return final
    return float(first * (final / first) ** ((server_round - 1) / (rounds - 1)))
