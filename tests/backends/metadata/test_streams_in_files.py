from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import read_metadata
from state_processor.backends.metadata.streams import StreamInFile, streams_in_files, with_streams
from tests.backends.snapshot_corpus import metadata_files, streams

IN_FILES = (h.FileStateHandle, h.RelativeFileStateHandle, h.SegmentFileStateHandle)


@pytest.mark.parametrize("file", metadata_files())
def test_streams_of_real_snapshots(file: Path) -> None:
    operators = read_metadata(file.read_bytes()).operators
    found = list(streams_in_files(operators))
    assert found == [stream for stream in streams(operators) if isinstance(stream, IN_FILES)]

    def renamed(stream: StreamInFile) -> h.StreamStateHandle:
        return replace(stream, path=f"{stream.path}x")

    assert list(streams_in_files(with_streams(operators, renamed))) == [renamed(stream) for stream in found]
    assert with_streams(operators, lambda stream: stream) is operators
