"""Codecs of values that have more than one form: cases, names of numbers, versions, and content that keeps its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from state_processor.backends.connectors.codecs import INT, Codec, Content, Framed, read_all, to_bytes
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import UNWRITABLE, InvalidRowError, StateProcessorError, UnsupportedFormatError
from state_processor.support.mappings import inverted

Meaning = TypeVar("Meaning")


def read_number(source: DataInput, codec: Codec, meanings: Mapping[Any, Meaning], title: str) -> tuple[Any, Meaning]:
    """Read a number. Return the number and its entry in ``meanings``.

    Raises
    ------
    CorruptSnapshotError
        The number is not in ``meanings``. The message calls the number ``title``.
    """
    start = source.position
    number = codec.read(source)
    if number not in meanings:
        raise source.corrupt(f"{title} {number}; expected one of {', '.join(map(str, meanings))}", start)
    return number, meanings[number]


@dataclass(frozen=True, slots=True)
class Cases:
    """A number that decides about what follows. The content has the name of the case in field ``name``."""

    by_number: Mapping[int, tuple[str, Codec]]
    name: str = "kind"
    number: Codec = INT

    @property
    def min_size(self) -> int:
        return self.number.min_size

    def read(self, source: DataInput) -> dict[str, Any]:
        _, (case, codec) = read_number(source, self.number, self.by_number, self.name)
        content: dict[str, Any] = codec.read(source)
        return {self.name: case} | content

    def write(self, content: Content, target: DataOutput) -> None:
        case_name = content.get(self.name)
        for number, (case, codec) in self.by_number.items():
            if case == case_name:
                self.number.write(number, target)
                codec.write(content, target)
                return
        names = ", ".join(repr(case) for case, _ in self.by_number.values())
        raise InvalidRowError(f"field {self.name!r} is {case_name!r}; expected one of {names}")


@dataclass(frozen=True, slots=True)
class Enumerated:
    """A number with a name. The content has the name, and the number under ``code`` if ``code`` is given."""

    name: str
    names: Mapping[Any, str]
    code: str | None = None
    codec: Codec = INT

    @property
    def min_size(self) -> int:
        return self.codec.min_size

    def read(self, source: DataInput) -> dict[str, Any]:
        number, name = read_number(source, self.codec, self.names, self.name)
        return {self.name: name} | ({} if self.code is None else {self.code: number})

    def write(self, content: Content, target: DataOutput) -> None:
        numbers = inverted(self.names)
        meaning = content.get(self.name)
        if meaning not in numbers:
            raise InvalidRowError(f"field {self.name!r} is {meaning!r}; expected one of {', '.join(map(repr, numbers))}")
        if self.code is not None and content.get(self.code, numbers[meaning]) != numbers[meaning]:
            raise InvalidRowError(
                f"field {self.code!r} is {content[self.code]!r}, but {self.name!r} is {meaning!r} "
                f"(number {numbers[meaning]}): change both, or remove {self.code!r}"
            )
        self.codec.write(numbers[meaning], target)


class KeptDict(dict[str, Any]):
    """Content that remembers the bytes that it was read from, as other bytes have the same content."""

    __slots__ = ("written",)
    written: bytes


class KeptList(list[Any]):
    """As :class:`KeptDict`, of a list."""

    __slots__ = ("written",)
    written: bytes


class KeptText(str):
    """As :class:`KeptDict`, of text."""

    __slots__ = ("written",)
    written: bytes


_KEPT: Final[Mapping[type, type[KeptDict | KeptList | KeptText]]] = {dict: KeptDict, list: KeptList, str: KeptText}


@dataclass(frozen=True, slots=True)
class Kept:
    """A value with more than one form in bytes. Content that was read and not changed is written in the form that it had."""

    codec: Codec

    @property
    def min_size(self) -> int:
        return self.codec.min_size

    def read(self, source: DataInput) -> Content:
        start = source.position
        content = self.codec.read(source)
        written = bytes(source.data[start : source.position])
        if type(content) not in _KEPT or self._usual(content) == written:
            return content
        remembered = _KEPT[type(content)](content)
        remembered.written = written
        return remembered

    def write(self, content: Content, target: DataOutput) -> None:
        if isinstance(content, (KeptDict, KeptList, KeptText)):
            before = self.codec.read(DataInput(content.written))
            if before == content:
                target.write_bytes(content.written)
                return
        self.codec.write(content, target)

    def _usual(self, content: Content) -> bytes | None:
        try:
            return to_bytes(self.codec, content)
        except UNWRITABLE:
            return None


@dataclass(frozen=True, slots=True)
class FirstThatReads:
    """A value in the first of some layouts that can read it, at any place. The first layout writes it."""

    layouts: tuple[Codec, ...]

    @property
    def min_size(self) -> int:
        return min(layout.min_size for layout in self.layouts)

    def read(self, source: DataInput) -> Content:
        start, problem = source.position, None
        for layout in self.layouts:
            source.position = start
            try:
                return layout.read(source)
            except StateProcessorError as error:
                problem = problem or error
        raise problem or source.corrupt("no layout", start)

    def write(self, content: Content, target: DataOutput) -> None:
        self.layouts[0].write(content, target)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value in the first of some layouts that its bytes fill.

    The first layout that accepts the content writes it. ``writing`` is the order of these attempts: positions of layouts.
    """

    layouts: tuple[Codec, ...]
    writing: tuple[int, ...] = ()

    @property
    def min_size(self) -> int:
        return min(layout.min_size for layout in self.layouts)

    def read(self, source: DataInput) -> Content:
        start, problems = source.position, []
        for layout in self.layouts:
            source.position = start
            try:
                return read_all(layout, source)
            except StateProcessorError as error:
                problems.append(str(error))
        raise source.corrupt("; ".join(dict.fromkeys(problems)), start)

    def write(self, content: Content, target: DataOutput) -> None:
        problems = []
        for position in self.writing or range(len(self.layouts)):
            try:
                target.write_bytes(to_bytes(self.layouts[position], content))
                return
            except UNWRITABLE as error:
                problems.append(str(error))
        raise InvalidRowError("; ".join(dict.fromkeys(problems)))


Versions = Mapping[int, Codec]
"""The codecs of a serializer, by version."""


def of_version(versions: Versions, version: Any, title: str) -> Codec:
    """Return the codec of a version.

    Raises
    ------
    UnsupportedFormatError
        The version is unknown.
    """
    if version not in versions:
        raise UnsupportedFormatError(f"version {version} of {title} is not known, only {', '.join(map(str, sorted(versions)))}")
    return versions[version]


@dataclass(frozen=True, slots=True)
class SplitList:
    """A number of splits, the version of their serializer, and the splits: content of two fields."""

    versions: Versions
    what: str
    name: str
    element: Callable[[Codec], Codec]
    min_size: int = 8

    def read(self, source: DataInput) -> dict[str, Any]:
        start = source.position
        count = source.read_int()
        version = source.read_int()
        element = self.element(Framed(of_version(self.versions, version, self.what)))
        if not 0 <= count <= source.remaining:
            raise source.corrupt(f"{count} splits announced, {source.remaining} bytes left", start)
        return {"splitSerializerVersion": version, self.name: [element.read(source) for _ in range(count)]}

    def write(self, content: Content, target: DataOutput) -> None:
        version, splits = content["splitSerializerVersion"], content[self.name]
        element = self.element(Framed(of_version(self.versions, version, self.what)))
        target.write_int(len(splits))
        target.write_int(version)
        for split in splits:
            element.write(split, target)
