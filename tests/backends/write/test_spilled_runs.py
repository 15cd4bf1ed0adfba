"""Entries that are sorted in runs and merged are written as entries that are sorted together, and refused as those."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.backends.files.changes import FileSink
from state_processor.backends.formats.entry_framing import entry_spans
from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import StateDescription, keyed_header, register
from state_processor.backends.write import spilled_runs, store_writer
from state_processor.backends.write.keyed_formats import StoreFormat
from state_processor.backends.write.keyed_writer import KeyedSubtask
from state_processor.backends.write.sorted_entries import sort_entries
from state_processor.backends.write.spilled_runs import SpilledRuns
from state_processor.backends.write.staging import Staging
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.errors import InvalidRowError, ScratchSpaceError
from tests.backends.write.random_stores import framed

Blobs = Sequence[Sequence[bytes]]

STATES = [
    StateDescription.of(name, "VALUE", StringSerializer(), VoidNamespaceSerializer(), value=NumberSerializer("LONG"))
    for name in ("first", "second")
]
HEADER = keyed_header(StringSerializer(), [register(state) for state in STATES])
KEYS = st.tuples(st.sampled_from([b"", b"a", b"the same beginning of many keys"]), st.binary(max_size=9)).map(b"".join)
BLOBS = st.lists(st.lists(KEYS, min_size=1, max_size=30), min_size=1, max_size=8)


@contextmanager
def bounds(run_bytes: int, chunk_bytes: int) -> Iterator[None]:
    """Limit the memory of runs and the size of chunks."""
    with (
        mock.patch.object(store_writer, "_RUN_BYTES", run_bytes),
        mock.patch.object(spilled_runs, "_CHUNK_BYTES", chunk_bytes),
        mock.patch.dict("os.environ", {"SOURCE_DATE_EPOCH": "1700000000"}),
    ):
        yield


def written(groups: dict[tuple[int, int], Blobs]) -> dict[str, bytes] | str:
    """Write blobs of key groups and states; return the files of the store, or the message of the error."""
    with tempfile.TemporaryDirectory() as directory:
        staging = Staging(directory, "token")
        staging.prepare()
        numbers = iter(range(1000))

        @contextmanager
        def open_sink(purpose: str) -> Iterator[FileSink]:
            with staging.open(staging.file_name("ab" * 16, purpose, 0, next(numbers))) as sink:
                yield sink

        subtask = KeyedSubtask(HEADER, h.KeyGroupRange(0, 127), 128, "operator 'o'")
        try:
            with StoreFormat().open_writer(open_sink, subtask) as writer:
                for (key_group, state_id), blobs in sorted(groups.items()):
                    for blob in blobs:
                        writer.add(key_group, state_id, entries(key_group, blob))
                return dict(contents(writer.close(), Path(directory)))
        except InvalidRowError as error:
            return str(error)


def entries(key_group: int, keys: Sequence[bytes]) -> Any:
    """Return framed entries; the value of a key is its reverse."""
    return framed([(bytes([key_group]) + key, key[::-1]) for key in keys])


def contents(handle: Any, directory: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a store."""
    for file in handle.private:
        in_metadata = isinstance(file.stream, h.ByteStreamStateHandle)
        yield file.local_name, file.stream.data if in_metadata else (directory / file.stream.path).read_bytes()


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(st.tuples(st.integers(0, 127), st.integers(0, 1)), BLOBS, min_size=1, max_size=4),
    st.integers(1, 20_000),
    st.integers(1, 600),
)
def test_runs_make_the_files_of_entries_that_are_sorted_together(
    groups: dict[tuple[int, int], Blobs], run_bytes: int, chunk_bytes: int
) -> None:
    """Also many runs of one blob each, chunks of one entry, and entries that come in the order of their keys."""
    distinct = {place: list(without_repeated(blobs)) for place, blobs in groups.items()}
    with bounds(store_writer._RUN_BYTES, spilled_runs._CHUNK_BYTES):
        together = written(distinct)
    with bounds(run_bytes, chunk_bytes):
        assert written(distinct) == together
    assert isinstance(together, dict)


def without_repeated(blobs: Blobs) -> Iterator[list[bytes]]:
    """Yield blobs without keys that occurred before."""
    keys: set[bytes] = set()
    for blob in blobs:
        distinct = [key for key in dict.fromkeys(blob) if key not in keys]
        keys |= {*distinct}
        yield distinct


@settings(deadline=None, max_examples=60)
@given(BLOBS, st.data(), st.integers(1, 20_000), st.integers(1, 600))
def test_runs_refuse_a_key_that_occurs_twice(blobs: Blobs, data: st.DataObject, run_bytes: int, chunk_bytes: int) -> None:
    """In one blob, in one run, in runs far from each other."""
    distinct = [blob for blob in without_repeated(blobs) if blob]
    key = data.draw(st.sampled_from([key for blob in distinct for key in blob]))
    distinct.insert(data.draw(st.integers(0, len(distinct))), [key])
    with bounds(store_writer._RUN_BYTES, spilled_runs._CHUNK_BYTES):
        refused = written({(5, 0): distinct})
    with bounds(run_bytes, chunk_bytes):
        assert written({(5, 0): distinct}) == refused
    assert isinstance(refused, str)
    assert "occurs more than once; a state holds one value for it" in refused


def test_each_run_is_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_runs, "_CHUNK_BYTES", 300)
    runs = SpilledRuns(tmp_path / "runs", 1)
    keys = [number.to_bytes(4, "big") for number in range(2000)]
    for first in range(4):
        data = entries(1, keys[first::4])
        runs.add(sort_entries(data, entry_spans(data), 1))
    parts = [(len(part.order), part.framed(0, len(part.order)).tobytes()) for part in runs.merged()]
    assert b"".join(part for _, part in parts) == entries(1, keys).tobytes()
    assert max(count for count, _ in parts) < 4 * 300 // 10
    assert not list(tmp_path.iterdir())


def test_a_file_of_runs_that_is_cut(tmp_path: Path) -> None:
    store = store_writer.NewStore(tmp_path, ["state"], 1, "operator 'o': ")
    runs = SpilledRuns(tmp_path / "runs", 1)
    data = entries(1, [b"a", b"b"])
    runs.add(sort_entries(data, entry_spans(data), 1))
    (tmp_path / "runs").write_bytes(data[:-1].tobytes())
    with pytest.raises(ScratchSpaceError, match=r"runs: expected \d+ bytes at offset 0; the file ends before"), store.reporting():
        list(runs.merged())
