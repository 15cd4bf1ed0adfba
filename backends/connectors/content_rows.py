"""Connectors whose splits and enumerators are layouts: columns are parts of the content.

A row is read by taking the columns from the content of a split. It is written by changing these parts in the content of the bytes
that it was read from (``raw``), so that everything else stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import field
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.connector import (
    SPLIT_ID,
    UNASSIGNED,
    EnumeratedSplit,
    EnumeratorState,
    Format,
    Formats,
    Values,
    Versioned,
)
from state_processor.backends.connectors.layouts.choices import Versions
from state_processor.backends.connectors.layouts.codecs import Codec, Content, read_all, to_bytes
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.records import dataclass

RAW: Final = "raw"
VERSION: Final = "version"
ENUMERATOR: Final = "enumerator"
"""The split id of the row with the state of the enumerator, and the column of this state."""


@dataclass(frozen=True, slots=True)
class Part:
    """A column that is a part of the content: its field, how it is taken from the content, and how it is put there."""

    field: pa.Field
    take: Callable[[Content], Any]
    put: Callable[[Content, Any], None]

    @property
    def name(self) -> str:
        """The name of the column."""
        name: str = self.field.name
        return name


def part(name: str, type_: pa.DataType, *path: str) -> Part:
    """Return a column that is one field of the content, in nested fields."""
    *outer, last = path

    def take(content: Content) -> Any:
        for key in path:
            if content is None:
                return None
            content = content.get(key)
        return content

    def put(content: Content, value: Any) -> None:
        for key in outer:
            if content.get(key) is None:
                content[key] = {}
            content = content[key]
        if value is None and last not in content:
            return
        content[last] = value

    return Part(pa.field(name, type_), take, put)


def json_part(name: str, *path: str) -> Part:
    """Return a column with a field of the content as JSON."""
    plain = part(name, pa.string(), *path)

    def take(content: Content) -> str | None:
        found = plain.take(content)
        return None if found is None else json.dumps(found, ensure_ascii=False)

    def put(content: Content, value: str | None) -> None:
        plain.put(content, None if value is None else parsed(name, value))

    return Part(plain.field, take, put)


def parsed(name: str, text: str) -> Content:
    """Return the content of JSON in a column.

    Raises
    ------
    InvalidRowError
        The text is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRowError(f"column {name!r} holds {text[:80]!r}; expected JSON ({error})") from None


def with_kept_parts(content: Content, base: Content) -> Content:
    """Return content whose unchanged parts are the parts of other content, which remember the bytes that they were read from."""
    if content == base:
        return deepcopy(base)
    if isinstance(content, dict) and isinstance(base, dict):
        return {name: with_kept_parts(value, base.get(name)) for name, value in content.items()}
    if isinstance(content, list) and isinstance(base, list):
        known = {json.dumps(element): element for element in base}
        others = base if len(base) == len(content) else [None] * len(content)
        elements = zip(content, others, strict=True)
        return [with_kept_parts(element, known.get(json.dumps(element), other)) for element, other in elements]
    return content


def row_of(parts: Sequence[Part], content: Content) -> Values:
    """Return the columns of content."""
    return {p.name: p.take(content) for p in parts}


def changed_content(parts: Sequence[Part], base: Content, row: Mapping[str, Any]) -> Content:
    """Return content with the columns of a row that differ.

    Raises
    ------
    InvalidRowError
        Changed columns contradict each other, or the content lacks a column.
    """
    content = deepcopy(base)
    before = row_of(parts, base)
    changed = [p for p in parts if row.get(p.name) != before[p.name]]
    if not changed:
        return base
    for p in changed:
        p.put(content, row.get(p.name))
    after = row_of(parts, content)
    lost = [p.name for p in changed if after[p.name] != row.get(p.name)]
    if lost:
        listed = " and ".join(map(repr, lost))
        raise InvalidRowError(f"split {row.get(SPLIT_ID)!r}: {listed} contradicts other columns or does not exist in this split")
    return content


@dataclass(frozen=True, slots=True)
class ContentSplits:
    """Splits of a layout: their columns and their id, and the content of new splits."""

    what: str
    versions: Versions
    parts: tuple[Part, ...]
    split_id: Callable[[Content], str]
    new: Callable[[Values, int], Content]
    extra: tuple[pa.Field, ...] = field(default=())

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """All columns of the connector; the last one has the state of the enumerator."""
        return (*(p.field for p in self.parts), *self.extra, pa.field(ENUMERATOR, pa.string()))

    def row(self, content: Content) -> Values:
        """Return the row of a split."""
        blank = dict.fromkeys(f.name for f in self.fields)
        return blank | row_of(self.parts, content) | {SPLIT_ID: self.split_id(content)}

    def content(self, row: Mapping[str, Any], version: int) -> Content:
        """Return the content of a split, from its bytes with the changes of the row."""
        raw, written = row.get(RAW), row.get(VERSION)
        if raw is None or written is None:
            return self.new(dict(row), version)
        source = DataInput(bytes(raw), f"split {row.get(SPLIT_ID)!r}, raw")
        return changed_content(self.parts, read_all(self.versions[written], source), row)

    def formats(self) -> Formats[Values]:
        """Return the formats of single splits."""
        return Formats(self.what, {version: (self._format(version, codec),) for version, codec in self.versions.items()})

    def _format(self, version: int, codec: Codec) -> Format[Values]:
        def write(row: Values, target: DataOutput) -> None:
            codec.write(self.content(row, version), target)

        return Format(lambda source: self.row(codec.read(source)), write)


