"""Arbitrary handles and metadata for round trips."""

from __future__ import annotations

from hypothesis import strategies as st

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata import snapshot_metadata as m
from state_processor.backends.metadata.properties import CheckpointProperties, savepoint_properties

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DATA = st.binary(max_size=20)
OFFSETS = st.lists(LONGS, max_size=5).map(h.Offsets.of)


@st.composite
def ranges(draw):
    start = draw(st.integers(0, 200))
    return h.KeyGroupRange(start, start + draw(st.integers(-1, 6)))


def few(strategy):
    return st.lists(strategy, max_size=2).map(tuple)


@st.composite
def key_groups(draw, codes=(3, 7, 12)):
    code = draw(st.sampled_from(codes))
    key_group_range = draw(ranges())
    offsets = h.Offsets.of(draw(st.lists(LONGS, min_size=len(key_group_range), max_size=len(key_group_range))))
    return h.KeyGroupsStateHandle(code, key_group_range, offsets, draw(FLAT_STREAMS), draw(TEXT) if code == 12 else None)


FLAT_STREAMS = st.one_of(
    st.builds(h.ByteStreamStateHandle, TEXT, DATA),
    st.builds(h.FileStateHandle, SIZES, TEXT),
    st.builds(h.RelativeFileStateHandle, TEXT, SIZES),
    st.builds(h.SegmentFileStateHandle, SIZES, SIZES, st.sampled_from([0, 1]), TEXT, TEXT),
    st.just(h.EmptySegmentFileStateHandle()),
)
STREAMS = st.one_of(FLAT_STREAMS, key_groups(codes=(3,)))
LOCAL_FILES = few(st.builds(h.LocalFile, TEXT, STREAMS))
FILE_CHANGES = [
    st.builds(h.ChangelogFileStateHandle, st.just(10), ranges(), few(st.tuples(LONGS, STREAMS)), LONGS, LONGS, TEXT, st.none()),
    st.builds(h.ChangelogFileStateHandle, st.just(13), ranges(), few(st.tuples(LONGS, STREAMS)), LONGS, LONGS, TEXT, TEXT),
]
CHANGES = st.one_of(
    st.builds(h.InMemoryChangelogStateHandle, ranges(), LONGS, LONGS, few(st.builds(h.StateChange, INTS, DATA)), TEXT),
    *FILE_CHANGES,
)
INCREMENTAL = st.one_of(
    st.builds(
        h.IncrementalRemoteKeyedStateHandle,
        st.just(5), LONGS, TEXT, ranges(), STREAMS, LOCAL_FILES, LOCAL_FILES, st.none(), st.none(),
    ),
    st.builds(
        h.IncrementalRemoteKeyedStateHandle,
        st.just(11), LONGS, TEXT, ranges(), STREAMS, LOCAL_FILES, LOCAL_FILES, LONGS, TEXT,
    ),
)  # fmt: skip
BASES = few(st.one_of(key_groups(), INCREMENTAL))
KEYED = st.one_of(
    key_groups(),
    INCREMENTAL,
    CHANGES,
    st.builds(h.ChangelogStateBackendHandle, st.just(8), ranges(), LONGS, BASES, few(CHANGES), LONGS, st.none(), TEXT),
    st.builds(h.ChangelogStateBackendHandle, st.just(14), ranges(), LONGS, BASES, few(CHANGES), LONGS, LONGS, TEXT),
)
OPERATOR_STATES = few(st.builds(h.OperatorStateMeta, TEXT, st.sampled_from([0, 1, 2]), OFFSETS))
OPERATOR = st.one_of(
    st.builds(h.OperatorStreamStateHandle, OPERATOR_STATES, STREAMS),
    st.builds(h.FileMergingOperatorStreamStateHandle, OPERATOR_STATES, TEXT, TEXT, st.booleans(), STREAMS),
)
INPUTS = st.builds(h.InputChannelStateHandle, INTS, INTS, INTS, OFFSETS, LONGS, STREAMS)
OUTPUTS = st.builds(h.ResultSubpartitionStateHandle, INTS, INTS, INTS, OFFSETS, LONGS, STREAMS)
MERGED_INPUTS = st.builds(h.MergedInputChannelStateHandle, INTS, LONGS, STREAMS, DATA)
MERGED_OUTPUTS = st.builds(h.MergedResultSubpartitionStateHandle, INTS, LONGS, STREAMS, DATA)


@st.composite
def subtasks(draw, layout, parallelism):
    index = draw(st.integers(0, parallelism - 1))
    if layout.channels and draw(st.integers(0, 4)) == 0:
        return m.OperatorSubtaskState(index, finished=True)
    return m.OperatorSubtaskState(
        index,
        draw(st.none() | OPERATOR),
        draw(st.none() | OPERATOR),
        draw(st.none() | KEYED),
        draw(st.none() | KEYED),
        draw(few(INPUTS | MERGED_INPUTS if layout.typed_channels else INPUTS)) if layout.channels else (),
        draw(few(OUTPUTS | MERGED_OUTPUTS if layout.typed_channels else OUTPUTS)) if layout.channels else (),
        reference_checkpoint_id=draw(st.none() | LONGS) if layout.reference else None,
        duration=draw(LONGS) if layout.legacy_prefix else -1,
    )


@st.composite
def operators(draw, layout):
    parallelism = draw(st.integers(1, 8))
    finished = layout.channels and draw(st.integers(0, 4)) == 0
    names = st.none() | TEXT.filter(bool) if layout.names else st.none()
    return m.OperatorState(
        draw(st.binary(min_size=16, max_size=16)).hex(),
        parallelism,
        draw(st.integers(parallelism, 32768)),
        () if finished else draw(few(subtasks(layout, parallelism))),
        None if finished or layout.chain_length else draw(st.none() | st.builds(h.ByteStreamStateHandle, TEXT, DATA)),
        draw(names),
        draw(names),
        finished,
        draw(INTS) if layout.chain_length else 1,
    )


@st.composite
def metadata(draw, versions=tuple(m.LAYOUTS)):
    version = draw(st.sampled_from(versions))
    layout = m.LAYOUTS[version]
    properties = st.sampled_from([CheckpointProperties(), savepoint_properties("CANONICAL"), savepoint_properties("NATIVE")])
    return m.CheckpointMetadata(
        version,
        draw(SIZES),
        draw(few(operators(layout))),
        draw(few(st.builds(m.MasterState, INTS, TEXT, DATA))),
        draw(properties) if layout.properties else None,
    )
