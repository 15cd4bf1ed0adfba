from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.operator_state import OperatorSplit, raw_elements
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.pojo_fields import PojoField
from state_processor.serializers.core.temporal import InstantSerializer
from state_processor.serializers.runtime.wrapping import JavaSerializer
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, UndecodableValueError
from tests.backends.state_files import (
    INT,
    LONG,
    STRING,
    broadcast,
    columns,
    long,
    operator,
    operator_handle,
    operator_header,
    operator_list,
    read_rows,
    snapshot,
    string,
)

SPLIT, UNION, BROADCAST = 0, 1, 2
MODES = {SPLIT: "SPLIT_DISTRIBUTE", UNION: "UNION"}


def entries(*pairs: tuple[bytes, bytes]) -> bytes:
    """A written broadcast state: a count, keys and values."""
    return struct.pack(">i", len(pairs)) + b"".join(k + v for k, v in pairs)


def handle(
    header: bytes, states: Mapping[str, tuple[int, Sequence[bytes]]], compressed: bool = False, offsets: Sequence[int] = ()
) -> h.OperatorStreamStateHandle:
    """``{state: (mode, elements)}`` in one file; ``offsets`` instead of the right ones."""
    data, found = bytearray(header), {}
    if compressed:
        data += b"\xff\x06\0\0sNaPpY"
    forced = list(offsets)
    for name, (mode, elements) in states.items():
        at = []
        for element in elements:
            at.append(forced.pop(0) if forced else len(data))
            data += bytes(cramjam.snappy.compress(element))[10:] if compressed else element  # a flush at each offset
        found[name] = (mode, at)
    return operator_handle(bytes(data), found)


def lists(*elements: bytes, name: str = "l", mode: int = SPLIT, compressed: bool | None = None) -> h.OperatorStreamStateHandle:
    header = operator_header([operator_list(name, STRING, MODES[mode])], compressed=compressed)
    return handle(header, {name: (mode, elements)}, bool(compressed))


@pytest.mark.parametrize("mode", [SPLIT, UNION])
@pytest.mark.parametrize("compressed", [None, False, True])
def test_lists_of_all_subtasks(mode: int, compressed: bool | None) -> None:
    found = operator(
        lists(string("a"), string("bc"), mode=mode, compressed=compressed),
        None,
        lists(string(""), mode=mode, compressed=compressed),
        lists(mode=mode, compressed=compressed),
    )
    assert columns(found, "l") == {"value": "string"}
    assert [r["value"] for r in read_rows(found, "l")] == ["a", "bc", ""]
    assert columns(found, "l", metadata=True) == {
        "value": "string",
        "_key_group": "int32",
        "_subtask": "int32",
        "_last_access": "timestamp[us, tz=UTC]",
    }
    assert read_rows(found, "l", metadata=True)[2] == {"value": "", "_key_group": None, "_subtask": 2, "_last_access": None}


def test_bytes_by_hand() -> None:
    header = operator_header([operator_list("l", LONG)])
    data = header + long(1) + long(-1)
    found = operator(operator_handle(data, {"l": (SPLIT, [len(header), len(header) + 8])}))
    assert read_rows(found, "l") == [{"value": 1}, {"value": -1}]


@pytest.mark.parametrize("compressed", [None, True])
def test_several_states_in_a_file(compressed: bool | None) -> None:
    header = operator_header(
        [operator_list("a", STRING), operator_list("never", LONG), operator_list("b", LONG, "UNION")],
        [broadcast("rules", STRING, LONG), broadcast("none", STRING, LONG)],
        compressed,
    )
    rules = entries((string("x"), long(1)), (string("y"), long(2)))
    states = {
        "a": (SPLIT, [string("one"), string("two")]),
        "never": (SPLIT, []),
        "b": (UNION, [long(1)]),
        "rules": (BROADCAST, [rules]),
        "none": (BROADCAST, [entries()]),
    }
    found = operator(handle(header, states, bool(compressed)))
    assert [r["value"] for r in read_rows(found, "a")] == ["one", "two"]
    assert read_rows(found, "never") == []
    assert [r["value"] for r in read_rows(found, "b")] == [1]
    assert columns(found, "rules") == {"key": "string", "value": "int64"}
    assert read_rows(found, "rules") == [{"key": "x", "value": 1}, {"key": "y", "value": 2}]
    assert read_rows(found, "none") == []