def refuse_new(what: str) -> Callable[[Values, int], Content]:
    """Return a function that refuses splits without bytes.

    Raises
    ------
    InvalidRowError
        On each call; the message names the split.
    """

    def refuse(row: Values, version: int) -> Content:
        raise InvalidRowError(
            f"split {row.get(SPLIT_ID)!r}: new splits of {what} can't be written; keep the columns {VERSION!r} and {RAW!r}"
        )

    return refuse


@dataclass(frozen=True, slots=True)
class SplitListing:
    """A list of splits in the state of an enumerator.

    ``assignment`` and ``entry`` convert between an entry of the list and a split with its assignment.
    """

    name: str
    split: Callable[[Content], Content] = lambda entry: entry
    assignment: Callable[[Content], str] = lambda entry: UNASSIGNED
    entry: Callable[[Content, str], Content] = lambda split, assignment: split
    accepts: Callable[[str], bool] = lambda assignment: assignment == UNASSIGNED


Listings = Callable[[Content], Sequence[SplitListing]]


@dataclass(frozen=True, slots=True)
class ContentEnumerator:
    """The state of an enumerator with lists of splits; the rest of it is JSON in a row of its own.

    ``listings`` returns the lists in content, ``version`` the field with the version of the splits, ``new`` the content of an
    enumerator without base. ``root`` returns the part of the content with the lists. ``tidy`` adapts this part, given its former
    content, to the splits that are left. ``listed`` tells splits that enumerators remember from others.
    """

    what: str
    versions: Versions
    splits: ContentSplits
    version: Callable[[Content], int]
    listings: Listings
    new: Callable[[Sequence[Values]], Content]
    tidy: Callable[[Content, Content], None] = lambda content, before: None
    root: Callable[[Content], Content] = lambda content: content
    listed: Callable[[Values], bool] = lambda row: True
    usual: int | None = None

    def formats(self) -> Formats[EnumeratorState]:
        """Return the formats of the state."""
        by_version = {version: (self._format(codec),) for version, codec in self.versions.items()}
        return Formats(self.what, by_version, self.usual)

    def _format(self, codec: Codec) -> Format[EnumeratorState]:
        return Format(lambda source: self._read(codec, source), lambda state, target: self._write(codec, state, target))

    def _read(self, codec: Codec, source: DataInput) -> EnumeratorState:
        content = codec.read(source)
        return EnumeratorState(tuple(self._listed(content)), {ENUMERATOR: content})

    def _listed(self, content: Content) -> Iterator[EnumeratedSplit]:
        version = self.version(content)
        for listing in self.listings(content):
            for entry in self.root(content)[listing.name]:
                split = listing.split(entry)
                written = Versioned(version, to_bytes(self.splits.versions[version], split))
                yield EnumeratedSplit(self.splits.row(split), listing.assignment(entry), split=written)
        blank = dict.fromkeys(f.name for f in self.splits.fields)
        yield EnumeratedSplit(blank | {SPLIT_ID: ENUMERATOR, ENUMERATOR: self._rest(content)}, ENUMERATOR.upper())

    def _rest(self, content: Content) -> str:
        """Return everything except the lists of splits, as JSON."""
        rest = json.loads(json.dumps(content))
        for listing in self.listings(content):
            del self.root(rest)[listing.name]
        return json.dumps(rest, ensure_ascii=False)

    def _write(self, codec: Codec, state: EnumeratorState, target: DataOutput) -> None:
        before = state.details.get(ENUMERATOR)
        rows = [split for split in state.splits if split.values[SPLIT_ID] != ENUMERATOR and self.listed(split.values)]
        rest = next((split.values.get(ENUMERATOR) for split in state.splits if split.values[SPLIT_ID] == ENUMERATOR), None)
        if rest is not None and (before is None or rest != self._rest(before)):
            content = with_kept_parts(parsed(ENUMERATOR, rest), before)
        else:
            content = self.new([split.values for split in rows]) if before is None else deepcopy(before)
        version = self.version(content)
        lists = self.listings(content)
        waiting = [split.values[SPLIT_ID] for split in rows if split.assignment == UNASSIGNED]
        if waiting and not lists:
            raise InvalidRowError(f"split {waiting[0]!r} needs a reader: the {self.what} does not hold splits; set 'subtask'")
        root = self.root(content)
        for listing in lists:
            chosen = [split for split in rows if listing.accepts(split.assignment)]
            root[listing.name] = [listing.entry(self._content(split, version), split.assignment) for split in chosen]
        if before is not None:
            self.tidy(root, self.root(before))
        codec.write(content, target)

    def _content(self, split: EnumeratedSplit, version: int) -> Content:
        row = split.values
        if split.split is not None:
            row = row | {RAW: split.split.data, VERSION: split.split.version}
        return self.splits.content(row, version)
