"""Key groups from columns of keys equal real Flink's; rules learned from keys; refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, operator_states
from state_processor.backends.state.hash_inference import learn_hash_rule, misfits, rules_left
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.core.arrays import BytesSerializer, PrimitiveArraySerializer
from state_processor.serializers.core.basic import BigDecimalSerializer, CharSerializer, NumberSerializer, StringSerializer
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.serializers.core.nullable import NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import RowSerializer, TupleSerializer
from state_processor.serializers.core.temporal import LocalDateSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.hash_codes import hash_codes
from state_processor.serializers.java import hashing
from state_processor.support.errors import InvalidRowError, UnsupportedFormatError
from tests import corpus
from tests.interop.selection import covering

LONG, INT, STRING = NumberSerializer("LONG"), NumberSerializer("INT"), StringSerializer()


@pytest.mark.parametrize(
    ("serializer", "key", "code"),
    [
        (LONG, -12345678901, -539222986),
        (INT, -7, -7),
        (NumberSerializer("BOOLEAN"), False, 1237),
        (NumberSerializer("DOUBLE"), -0.0, -(1 << 31)),
        (NumberSerializer("DOUBLE"), float("nan"), 0x7FF80000),
        (NumberSerializer("FLOAT"), 1.0, 0x3F800000),
        (CharSerializer(), "ß", 223),
        (STRING, "héllo€😀", 403414657),
        (TupleSerializer([LONG, STRING]), {"f0": 5, "f1": "ab"}, 3260),
        (TupleSerializer([NullableSerializer(LONG), STRING]), {"f0": None, "f1": "ab"}, 3105),
        (RowSerializer([LONG, STRING, STRING]), {"f0": 5, "f1": "ab", "f2": None}, 161603),
        (RowSerializer([INT, INT]), {"row_kind": "-D", "f0": 1, "f1": 2}, 2079),
        (BigDecimalSerializer(), "123.450", 3826953),
        (LocalDateSerializer(), "2024-02-29", 4145309),
    ],
    ids=str,
)
def test_hash_codes_of_java(serializer: Any, key: Any, code: int) -> None:
    type_ = serializer.arrow_type(DecodeOptions(nanos="string", row_kind=isinstance(key, dict) and "row_kind" in key))
    assert hash_codes(serializer, pa.array([key, key], type_)).tolist() == [code, code]


@pytest.mark.parametrize(
    ("serializer", "keys", "problem"),
    [
        (BytesSerializer(), pa.array([b"a"]), "array"),
        (PrimitiveArraySerializer("INT"), pa.array([[1]], pa.list_(pa.int32())), "array"),
        (EnumSerializer("Tier", ["A"]), pa.array(["A"]), "enum"),
    ],
    ids=str,
)
def test_keys_that_flink_forbids(serializer: Any, keys: pa.Array, problem: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=problem):
        hash_codes(serializer, keys)


def test_null_key() -> None:
    with pytest.raises(InvalidRowError, match="row 1 is null"):
        hash_codes(STRING, pa.array(["a", None]))


CANONICAL = [c for c in corpus.all_cases("*-canonical") if "snapshot_dir" in c.facts]


@pytest.mark.parametrize("case", covering(CANONICAL, lambda c: c.traits), ids=lambda c: c.id)
def test_every_key_lies_where_its_hash_says(case: corpus.Case) -> None:
    snapshot = open_snapshot(case.snapshot)
    options = ReadOptions.of(metadata=True, nanos="string", row_kind=True)
    compared = 0
    for operator in snapshot.metadata.operators:
        stored = StoredOperator(snapshot, operator)
        for state in operator_states(snapshot, operator).values():
            if not state.is_keyed or state.key is None:
                continue
            reader = open_state(stored, state.name, options=options)
            batches = [b for split in reader.splits() for b in reader.read(split) if b.num_rows]
            if not batches:
                continue
            keys = pa.chunked_array([b.column("key") for b in batches]).combine_chunks()
            groups = np.concatenate([b.column("_key_group").to_numpy() for b in batches])
            try:
                codes = hash_codes(state.key, keys)
            except UnsupportedFormatError:
                assert "POJO" in str(state.key) or "KRYO" in str(state.key) or "AVRO" in str(state.key), state.key
                continue
            assert key_group(codes, operator.max_parallelism).tolist() == groups.tolist(), (state.name, str(state.key))
            compared += len(keys)
    has_keys = any(s["entries"] for o in case.expected["operators"] if o.get("key_type") for s in o["states"])
    assert compared or not has_keys or any("POJO" in (o.get("key_type") or "") for o in case.expected["operators"])


POINT = PojoSerializer.of("Point", {"x": INT, "name": STRING, "z": LONG})


def points(count: int) -> list[dict[str, Any]]:
    return [{"x": i * 7919 - 50_000, "name": f"p{i % 17}", "z": i * 1_000_003 << 8} for i in range(count)]


def arrow(rows: list[dict[str, Any]]) -> pa.Array:
    return pa.array(rows, POINT.arrow_type(DecodeOptions()))


def polynomial(start: int, factor: int, *names: str) -> Callable[[dict[str, Any]], int]:
    def code(point: dict[str, Any]) -> int:
        result = start
        for name in names:
            result = hashing.wrap(result * factor + POINT_HASHES[name](point[name]))
        return result

    return code


POINT_HASHES = {"x": int, "name": hashing.of_string, "z": hashing.of_long}


@pytest.mark.parametrize(
    ("written", "named"),
    [
        (polynomial(1, 31, "x", "name", "z"), "Objects.hash (x, name, z)"),
        (polynomial(0, 31, "z", "x", "name"), "record"),
        (polynomial(17, 31, "name", "z", "x"), "17"),
        (polynomial(1, 59, "x", "z", "name"), "Lombok (x, z, name)"),
        (lambda p: hashing.of_string(p["name"]) ^ p["x"] ^ hashing.of_long(p["z"]), "exclusive or"),
        (lambda p: hashing.of_long(p["z"]), "(z)"),
    ],
)
def test_rules_are_learned(written: Callable[[dict[str, Any]], int], named: str) -> None:
    rows = points(400)
    codes = np.array([written(p) for p in rows], dtype=np.int64).astype(np.int32)
    learned = learn_hash_rule(POINT, arrow(rows[:300]), key_group(codes[:300], 128), 128)
    assert named in str(learned)
    assert key_group(learned(arrow(rows)), 128).tolist() == key_group(codes, 128).tolist()


def test_no_rule_fits() -> None:
    rows = points(300)
    with pytest.raises(UnsupportedFormatError, match="no usual formula fits"):
        learn_hash_rule(POINT, arrow(rows), np.arange(300, dtype=np.int32) % 128, 128)


def test_too_few_keys() -> None:
    rows = points(3)
    with pytest.raises(UnsupportedFormatError, match="3 keys are too few"):
        learn_hash_rule(POINT, arrow(rows), np.zeros(3, dtype=np.int32), 128)


def test_keys_that_contradict_rules() -> None:
    """Of the rules that some keys fit, those go that others contradict."""
    rows = [{"x": i, "name": "", "z": i} for i in range(200)] + [{"x": 1, "name": "other", "z": 70_000}]
    codes = np.array([polynomial(1, 31, "x", "name", "z")(p) for p in rows], dtype=np.int64).astype(np.int32)
    groups = key_group(codes, 128)
    learned = learn_hash_rule(POINT, arrow(rows[:200]), groups[:200], 128)
    contradicted = misfits(POINT, learned.rules, arrow(rows), groups, 128)
    assert {m.key_group for m in contradicted.values()} == {groups[200]}
    assert all("other" in m.key for m in contradicted.values())
    assert list(map(str, rules_left(POINT, learned.rules, contradicted))) == ["Objects.hash (x, name, z)"]
    with pytest.raises(UnsupportedFormatError, match=r".*other.* is in key group .*, but .* gives another one"):
        rules_left(POINT, [learned.rules[position] for position in contradicted], dict(enumerate(contradicted.values())))


def test_rules_that_disagree_on_a_new_key() -> None:
    """Fields that are equal in all keys seen leave their order open."""
    rows = [{"x": i, "name": "", "z": i} for i in range(200)]
    codes = np.array([polynomial(1, 31, "x", "name", "z")(p) for p in rows], dtype=np.int64).astype(np.int32)
    learned = learn_hash_rule(POINT, arrow(rows), key_group(codes, 128), 128)
    assert len(learned.rules) > 1
    assert learned(arrow(rows)).tolist() == codes.tolist()
    with pytest.raises(InvalidRowError, match="but these disagree here"):
        learned(arrow([{"x": 1, "name": "other", "z": 70_000}]))