def test_a_state_that_one_subtask_registers() -> None:
    found = operator(lists(string("a"), name="x"), lists(string("b"), name="y"))
    assert [r["value"] for r in read_rows(found, "x")] == ["a"]
    assert [r["value"] for r in read_rows(found, "y")] == ["b"]


def test_subclasses_that_differ_between_subtasks() -> None:
    base = [PojoField("name", STRING, "x.Shape")]
    circle = PojoSerializer("x.Circle", [*base, PojoField("radius", LONG, "x.Circle")])
    known = PojoSerializer("x.Shape", base, unregistered={"x.Circle": circle})
    plain = b"\2\0" + string("p")
    first = handle(operator_header([operator_list("l", PojoSerializer("x.Shape", base))]), {"l": (SPLIT, [plain])})
    round_ = b"\4\0\x08x.Circle\2\0" + string("c") + b"\0" + long(3)
    second = handle(operator_header([operator_list("l", known)]), {"l": (SPLIT, [round_])})
    assert [r["value"] for r in read_rows(operator(first, second), "l")] == [
        {"name": "p", "_class": None, "radius": None},
        {"name": "c", "_class": "x.Circle", "radius": 3},
    ]


# Broadcast state: each subtask has a copy


def rules(*pairs: tuple[str, int], compressed: bool | None = None) -> h.OperatorStreamStateHandle:
    header = operator_header([], [broadcast("rules", STRING, LONG)], compressed)
    copy = entries(*((string(k), long(v)) for k, v in pairs))
    return handle(header, {"rules": (BROADCAST, [copy])}, bool(compressed))


def test_equal_copies_are_one_whatever_their_order() -> None:
    found = operator(rules(("a", 1), ("b", 2)), rules(("b", 2), ("a", 1)), rules(("a", 1), ("b", 2), compressed=True))
    assert read_rows(found, "rules") == [{"key": "a", "value": 1}, {"key": "b", "value": 2}]
    assert [r["_subtask"] for r in read_rows(found, "rules", metadata=True)] == [0, 0]


@pytest.mark.parametrize("other", [[("a", 1)], [("a", 1), ("b", 3)], [("a", 1), ("c", 2)], [], [("a", 1), ("b", 2), ("b", 2)]])
def test_copies_that_differ_are_an_error(other: list[tuple[str, int]]) -> None:
    found = operator(rules(("a", 1), ("b", 2)), rules(("a", 1), ("b", 2)), rules(*other))
    with pytest.raises(CorruptSnapshotError, match=r"subtask 2: its copy of the broadcast state 'rules' differs .* subtask 0"):
        read_rows(found, "rules")


# Wrong offsets of Flink 1.18.0 and 1.18.1


def misplaced(elements: Sequence[bytes], offsets: Sequence[int], header: bytes | None = None) -> OperatorState:
    """Elements in one compressed stream without a flush in between, at these offsets behind the header."""
    header = header or operator_header([operator_list("l", STRING)], compressed=True)
    data = header + bytes(cramjam.snappy.compress(b"".join(elements)))
    return operator(operator_handle(data, {"l": (SPLIT, [len(header) + o for o in offsets])}))


@pytest.mark.parametrize("offsets", [[10, 10, 10], [0, 0, 0], [10, 11, 12], [0, 10, 10]])
def test_offsets_of_what_was_not_written_out_yet(offsets: list[int]) -> None:
    found = misplaced([string("a"), string("bb"), string("ccc")], offsets)
    assert [r["value"] for r in read_rows(found, "l")] == ["a", "bb", "ccc"]


def test_offsets_that_look_right_and_are_not() -> None:
    elements = [string("a" * 100_000), string("b" * 30_000), string("c")]
    stream = bytes(cramjam.snappy.compress(b"".join(elements)))
    second = 10 + 4 + int.from_bytes(stream[11:14], "little")  # the second chunk begins inside the first element
    found = misplaced(elements, [10, second, second])
    assert [len(r["value"]) for r in read_rows(found, "l")] == [100_000, 30_000, 1]


