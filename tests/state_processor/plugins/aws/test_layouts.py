"""Layouts of sources and sinks of AWS, with strategies of their content."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import strategies as st

from state_processor.plugins.aws import layouts as aws
from state_processor.plugins.aws.connectors import CONNECTORS
from state_processor.serializers.kryo.wire import KryoInput
from tests.backends.connectors.content_strategies import HEX, LONGS, TEXT, Strategy, content_of, numbers, strategy
from tests.backends.connectors.layout_tests import LayoutTests, names_of


@content_of.register(aws.CharCounted)
@content_of.register(aws._SequenceMarker)
def _(codec: Any) -> Strategy:
    return TEXT


@content_of.register
def _(codec: aws.OfSize) -> Strategy:
    if codec.as_text:
        return st.text(st.characters(max_codepoint=127), min_size=codec.size, max_size=codec.size)
    return st.binary(min_size=codec.size, max_size=codec.size).map(bytes.hex)


@content_of.register
def _(codec: aws._KinesisMarker) -> Strategy:
    return st.fixed_dictionaries({}, optional={"epochMillis": LONGS, "sequenceNumber": TEXT})


def _tagged(name: str, value: Any) -> dict[str, Any]:
    return {name: value}


@content_of.register
def _(codec: aws.TaggedValue) -> Strategy:
    leaves = {"S": TEXT, "N": TEXT, "BOOL": st.booleans(), "NULL": st.just(True), "B": HEX}
    leaves |= {"SS": st.lists(TEXT, max_size=2), "NS": st.lists(TEXT, max_size=2), "BS": st.lists(HEX, max_size=2)}
    plain = st.one_of([value.map(partial(_tagged, name)) for name, value in leaves.items()])

    def deeper(inner: Strategy) -> Strategy:
        entries = st.lists(st.fixed_dictionaries({"key": TEXT, "value": inner}), max_size=2)
        return st.fixed_dictionaries({"L": st.lists(inner, max_size=2)}) | st.fixed_dictionaries({"M": entries})

    return st.recursive(plain, deeper, max_leaves=4)


@content_of.register
def _(codec: aws._Later) -> Strategy:
    return strategy(codec.codec())


@content_of.register
def _(codec: aws.OfKryo) -> Strategy:
    values: dict[Any, Strategy] = {KryoInput.int_: numbers(4), KryoInput.long: LONGS, KryoInput.text: TEXT}
    return values[codec.take]


class TestLayouts(LayoutTests):
    """A snapshot of the tuples of the consumer is kept as bytes."""

    names = names_of(CONNECTORS) - {"org.apache.flink.api.java.typeutils.runtime.TupleSerializerSnapshot"}
