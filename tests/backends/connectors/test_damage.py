"""Unknown versions and damaged bytes: serializers refuse them by name, and a savepoint carries them unchanged.

``test_layouts`` tries truncated, changed and additional bytes of every layout.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import connectors
from state_processor.backends.connectors.connector import COMMITTABLE, Connector, EnumeratorState, Format, Formats, Versioned
from state_processor.backends.connectors.registry import layouts, sinks, sources
from state_processor.serializers import registrations
from state_processor.support.errors import StateProcessorError, UnsupportedFormatError

LAYOUTS = layouts().by_class


@pytest.mark.parametrize("name", LAYOUTS)
def test_unknown_versions_are_refused_by_name(name: str) -> None:
    known = sorted(LAYOUTS[name])
    for version in {-1, known[-1] + 1, 1000}:
        refused = rf"version {version} of {re.escape(name)} is not known, only {', '.join(map(str, known))}"
        with pytest.raises(UnsupportedFormatError, match=refused):
            connectors.decode(name, version, b"")
        with pytest.raises(UnsupportedFormatError, match=refused):
            connectors.encode(name, version, {})


# In savepoints


def _verbatim(splits: int, enumerator: int, state: bytes) -> Connector:
    """Return a connector whose splits and enumerator are any bytes, in some versions."""

    def write(row: Any, target: Any) -> None:
        target.write_bytes(row["data"])

    def read(source: Any) -> Any:
        data = source.read_bytes(source.remaining)
        return {"split_id": data.hex(), "data": data}

    return Connector(
        "verbatim",
        (pa.field("data", pa.binary()),),
        Formats("splits", {splits: (Format(read, write),)}),
        Formats(
            "enumerator",
            {enumerator: (Format(lambda source: EnumeratorState(()), lambda _, target: target.write_bytes(state)),)},
        ),
    )


def _damaged(connector: Any) -> list[tuple[Versioned, Versioned]]:
    """Return splits and states of enumerators, of which one is damaged."""
    split = Versioned(max(connector.splits.by_version), b"\0\0\0\7?")
    unknown = Versioned(max(connector.splits.by_version) + 1, b"")
    state = Versioned(max(connector.enumerator.by_version) + 1, b"\1\2\3")
    return [(split, state), (unknown, state)]


SOURCES = sorted(sources())


def test_damaged_splits_are_carried_unchanged(tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.new()
    expected = {}
    for name in SOURCES:
        for number, (split, state) in enumerate(_damaged(sources()[name])):
            uid = f"{name}-{number}"
            expected[uid] = [(0, split.version, split.data), (None, state.version, state.data)]
            with registrations():
                connectors.register(_verbatim(split.version, state.version, state.data))
                rows = pa.table({"subtask": pa.array([0], pa.int32()), "split_id": ["x"], "data": [split.data]})
                writer.with_source_splits(uid, rows, connector="verbatim")
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    writer.write(first)
    sp.arrow.SavepointWriter.from_existing(first).remove_operator(f"{SOURCES[0]}-0").write(second)
    del expected[f"{SOURCES[0]}-0"]
    for uid, rows in expected.items():
        found = sp.arrow.read_source_splits(second, uid).to_pylist()
        assert [(row["subtask"], row["version"], row["raw"]) for row in found] == rows, uid
        with pytest.raises(StateProcessorError, match=r"operator .*, subtask 0, .*(version|offset)"):
            sp.arrow.read_source_splits(second, uid, uid.rpartition("-")[0])


SINKS = sorted(name for name, sink in sinks().items() if COMMITTABLE not in sink.own_states)


def test_damaged_state_of_sinks_is_carried_unchanged(tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.new()
    bytes_ = sp.Types.PRIMITIVE_ARRAY(sp.Types.BYTE())
    expected = {}
    for name in SINKS:
        for number, version in enumerate((max(sinks()[name].writer.by_version, default=0), 77)):
            uid = f"{name}-{number}"
            expected[uid] = Versioned(version, b"\0\0\0\7?")
            state = "streaming_committer_raw_states" if sinks()[name].own_committer is not None else "writer_raw_states"
            writer.with_list_state(uid, state, pa.table({"value": [expected[uid].to_bytes()]}), bytes_)
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    writer.write(first)
    sp.arrow.SavepointWriter.from_existing(first).remove_operator(f"{SINKS[0]}-0").write(second)
    del expected[f"{SINKS[0]}-0"]
    for uid, written in expected.items():
        (row,) = sp.arrow.read_sink_state(second, uid).to_pylist()
        assert (row["version"], row["raw"]) == (written.version, written.data)
        with pytest.raises(StateProcessorError, match=r"operator .*, subtask 0, .*(version|offset)"):
            sp.arrow.read_sink_state(second, uid, uid.rpartition("-")[0])
