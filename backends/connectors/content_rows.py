"""Connectors whose splits, enumerators or committables are layouts: columns are parts of the content.

A row is read by taking the columns from the content of a split. It is written by changing these parts in the content of the bytes
that it was read from (``raw``), so that everything else stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.choices import Versions
from state_processor.backends.connectors.codecs import Codec, Content, read_all, to_bytes
from state_processor.backends.connectors.connector import (
    RAW_BYTES,
    SPLIT_ID,
    UNASSIGNED,
    VERSION,
    Connector,
    EnumeratedSplit,
    EnumeratorState,
    Format,
    Formats,
    Values,
    Versioned,
)
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import InvalidRowError
from state_processor.support.mappings import names_of, only_keys

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
        plain_content = plain.take(content)
        return None if plain_content is None else json.dumps(plain_content, ensure_ascii=False)

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
        by_text = {json.dumps(element): element for element in base}
        counterparts = base if len(base) == len(content) else [None] * len(content)
        elements = zip(content, counterparts, strict=True)
        return [with_kept_parts(element, by_text.get(json.dumps(element), counterpart)) for element, counterpart in elements]
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
class ContentSource:
    """A source whose splits and enumerator are layouts. Every change of a split is a change of the content in ``raw``.

    Parameters
    ----------
    name
        The name for users.
    what
        The name in messages: "splits of Kafka".
    layouts, splits, enumerator
        Codecs by Java class and version, and which of these classes write splits and the state of the enumerator.
    parts
        The columns of a split.
    split_id
        The id in the content of a split.
    new_state
        The content of the state of an enumerator without base. The lists of splits in it are empty.
    split_version
        The version of the splits in the state of an enumerator; by default the newest.
    new_split
        The content of a split without bytes, in a version; ``None`` if such splits are refused.
    listings
        The lists of splits in the state of an enumerator. The rest of the state is JSON in a row of its own.
    root
        The part of this state with the lists.
    tidy
        Adapts this part, given its former content, to the splits that are left.
    listed
        Whether an enumerator remembers a split.
    role, usual, keeps_assigned, complete, about
        What messages call the enumerator; see :class:`Formats` and :class:`Connector`.
    """

    name: str
    what: str
    layouts: Mapping[str, Versions]
    splits: str
    enumerator: str
    parts: tuple[Part, ...]
    split_id: Callable[[Content], str]
    new_state: Callable[[Sequence[Values]], Content]
    split_version: Callable[[Content], int] | None = None
    new_split: Callable[[Values, int], Content] | None = None
    listings: Listings = lambda content: ()
    root: Callable[[Content], Content] = lambda content: content
    tidy: Callable[[Content, Content], None] = lambda content, before: None
    listed: Callable[[Values], bool] = lambda row: True
    role: str = "enumerator"
    usual: int | None = None
    keeps_assigned: bool = False
    complete: Callable[[Values], Values] = dict
    about: str = ""

    def connector(self) -> Connector:
        """Return the connector."""
        splits, states = self.layouts[self.splits], self.layouts[self.enumerator]
        return Connector(
            name=self.name,
            fields=self.fields,
            splits=Formats(f"splits of {self.what}", {n: (self._split_format(n, codec),) for n, codec in splits.items()}),
            enumerator=Formats.of_codecs(self._enumerator_name, states, self._format, self.usual),
            keeps_assigned=self.keeps_assigned,
            complete=self.complete,
            layouts=only_keys(self.layouts, (self.splits, self.enumerator)),
            about=self.about,
        )

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """All columns of the connector; the last one has the state of the enumerator."""
        return (*(p.field for p in self.parts), pa.field(ENUMERATOR, pa.string()))

    def _split_version(self, content: Content) -> int:
        return max(self.layouts[self.splits]) if self.split_version is None else self.split_version(content)

    @property
    def _enumerator_name(self) -> str:
        return f"{self.role} of {self.what}"

    # Splits

    def _split_format(self, version: int, codec: Codec) -> Format[Values]:
        def write(row: Values, target: DataOutput) -> None:
            codec.write(self._content(row, version), target)

        return Format(lambda source: self._row(codec.read(source)), write)

    def _row(self, content: Content) -> Values:
        return dict.fromkeys(names_of(self.fields)) | row_of(self.parts, content) | {SPLIT_ID: self.split_id(content)}

    def _content(self, row: Mapping[str, Any], version: int) -> Content:
        """Return the content of a split, from its bytes with the changes of the row."""
        raw, written = row.get(RAW_BYTES), row.get(VERSION)
        if raw is not None and written is not None:
            source = DataInput(bytes(raw), f"split {row.get(SPLIT_ID)!r}, raw")
            return changed_content(self.parts, read_all(self.layouts[self.splits][written], source), row)
        if self.new_split is None:
            raise InvalidRowError(
                f"split {row.get(SPLIT_ID)!r}: new splits of {self.what} can't be written; "
                f"keep the columns {VERSION!r} and {RAW_BYTES!r}"
            )
        return self.new_split(dict(row), version)

    # State of the enumerator

    def _format(self, codec: Codec) -> Format[EnumeratorState]:
        return Format(lambda source: self._read(codec, source), lambda state, target: self._write(codec, state, target))

    def _read(self, codec: Codec, source: DataInput) -> EnumeratorState:
        content = codec.read(source)
        return EnumeratorState(tuple(self._enumerated(content)), {ENUMERATOR: content})

    def _enumerated(self, content: Content) -> Iterator[EnumeratedSplit]:
        version = self._split_version(content)
        for listing in self.listings(content):
            for entry in self.root(content)[listing.name]:
                split = listing.split(entry)
                written = Versioned(version, to_bytes(self.layouts[self.splits][version], split))
                yield EnumeratedSplit(self._row(split), listing.assignment(entry), split=written)
        blank = dict.fromkeys(names_of(self.fields))
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
            content = self.new_state([split.values for split in rows]) if before is None else deepcopy(before)
        version = self._split_version(content)
        lists = self.listings(content)
        waiting = [split.values[SPLIT_ID] for split in rows if split.assignment == UNASSIGNED]
        if waiting and not lists:
            raise InvalidRowError(
                f"split {waiting[0]!r} needs a reader: the {self._enumerator_name} does not hold splits; set 'subtask'"
            )
        root = self.root(content)
        for listing in lists:
            chosen = [split for split in rows if listing.accepts(split.assignment)]
            root[listing.name] = [listing.entry(self._enumerated_content(split, version), split.assignment) for split in chosen]
        if before is not None:
            self.tidy(root, self.root(before))
        codec.write(content, target)

    def _enumerated_content(self, split: EnumeratedSplit, version: int) -> Content:
        row = split.values
        if split.split is not None:
            row = row | {RAW_BYTES: split.split.data, VERSION: split.split.version}
        return self._content(row, version)


# Sinks


def committables(title: str, layouts: Mapping[str, Versions], serializer: str, *parts: Part) -> dict[str, Any]:
    """Return the arguments of a sink whose committables are written by a serializer. Each committable is a row."""
    versions = layouts[serializer]
    fields = tuple(p.field for p in parts)

    def formats(codec: Codec) -> Format[Values]:
        def write(row: Values, target: DataOutput) -> None:
            if row.get(RAW_BYTES) is None or row.get(VERSION) not in versions:
                raise InvalidRowError(f"{title} can't be added; keep the columns 'version' and 'raw'")
            base = read_all(versions[row[VERSION]], DataInput(bytes(row[RAW_BYTES]), f"{title}, raw"))
            codec.write(changed_content(parts, base, row), target)

        return Format(lambda source: row_of(parts, codec.read(source)), write)

    return {
        "fields": fields,
        "committables": Formats.of_codecs(title, versions, formats),
        "layouts": {serializer: versions},
    }
