"""Registration of states: conversion to the asynchronous API, and back."""

from __future__ import annotations

import pytest

from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import KeyedDescription, keyed_header, register, registered_as
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.io import DataOutput
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import TTL_SNAPSHOTS, TtlSerializer
from state_processor.support.errors import UnsupportedFormatError

LONG, STRING = NumberSerializer("LONG"), StringSerializer()
VALUES = {"plain": STRING, "with TTL": TtlSerializer.of(STRING)}


def state(kind: str, value: str = "plain") -> KeyedDescription:
    map_key = LONG if kind == "MAP" else None
    return KeyedDescription.of("s", kind, LONG, VoidNamespaceSerializer(), map_key, VALUES[value])


def classes(meta: state_headers.StateMetaInfo) -> dict[str, str]:
    return {role: snapshot.class_name.rpartition(".")[2] for role, snapshot in meta.serializers.items()}


def as_bytes(meta: state_headers.StateMetaInfo) -> bytes:
    target = DataOutput()
    meta.write(target)
    return target.to_bytes()


def test_the_asynchronous_api_registers_parts_of_lists_and_maps() -> None:
    """Flink: ``state.v2.RegisteredKeyAndUserKeyValueStateBackendMetaInfo``."""
    string, long = "StringSerializer$StringSerializerSnapshot", "LongSerializer$LongSerializerSnapshot"
    assert classes(register(state("LIST")))[state_headers.VALUE] == "ListSerializerSnapshot"
    for kind, more in (("LIST", {}), ("VALUE", {}), ("MAP", {state_headers.USER_KEY: long})):
        found = register(state(kind), asynchronous=True)
        assert found.backend_type == state_headers.KEY_VALUE_V2
        assert found.options == {state_headers.KEYED_STATE_TYPE: kind}
        assert classes(found).items() >= ({state_headers.VALUE: string} | more).items()
        assert len(found.serializers) == 2 + len(more)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kind", ["VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING"])
def test_there_and_back(kind: str, value: str) -> None:
    here = register(state(kind, value))
    there = registered_as(keyed_header(LONG, [here]), here, asynchronous=True)
    assert as_bytes(there) == as_bytes(register(state(kind, value), asynchronous=True)) != as_bytes(here)
    assert (there.serializers[state_headers.VALUE].class_name == TTL_SNAPSHOTS[1]) == (value == "with TTL")
    assert registered_as(keyed_header(LONG, [there]), there, asynchronous=True) is there
    assert as_bytes(registered_as(keyed_header(LONG, [there]), there, asynchronous=False)) == as_bytes(here)


def test_map_keys_of_an_unknown_type_stay_in_forst() -> None:
    """Flink 2.0 does not store it."""
    unknown = KeyedDescription.of("s", "MAP", LONG, VoidNamespaceSerializer(), None, STRING)
    meta = register(unknown, asynchronous=True)
    assert meta.serializers.keys() == {state_headers.NAMESPACE, state_headers.VALUE}
    with pytest.raises(UnsupportedFormatError, match=r"^state 's': Flink 2\.0 does not store the type of a map's keys"):
        registered_as(keyed_header(LONG, [meta]), meta, asynchronous=False)
