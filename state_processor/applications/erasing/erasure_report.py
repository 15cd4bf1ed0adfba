"""The report about an erasure: the removed values, and the proof that they are gone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from state_processor.command_line import Answer, json_value, render_records


@dataclass(frozen=True)
class ErasureReport:
    """The outcome of an erasure, for an audit. It is true if both checks of the new savepoint find nothing.

    Attributes
    ----------
    source, target
        The directories of the source savepoint and of the new one.
    source_sha256, target_sha256
        SHA-256 of ``_metadata`` in both, as hexadecimal text.
    time
        The time of the report in ISO 8601, in UTC.
    version
        The version of this package.
    sought
        The texts, keys and the condition, under ``text``, ``key`` and ``where``.
    actions
        The chosen actions.
    removed
        The removed values, as rows with ``operator``, ``state``, ``state_kind``, ``action`` and ``count``.
    changes
        The changes of the write, as rows with ``operator``, ``state``, ``change``, and the numbers of entries that were
        ``written``, ``updated`` and ``deleted``. A removed key also removes the entries of the other states of its operator.
    rewritten
        The operators of native savepoints whose files had erased data, with ``operator``, ``tables``, the number of tables of
        RocksDB or ForSt that were written again or left out, and ``kept``, the number of tables that stay.
    remaining
        Hits in the rows of the new savepoint, with the columns of :class:`~state_processor.Findings`, and rows of the condition.
    remaining_files
        Files of the new savepoint whose bytes contain a hit: ``file``, and ``count``, the number of hits.
    undecoded
        State that can't be decoded. Its bytes were searched. Data that the job encoded or compressed itself is not found.
    unsearched
        Keys that are too short to be told from other values in bytes, such as small numbers, and ``where`` for the rows of a
        condition. Only the read of the new savepoint covers them.
    looked_up
        Tables that stay from the source savepoint, with or without all entries, if only keys were erased. Their bytes were not
        searched, except for blocks that are new: rows with ``operator``, ``files``, ``bytes`` and ``check``: the keys were looked
        up in them, or their keys have another type.
    files, bytes
        The number of files and parts of the new savepoint that were searched, and the number of searched bytes.
    """

    source: str
    target: str
    source_sha256: str
    target_sha256: str
    time: str
    version: str
    sought: dict[str, list[str]]
    actions: list[str]
    removed: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    rewritten: list[dict[str, Any]]
    remaining: list[dict[str, Any]]
    remaining_files: list[dict[str, Any]]
    undecoded: list[dict[str, Any]]
    unsearched: list[str]
    looked_up: list[dict[str, Any]]
    files: int
    bytes: int

    def __bool__(self) -> bool:
        return self.is_clean

    @property
    def is_clean(self) -> bool:
        """True if neither reading nor a search in all bytes finds anything. See ``unsearched`` for the limits of the search."""
        return not self.remaining and not self.remaining_files

    @property
    def answer(self) -> Answer:
        """Whether nothing is left. A hit outweighs state that can't be decoded, which was searched as bytes only."""
        return Answer.of(wrong=not self.is_clean, unchecked=bool(self.undecoded))

    def to_json(self, *, reveal: bool = False) -> str:
        """Return the report as JSON.

        Parameters
        ----------
        reveal
            Whether the report contains the erased texts, keys and the condition. By default it has placeholders, such as
            ``text 1``, and no hash: hashes of names and addresses can be found by trial.
        """
        report = self if reveal else self.without_content()
        return json.dumps({"clean": self.is_clean, **json_value(report)}, ensure_ascii=False, indent=2)

    def without_content(self) -> ErasureReport:
        """Return the report with placeholders for the erased texts, keys and the condition.

        Paths, and names of operators and states, stay as they are.
        """
        hidden = Placeholders(self.sought)
        return replace(
            self,
            sought=hidden.sought(),
            remaining=hidden.rows(self.remaining),
            undecoded=hidden.rows(self.undecoded),
            unsearched=[hidden.names.get(name.removeprefix("key "), name) for name in self.unsearched],
        )

    def to_text(self, *, reveal: bool = False) -> str:
        """Return the report as text; see :meth:`to_json`."""
        return (self if reveal else self.without_content())._text()

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return self.to_text()

    def _text(self) -> str:
        sought = "; ".join(", ".join(values) for values in self.sought.values())
        unsearched = "was not searched for in bytes, which do not tell it from other values"
        searched = f"read again, and {self.bytes} bytes of {self.files} files and parts searched" if self.files else "read again"
        return "\n".join(
            [
                f"Erasure of {sought}",
                f"from {self.source}, _metadata SHA-256 {self.source_sha256}",
                f"into {self.target}, _metadata SHA-256 {self.target_sha256}",
                f"at {self.time}, state-processor {self.version}",
                *(_table(title, columns, rows) for title, columns, name in _TABLES if (rows := getattr(self, name))),
                *(f"{name} {unsearched}" for name in self.unsearched),
                f"\n{_RESULTS[self.answer]}: {searched}",
            ]
        )


class Placeholders:
    """Placeholders for erased texts, keys and the condition, such as ``text 1``."""

    def __init__(self, sought: Mapping[str, Sequence[str]]) -> None:
        self._sought = sought
        self.names: dict[str, str] = {}
        for name, values in sought.items():
            self.names |= {value: f"{name} {number}" for number, value in enumerate(values, 1)}

    def sought(self) -> dict[str, list[str]]:
        """Return the placeholders under ``text``, ``key`` and ``where``."""
        return {name: list(map(self.names.__getitem__, values)) for name, values in self._sought.items()}

    def text(self, value: Any) -> Any:
        """Return a value with placeholders. Keys and the condition are replaced as whole values, or in quotes."""
        if not isinstance(value, str) or value in self.names:
            return self.names.get(value, value)
        for text in self._sought.get("text", ()):
            value = value.replace(text, self.names[text]).replace(repr(text)[1:-1], self.names[text])
        for key in self._sought.get("key", ()):
            value = value.replace(repr(key), self.names[key])
        return value

    def rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return rows of the report with placeholders."""
        return list(map(self._row, rows))

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        return {name: self.text(value) if name in _OF_CONTENT else value for name, value in row.items()}


_RESULTS: Final = {
    Answer.YES: "Nothing is left",
    Answer.NO: "NOT CLEAN",
    Answer.UNCHECKED: "Nothing is left, as far as state can be decoded",
}
_OF_CONTENT: Final = frozenset({"key", "field", "sought", "reason"})
"""Columns that may contain what was erased."""
_PLACE: Final = ("operator_uid", "operator_uid_hash", "state_name")
_TABLES: Final = (
    ("Removed", ("operator", "state", "state_kind", "action", "count"), "removed"),
    ("Changed", ("operator", "state", "change", "written", "updated", "deleted"), "changes"),
    ("Rewritten tables", ("operator", "tables", "kept"), "rewritten"),
    ("Not searched, except for new blocks", ("operator", "files", "bytes", "check"), "looked_up"),
    ("Left, as reading finds it", (*_PLACE, "key", "field", "count"), "remaining"),
    ("Left, as bytes of files", ("file", "count"), "remaining_files"),
    ("Searched as bytes, since it can't be decoded", (*_PLACE, "state_kind", "reason", "count"), "undecoded"),
)


def _table(title: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    return f"\n{title}:\n{render_records(columns, rows)}"
