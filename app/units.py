"""Numbers as people read them: bytes, multiply-accumulates, rates and shares."""

import re

NOT_RECORDED = "not recorded"


def size(nbytes: float) -> str:
    """Bytes: 1 kB is 1,000 bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def macs(value: float) -> str:
    """Multiply-accumulates: 1 GMAC is 10^9."""
    for unit in ("", "k", "M", "G", "T"):
        if value < 1000:
            return f"{value:.0f} MAC" if not unit else f"{value:.1f} {unit}MAC"
        value /= 1000
    return f"{value:.1f} PMAC"


def rate(value: float | None) -> str:
    """A rate in [0, 1], such as an accuracy, in four digits."""
    return NOT_RECORDED if value is None else f"{value:.4f}"


def percent(value: float | None) -> str:
    """A share, in three digits: 0.0471 is 4.71 %, 0.751 is 75.1 %, and the whole is 100 %."""
    if value is None:
        return NOT_RECORDED
    share = 100 * value
    return f"{share:.0f} %" if share == 0 or share >= 999.5 else f"{share:#.3g}".removesuffix(".") + " %"


def unbroken(text: str) -> str:
    """No line break between a number and its unit, nor between ± and its number."""
    return re.sub(r"(?<=±) |(?<=\d) (?=%|[kMGTP]?(?:B|MAC)\b)", "\N{NO-BREAK SPACE}", text)
