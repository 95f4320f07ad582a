"""The README and docs/, taken apart: their texts, code blocks and commands."""

import re

from tests.runs import ROOT

PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
BLOCKS = [
    (page, language or ("toml" if body.startswith("[") else "commands"), body)
    for page, text in sorted(PAGES.items())
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
]
"""Page, kind and text of every block. One without a language holds commands, or TOML where it begins with a table."""


def spans(text: str) -> list[str]:
    """Code within the lines of a page."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def commands() -> list[str]:
    """All commands: lines of blocks, without their comments, and code within a line that is one of ours."""
    lines = [line for _, kind, body in BLOCKS if kind == "commands" for line in body.splitlines()]
    ours = ("python -m app", "python benchmarks/")
    lines += [code for text in PAGES.values() for code in spans(text) if code.startswith(ours)]
    return sorted({line.split(" #")[0].strip() for line in lines} - {""})