def test_right_offsets_step_over_what_cannot_be_decoded() -> None:
    header = operator_header([operator_list("java", JavaSerializer()), operator_list("l", STRING)], compressed=True)
    states = {"java": (SPLIT, [b"not an object"]), "l": (SPLIT, [string("a"), string("b")])}
    found = operator(handle(header, states, compressed=True))
    assert [r["value"] for r in read_rows(found, "l")] == ["a", "b"]


# Errors and damage


def test_errors_name_the_value() -> None:
    lost = long(5) + struct.pack(">i", 1)
    header = operator_header([operator_list("at", InstantSerializer())], [broadcast("by", STRING, InstantSerializer())])
    found = operator(handle(header, {"at": (SPLIT, [lost]), "by": (BROADCAST, [entries((string("k"), lost))])}))
    shown = r"offset \d+, value '1970-01-01T00:00:05.000000001Z': column 'value': a time has nanoseconds"
    with pytest.raises(UndecodableValueError, match=r"operator 'op', subtask 0, state 'at', inline state file, " + shown):
        read_rows(found, "at")
    with pytest.raises(UndecodableValueError, match=r"state 'by', .*key 'k', value '1970"):
        read_rows(found, "by")


@pytest.mark.parametrize(
    ("elements", "problem"),
    [([string("a") + b"x"], "left over"), ([string("abc")[:-1]], "damaged"), ([b""], r"start at|damaged|end inside")],
)
def test_elements_that_do_not_end_where_the_next_begins(elements: list[bytes], problem: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=problem):
        read_rows(operator(lists(*elements)), "l")


ONE_RULE = string("a") + long(1)


@pytest.mark.parametrize("copy", [b"\0\0\0\1" + ONE_RULE + b"x", b"\0\0\0\2" + ONE_RULE, b"\x7f\xff\xff\xff"])
def test_damaged_broadcast_state(copy: bytes) -> None:
    header = operator_header([], [broadcast("rules", STRING, LONG)])
    with pytest.raises(CorruptSnapshotError, match="state 'rules'"):
        read_rows(operator(handle(header, {"rules": (BROADCAST, [copy])})), "rules")


@pytest.mark.parametrize("offset", [-1, 0, 5, 10**6, 2**62])
def test_impossible_offsets(offset: int) -> None:
    header = operator_header([operator_list("l", STRING)])
    with pytest.raises(CorruptSnapshotError):
        read_rows(operator(handle(header, {"l": (SPLIT, [string("a")])}, offsets=[offset])), "l")


def of_every_kind(names: Mapping[str, str] | None = None) -> h.OperatorStreamStateHandle:
    """Operator state of a subtask, some of it under other ``names`` in the handle."""
    header = operator_header(
        [operator_list("split", STRING), operator_list("union", LONG, "UNION"), operator_list("empty", LONG)],
        [broadcast("rules", STRING, LONG)],
    )
    states = {
        "split": (SPLIT, [string("a"), string("b")]),
        "union": (UNION, [long(1)]),
        "empty": (SPLIT, []),
        "rules": (BROADCAST, [entries((string("x"), long(1)))]),
    }
    made = handle(header, states)
    renamed = (replace(s, name=(names or {}).get(s.name, s.name)) for s in made.states)
    return replace(made, states=tuple(renamed))


@pytest.mark.parametrize("asked", ["split", "union", "empty", "rules"])
@pytest.mark.parametrize("damaged", ["split", "union", "empty", "rules"])
def test_a_name_that_the_file_does_not_register_is_refused_whichever_state_is_read(damaged: str, asked: str) -> None:
    whole, renamed = of_every_kind(), of_every_kind({damaged: "splat"})
    assert read_rows(operator(whole, whole), asked) == read_rows(operator(whole), asked) * (1 if asked == "rules" else 2)
    with pytest.raises(CorruptSnapshotError, match=r"subtask 1.*'splat'; the header of the file does not register"):
        read_rows(operator(whole, renamed), asked)


def test_a_name_that_occurs_twice() -> None:
    with pytest.raises(CorruptSnapshotError, match="`_metadata` has state 'union' 2 times"):
        read_rows(operator(of_every_kind({"split": "union"})), "union")
    header = operator_header([operator_list("l", LONG), operator_list("l", LONG)])
    with pytest.raises(CorruptSnapshotError, match="the header has state 'l' 2 times"):
        read_rows(operator(handle(header, {"l": (SPLIT, [long(1)])})), "l")


