from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.backends.metadata import properties as known
from state_processor.backends.metadata.properties import CheckpointProperties, decode_properties, savepoint_properties
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import CheckpointMetadata, read_metadata, write_metadata
from state_processor.support.errors import CorruptSnapshotError, OptionError, StateProcessorError
from tests.backends.snapshot_corpus import metadata_files

NULL = bytes.fromhex("aced000570")
CANONICAL = savepoint_properties().raw
SAVEPOINTS = {("savepoint", "CANONICAL"), ("savepoint", "NATIVE")}


def test_null():
    properties = decode_properties(NULL)
    assert properties == CheckpointProperties()
    assert properties.raw == NULL
    assert properties.kind is None


@pytest.mark.parametrize("format", ["CANONICAL", "NATIVE"])
def test_savepoint(format):
    properties = savepoint_properties(format)
    assert (properties.kind, properties.format, properties.name) == ("savepoint", format, "Savepoint")
    assert properties.post_checkpoint_action == "NONE"
    assert properties.sharing_files_strategy is None
    assert properties.forced is True
    assert properties.unclaimed is False
    assert properties.discard_subsumed is False
    assert decode_properties(properties.raw) == properties


@pytest.mark.parametrize("flags", [bytes(7), bytes([0, 1, 0, 1, 1, 0, 1])])
def test_known_streams_are_what_the_parser_reads(flags):
    for checkpoint_type in known._TYPES:
        raw = known._HEAD + flags + checkpoint_type.stream()
        assert known._decode.__wrapped__(raw) == known._parsed(raw)


def test_properties_of_a_snapshot_that_was_replaced(tmp_path):
    """What is kept is of the bytes, not of the place."""
    for format in ("CANONICAL", "NATIVE", "CANONICAL"):
        raw = savepoint_properties(format).raw
        (tmp_path / "_metadata").write_bytes(write_metadata(CheckpointMetadata(4, 7, (), properties=decode_properties(raw))))
        assert open_snapshot(tmp_path).metadata.properties.format == format


def test_unknown_format():
    with pytest.raises(OptionError, match="CANONICAL or NATIVE"):
        savepoint_properties("canonical")


@pytest.mark.parametrize("raw", [NULL, CANONICAL], ids=["null", "savepoint"])
def test_every_prefix_is_an_error(raw):
    for end in range(len(raw)):
        with pytest.raises(CorruptSnapshotError, match="file, offset 7: expected CheckpointProperties"):
            decode_properties(raw[:end], "file", 7)


@pytest.mark.parametrize("extra", [b"\x70", b"\x00", NULL, CANONICAL[4:]])
@pytest.mark.parametrize("raw", [NULL, CANONICAL], ids=["null", "savepoint"])
def test_anything_after_it_is_an_error(raw, extra):
    with pytest.raises(CorruptSnapshotError):
        decode_properties(raw + extra)


@given(st.integers(4, len(CANONICAL) - 1), st.integers(1, 255))
@settings(max_examples=500)
def test_a_flipped_byte_is_read_or_refused(position, flip):
    damaged = bytearray(CANONICAL)
    damaged[position] ^= flip
    try:
        assert decode_properties(bytes(damaged)).raw == damaged
    except StateProcessorError as e:
        assert "CheckpointProperties" in str(e)  # noqa: PT017


@pytest.mark.parametrize("file", metadata_files())
def test_real_properties(file):
    parsed = read_metadata(file.read_bytes(), str(file))
    properties = parsed.properties or CheckpointProperties()
    assert (parsed.properties is None) == (parsed.version < 4)
    is_checkpoint = file.parent.name.startswith("chk-") or file.parent.name.endswith("-checkpoint")
    kinds = {(None, None)} if parsed.version < 4 else {("checkpoint", None)} if is_checkpoint else SAVEPOINTS
    assert (properties.kind, properties.format) in kinds
    assert CheckpointProperties(properties.raw, **known._parsed(properties.raw)[1]) == properties


@pytest.mark.parametrize("format", ["CANONICAL", "NATIVE"])
def test_savepoints_are_written_as_flink_writes_them(format):
    files = [parameter.values[0] for parameter in metadata_files()]
    real = {p.raw for p in (read_metadata(f.read_bytes()).properties for f in files) if p and p.name == "Savepoint" and p.forced}
    assert not files or savepoint_properties(format).raw in real
