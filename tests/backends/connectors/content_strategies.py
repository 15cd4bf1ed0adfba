"""Strategies of content, made from the declarations of layouts: every value of a layout that its codecs can write.

Plug-ins add strategies for codecs of their own in their tests of layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from hypothesis import strategies as st

from state_processor.backends.connectors import choices, codecs, java_values, kafka
from state_processor.support.errors import UnsupportedFormatError

Strategy = st.SearchStrategy[Any]
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
NAME = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="."), min_size=1, max_size=5)
HEX = st.binary(max_size=5).map(bytes.hex)
VERSIONS = range(21)


def numbers(size: int) -> Strategy:
    return st.integers(-(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1)


LONGS = numbers(8)


@singledispatch
def content_of(codec: Any) -> Strategy:
    special = SPECIAL.get(id(codec))
    if special is None:
        raise TypeError(f"no strategy for {codec!r}")
    return special()


def strategy(codec: Any) -> Strategy:
    special = SPECIAL.get(id(codec))
    return special() if special is not None else content_of(codec)


@content_of.register
def _(codec: codecs.Integer) -> Strategy:
    return numbers(codec.min_size)


@content_of.register
def _(codec: codecs.Boolean) -> Strategy:
    return st.booleans()


@content_of.register(codecs.Utf)
@content_of.register(codecs.Text)
@content_of.register(codecs.FlinkString)
def _(codec: Any) -> Strategy:
    return TEXT


@content_of.register
def _(codec: codecs.Hex) -> Strategy:
    return HEX


@content_of.register
def _(codec: codecs.Struct) -> Strategy:
    dependent = [part for _, part in codec.fields if not hasattr(part, "read")]

    @st.composite
    def build(draw: Callable[[Strategy], Any]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for name, part in codec.fields:
            if not hasattr(part, "read"):
                part = part(content)
            value = draw(st.sampled_from(_known(name, dependent, content)) if _decides(name, part, dependent) else strategy(part))
            content |= value if name is None else {name: value}
        return content

    return build()


DECIDING = {"splitVersion", "stateVersion", "commitMessageVersion", "committableVersion", "size"}


def _decides(name: str | None, part: Any, dependent: list[Any]) -> bool:
    return bool(dependent) and name in DECIDING and isinstance(part, codecs.Integer)


def _known(name: str | None, dependent: list[Any], content: dict[str, Any]) -> list[int]:
    return [number for number in VERSIONS if all(_accepts(part, {**content, name: number}) for part in dependent)]


def _accepts(part: Any, content: dict[str | None, Any]) -> bool:
    try:
        part(content)
    except (UnsupportedFormatError, KeyError) as error:
        return isinstance(error, KeyError)
    return True


@content_of.register
def _(codec: codecs.Constant) -> Strategy:
    return st.just({})


@content_of.register
def _(codec: codecs.Remark) -> Strategy:
    return st.just({codec.name: codec.value})


@content_of.register(codecs.Optional)
@content_of.register(codecs.AtEnd)
def _(codec: Any) -> Strategy:
    return st.none() | strategy(codec.codec)


@content_of.register
def _(codec: codecs.ListOf) -> Strategy:
    return st.lists(strategy(codec.codec), max_size=2)


@content_of.register
def _(codec: codecs.Framed) -> Strategy:
    return st.none() | strategy(codec.codec) if codec.empty_is_null else strategy(codec.codec)


@content_of.register
def _(codec: codecs.Mapped) -> Strategy:
    if codec.after_reading is java_values._only:
        return SCALARS
    if codec.after_reading in READ_AS_WRITTEN:
        return strategy(codec.codec)
    return strategy(codec.codec).map(codec.after_reading)


@content_of.register
def _(codec: choices.Kept) -> Strategy:
    return strategy(codec.codec)


@content_of.register
def _(codec: choices.FirstThatReads) -> Strategy:
    return strategy(codec.layouts[0])


@content_of.register
def _(codec: choices.Cases) -> Strategy:
    return st.one_of(
        strategy(inner).map(lambda content, name=name: {codec.name: name} | content) for name, inner in codec.by_number.values()
    )


@content_of.register
def _(codec: choices.Enumerated) -> Strategy:
    codes = st.sampled_from([*codec.names.items()])
    return codes.map(lambda pair: {codec.name: pair[1]} | ({} if codec.code is None else {codec.code: pair[0]}))


@content_of.register
def _(codec: choices.SplitList) -> Strategy:
    def of(version: int) -> Strategy:
        element = codec.element(codecs.Framed(codec.versions[version]))
        return st.fixed_dictionaries(
            {"splitSerializerVersion": st.just(version), codec.name: st.lists(strategy(element), max_size=2)}
        )

    return st.sampled_from([*codec.versions]).flatmap(of)


@content_of.register
def _(codec: java_values.HexText) -> Strategy:
    return strategy(codec.codec)


@content_of.register
def _(codec: choices.OneOf) -> Strategy:
    return st.one_of(*map(strategy, codec.layouts))


# Layouts whose bytes are not a mere composition

SCALARS = st.one_of(
    st.none(),
    TEXT.map(lambda value: {"class": "java.lang.String", "value": value}),
    numbers(4).map(lambda value: {"class": "java.lang.Integer", "value": value}),
    LONGS.map(lambda value: {"class": "java.lang.Long", "value": value}),
    st.integers(-(2**70), 2**70).map(lambda value: {"class": "java.math.BigInteger", "value": value}),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=0).map(
        lambda value: {"class": "java.math.BigDecimal", "value": str(value)}
    ),
    HEX.map(lambda value: {"class": "[B", "value": value}),
    st.uuids().map(lambda value: {"class": "java.util.UUID", "value": str(value)}),
    st.booleans().map(lambda value: {"class": "java.lang.Boolean", "value": value}),
    st.floats(allow_nan=False, width=64).map(lambda value: {"class": "java.lang.Double", "value": value}),
    st.dates().map(lambda value: {"class": "java.time.LocalDate", "value": str(value)}),
)

READ_AS_WRITTEN: set[Callable[..., Any]] = set()
"""Functions of :class:`~.codecs.Mapped` that return the content of a strategy as it is."""
SPECIAL: dict[int, Callable[[], Strategy]] = {
    id(kafka.OFFSET): lambda: st.none() | LONGS.filter(lambda offset: offset != -(2**63)),
    id(java_values.ROW): lambda: st.none() | st.lists(SCALARS, max_size=2),
}
"""By the identity of the codec."""