@pytest.mark.parametrize(("state", "mode"), [("split", UNION), ("union", SPLIT), ("split", BROADCAST), ("rules", UNION)])
def test_a_mode_that_is_not_that_of_the_header(state: str, mode: int) -> None:
    """Flink would give all elements to all subtasks, or one copy to one."""
    made = of_every_kind()
    damaged = replace(made, states=tuple(replace(s, mode=mode) if s.name == state else s for s in made.states))
    with pytest.raises(CorruptSnapshotError, match=f"state '{state}' is .* in `_metadata`, .* in the header"):
        read_rows(operator(damaged), "empty")


def test_a_registered_state_that_the_handle_does_not_have_is_empty_as_in_flink() -> None:
    made = of_every_kind()
    fewer = replace(made, states=tuple(s for s in made.states if s.name != "empty"))
    assert read_rows(operator(fewer), "empty") == []
    assert [r["value"] for r in read_rows(operator(fewer), "split")] == ["a", "b"]
    fewer = replace(made, states=tuple(s for s in made.states if s.name != "split"))
    with pytest.raises(CorruptSnapshotError, match="the bytes between them do not belong to a state"):
        read_rows(operator(fewer), "union")


@pytest.mark.parametrize("offsets", [[0, 2, 0], [2, 0, 4], [0, 2, 100], [1, 2, 4], []])
def test_offsets_are_checked_whichever_state_is_read(offsets: list[int]) -> None:
    header = operator_header([operator_list("l", STRING), operator_list("empty", STRING)])
    data = header + string("a") * 3
    at = [len(header) + o for o in offsets]
    with pytest.raises(CorruptSnapshotError, match=r"starts at"):
        read_rows(operator(operator_handle(data, {"l": (SPLIT, at), "empty": (SPLIT, [])})), "empty")


@pytest.mark.parametrize("offsets", [0, 2])
def test_broadcast_state_has_one_offset(offsets: int) -> None:
    made = of_every_kind()
    rules = made.states[-1]
    damaged = replace(rules, offsets=h.Offsets.of([*rules.offsets] * offsets))
    with pytest.raises(CorruptSnapshotError, match=f"{offsets} offsets of broadcast state 'rules', not one"):
        read_rows(operator(replace(made, states=(*made.states[:-1], damaged))), "split")


def test_elements_without_bytes_lie_where_the_next_begins() -> None:
    header = operator_header([operator_list("l", STRING), operator_list("i", LONG)])
    at = len(header)
    found = operator_handle(header + string("a") + long(7), {"i": (SPLIT, [at + 2]), "l": (SPLIT, [at])})
    assert raw_elements(snapshot(), OperatorSplit(found, 0, ""), "l")[1].tolist() == [0, 2]
    empty = replace(found, states=(h.OperatorStateMeta("l", SPLIT, h.Offsets.of([at, at, at + 2, at + 2])), found.states[0]))
    data, bounds = raw_elements(snapshot(), OperatorSplit(empty, 0, ""), "l")
    assert (bounds.tolist(), bytes(data)) == ([0, 0, 2, 2, 2], string("a"))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([None, False, True]), st.data())
def test_damage_anywhere_gives_no_other_error_than_ours(compressed: bool | None, data: Any) -> None:
    header = operator_header([operator_list("l", STRING), operator_list("i", INT)], [broadcast("r", STRING, LONG)], compressed)
    states = {
        "l": (SPLIT, [string("one"), string("two")]),
        "i": (SPLIT, [b"\0\0\0\1"]),
        "r": (BROADCAST, [entries((string("k"), long(1)))]),
    }
    made = handle(header, states, bool(compressed))
    damaged = bytearray(made.stream.data)  # type: ignore[union-attr]
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=3)):
        damaged[at] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))])
    found = operator(h.OperatorStreamStateHandle(made.states, h.ByteStreamStateHandle("file", cut)))
    for state in states:
        try:
            read_rows(found, state, nanos="string")
        except StateProcessorError:
            continue
