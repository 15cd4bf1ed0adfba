"""Keys that are in files until their key group ends are refused if they occur twice; the files of the savepoint are the same."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.backends.files.scratch import scratch_space
from state_processor.backends.metadata import handles as h
from state_processor.backends.write import spilled_keys
from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT
from state_processor.backends.write.keyed_writer import KeyedSubtask
from state_processor.backends.write.spilled_keys import SpilledKeys
from state_processor.backends.write.staging import Staging
from state_processor.support.errors import InvalidRowError, ScratchSpaceError
from tests.backends.write.test_spilled_runs import BLOBS, HEADER, Blobs, entries, without_repeated


def written(groups: dict[tuple[int, int], Blobs]) -> tuple[h.Offsets, bytes] | str:
    """Write blobs of key groups and states; return offsets and content of the file, or the message of the error."""
    with tempfile.TemporaryDirectory() as directory:
        staging = Staging(directory, "token")
        staging.prepare()
        subtask = KeyedSubtask(HEADER, h.KeyGroupRange(0, 127), 128, "operator 'o'")

        def open_sink(purpose: str):  # type: ignore[no-untyped-def]
            return staging.open(staging.file_name("ab" * 16, purpose, 0))

        try:
            with CANONICAL_FORMAT.open_writer(open_sink, subtask) as writer:
                for (key_group, state_id), blobs in sorted(groups.items()):
                    for blob in blobs:
                        writer.add(key_group, state_id, entries(key_group, blob))
                handle = writer.close()
            assert isinstance(handle, h.KeyGroupsStateHandle)
            assert isinstance(handle.stream, h.RelativeFileStateHandle)
            return handle.offsets, (Path(directory) / handle.stream.path).read_bytes()
        except InvalidRowError as error:
            return str(error)


def scratch_files() -> list[Path]:
    """Return what is in the scratch space of this process."""
    return list(scratch_space()._run.glob("store-*"))


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(st.tuples(st.integers(0, 127), st.integers(0, 1)), BLOBS, min_size=1, max_size=4),
    st.integers(1, 40),
)
def test_the_file_does_not_depend_on_the_size_of_tables(groups: dict[tuple[int, int], Blobs], most_keys: int) -> None:
    distinct = {place: list(without_repeated(blobs)) for place, blobs in groups.items()}
    together = written(distinct)
    with mock.patch.object(spilled_keys, "MOST_KEYS", most_keys):
        assert written(distinct) == together
    assert not isinstance(together, str)
    assert scratch_files() == []


@settings(deadline=None, max_examples=60)
@given(BLOBS, st.data(), st.integers(1, 40))
def test_a_key_that_occurs_twice(blobs: Sequence[Sequence[bytes]], data: st.DataObject, most_keys: int) -> None:
    """In one blob, in one table, in tables far from each other."""
    distinct = [blob for blob in without_repeated(blobs) if blob]
    key = data.draw(st.sampled_from(list(chain.from_iterable(distinct))))
    distinct.insert(data.draw(st.integers(0, len(distinct))), [key])
    refused = written({(5, 0): distinct})
    with mock.patch.object(spilled_keys, "MOST_KEYS", most_keys):
        assert written({(5, 0): distinct}) == refused
        assert written({(5, 0): distinct, (5, 1): [[b"a"]]}) == refused
    assert isinstance(refused, str)
    assert "occurs more than once; a state holds one value for it" in refused
    assert scratch_files() == []


def test_a_disk_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_keys, "MOST_KEYS", 1)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SpilledKeys, "add_table", refuse)
    with pytest.raises(ScratchSpaceError, match=r"keys of a large key group can't be written to .*Set STATE_PROCESSOR_SCRATCH"):
        written({(5, 0): [[b"a"], [b"b"]]})
    assert scratch_files() == []
