"""Check of the project's prose: ``python -m tests.packaging.prose [--list] [PATH ...]``.

It counts constructions that readers have to read twice, in docstrings, comments, messages and pages. Each room has a limit.
A construction that is found may be right at its place: the limit is a rate, and not zero.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]

_BE_OR_HAVE: Final = "is|are|was|were|be|has|have|had"
CONSTRUCTIONS: Final = {
    "negate the verb": rf"(?:{_BE_OR_HAVE}) (?:no|none|nothing|nobody)",
    "repeat the noun": r"(?:those|these|that) (?:of|which|who|whose|with|for|from)",
    "begin a sentence": rf", (?:which|whose|whom) (?:{_BE_OR_HAVE}|it|they|one|the|an?)",
    "name the thing": rf"what (?:it|they|there|the|{_BE_OR_HAVE})",
    "turn the sentence round": r"(?:of|in|for|by|with|from|at|to|on|than|under) (?:which|whom|whose)",
    "unchanged, current": r"as (?:it is|they are|it was|they were)",
    "use the noun alone": r"(?:that|which|where|if) there (?:is|are|was|were)",
    "use a plain word": r"anew|likewise|beforehand|nevertheless|hence|thereby|whereby|thereof|beside|besides|in the place of",
    "contains, records, shows": r"(?:plan|name|header|file|option|summary|snapshot)s? (?:says?|tells?|speaks?|knows?)",
}
"""Advice, and the construction that it replaces."""

LIMITS: Final = {
    "README.md": 2.0,
    "docs": 2.0,
    "ARCHITECTURE.md": 2.0,
    "CONTRIBUTING.md": 2.0,
    "CHANGELOG.md": 2.0,
    "SECURITY.md": 2.0,
    "serializers": 3.0,
    "backends": 3.0,
    "state_processor": 3.0,
    "bench": 3.0,
    "tests": 5.0,
}
"""Constructions in 1,000 words, at most."""

_FOUND: Final = {
    advice: re.compile(rf"(?:(?<!\w)|(?=,))(?:{pattern})(?!\w)", re.IGNORECASE) for advice, pattern in CONSTRUCTIONS.items()
}
_CODE: Final = re.compile(r"``.+?``|`[^`]+`|:\w+:`[^`]+`|https?://\S+", re.DOTALL)
_FENCE: Final = re.compile(r"^```.*?^```|^<!--.*?-->", re.MULTILINE | re.DOTALL)
_LINKS: Final = (ROOT / "state_processor" / "serializers", ROOT / "state_processor" / "backends")


class Passage(NamedTuple):
    """Prose at a line of a file."""

    path: Path
    line: int
    text: str


class Finding(NamedTuple):
    """Construction, and the advice about it."""

    passage: Passage
    words: str
    advice: str

    def __str__(self) -> str:
        path = self.passage.path
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        return f"{shown}:{self.passage.line}: {self.words!r}: {self.advice}"


def passages(path: Path) -> Iterator[Passage]:
    """Yield the prose of a Python module or a page. Code is not prose."""
    text = path.read_text("utf-8")
    found = _of_module(text) if path.suffix == ".py" else _of_page(text)
    for line, passage in found:
        yield Passage(path, line, " ".join(_CODE.sub("code", passage).split()))


def findings(passage: Passage) -> Iterator[Finding]:
    """Yield the constructions of a passage."""
    for advice, pattern in _FOUND.items():
        for match in pattern.finditer(passage.text):
            yield Finding(passage, match[0], advice)


def files(place: Path) -> list[Path]:
    """Return the modules and pages below a directory, or a file itself."""
    if place.is_file():
        return [place]
    found = (path for suffix in ("*.py", "*.md") for path in place.rglob(suffix))
    return sorted(path for path in found if not any(path.is_relative_to(link) for link in _LINKS) or place in _LINKS)


def rate(place: Path) -> tuple[float, list[Finding]]:
    """Return the constructions in 1,000 words below a place, and all of them."""
    words, found = 0, list[Finding]()
    for passage in (passage for path in files(place) for passage in passages(path)):
        words += len(passage.text.split())
        found += findings(passage)
    return (1000 * len(found) / words if words else 0.0), found


def _of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs; lines of code keep their number."""
    text = _FENCE.sub(lambda code: "\n" * code[0].count("\n"), text)
    line = 1
    for paragraph in text.split("\n\n"):
        yield line + len(paragraph) - len(paragraph.lstrip("\n")), paragraph
        line += paragraph.count("\n") + 2


def _of_module(text: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings, texts of errors and comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield (
                node.lineno,
                " ".join(
                    part.value for part in ast.walk(node.exc) if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ),
            )
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#")


def main() -> int:
    """Print rates, and return 1 if one of them is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="show each construction")
    parser.add_argument("places", nargs="*", help="files and directories; by default all, with their limits")
    given = parser.parse_args()
    status = 0
    for name in given.places or LIMITS:
        found, constructions = rate((ROOT / name).absolute())
        limit = LIMITS.get(name)
        if given.list:
            print(*constructions, sep="\n")
        if given.places or (limit is not None and found > limit):
            shown = "" if limit is None else f", at most {limit} are allowed"
            print(f"{name}: {found:.1f} constructions to read twice in 1,000 words{shown}; --list shows them")
        status |= limit is not None and found > limit
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
