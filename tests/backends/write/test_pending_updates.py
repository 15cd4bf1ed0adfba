"""New entries with pending parts that Kryo wrote, for every kind of state: unchanged parts keep their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.write.entry_encoder import BlobAddress, KeyedStateEncoder
from state_processor.backends.write.pending_updates import PendingValueResolver, pairs, with_pending_parts
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kryo.classes import Node
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.support.errors import InvalidRowError
from state_processor.types.flink_types import Types
from state_processor.types.state_specs import AggregatingState, ListState, MapState, ReducingState, StateSpec, ValueState

T = Types
LONG = "java.lang.Long"
PART = KryoSerializer("java.util.List", flink=1)
RAW = PART._encode(Node("java.util.LinkedList", [Node(LONG, 1), Node("java.lang.Integer", 2)])).raw
"""A list that its column, ``[1, 2]``, says too little of to be encoded."""
ACCOUNT = T.POJO("a.Account", {"balance": T.LONG(), "tags": PART})
TIME = pa.timestamp("us", "UTC")
WINDOWS = pa.array([{"start": 0, "end": 5000}], pa.struct([("start", TIME), ("end", TIME)]))


def rows(state: StateDescription, tags: Any, balance: int) -> pa.RecordBatch:
    """One key, with one account in whatever the state holds."""
    account = {"balance": balance, "tags": tags}
    tag_type = pa.binary() if isinstance(tags, bytes) else pa.string()
    column = pa.struct([("balance", pa.int64()), ("tags", tag_type)])
    held: dict[str, pa.Array] = {
        "LIST": pa.array([[account, account]], pa.list_(column)),
        "MAP": pa.array([[("m", account), ("n", account)]], pa.map_(pa.string(), column)),
    }
    columns = {"key": pa.array(["k"]), "value": held.get(state.kind, pa.array([account], column))}
    if not state.in_void_namespace:
        columns["window"] = WINDOWS
    return pa.RecordBatch.from_pydict(columns)


def encoded(state: StateDescription, batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.uint8]]:
    encoder = KeyedStateEncoder(state, BlobAddress(0, 1, 128), batch.schema, last_access=5)
    (blobs,) = encoder.encode(batch)
    return np.frombuffer(b"".join(blobs.column("blob").to_pylist()), dtype=np.uint8)


class Written(KryoSerializer):
    """Uses the bytes of a part unchanged, to write a base like Flink."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()


BASE = T.POJO("a.Account", {"balance": T.LONG(), "tags": Written("java.util.List", flink=1)})


def spec(kind: type[StateSpec], type_: Any, **options: Any) -> StateDescription:
    given = kind(T.STRING(), type_, **options) if kind is MapState else kind(type_, **options)
    return given.describe("accounts", T.STRING())


@pytest.mark.parametrize("kind", [ValueState, ReducingState, AggregatingState, ListState, MapState])
@pytest.mark.parametrize("options", [{}, {"ttl": True}, {"namespace": T.TIME_WINDOW()}], ids=["plain", "ttl", "window"])
def test_every_kind(kind: type[StateSpec], options: dict[str, Any]) -> None:
    base, state = spec(kind, BASE, **options), spec(kind, ACCOUNT, **options)
    resolver = PendingValueResolver([state], frozenset({"accounts"}), lambda *_: "key 'k'", "operator 'o'")
    assert resolver.has(0)
    resolver.keep((7, 0), pairs(encoded(base, rows(base, RAW, 1))))
    new = resolver.resolved((7, 0), encoded(with_pending_parts(state), rows(state, "[1, 2]", 2)))
    assert bytes(new) == bytes(encoded(base, rows(base, RAW, 2)))
    # the resolver forgets entries of another key group
    with pytest.raises(InvalidRowError, match=r"operator 'o', state 'accounts', key 'k': .*tags: \[1, 2\] differs from the"):
        resolver.resolved((8, 0), encoded(with_pending_parts(state), rows(state, "[1, 2]", 2)))


def test_states_without_kryo_have_no_pending_values() -> None:
    state = ValueState(T.LONG()).describe("total", T.STRING())
    assert with_pending_parts(state) == state
    assert not PendingValueResolver([state], frozenset({"total"}), lambda *_: "", "").has(0)
