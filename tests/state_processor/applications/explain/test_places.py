"""Places of Flink: which kind of a cause the method that threw an exception leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_processor.applications.explain import places
from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.applications.explain.places import Family, family_of, frames_of_places, kind_at, room_of
from state_processor.applications.explain.rules import sightings
from state_processor.applications.explain.traces import read_log
from tests.interop.throw_sites import PREFIX, stored_classes

_STATE = f"{PREFIX}runtime.state"
_DOWNLOAD = f"{PREFIX}contrib.streaming.state.RocksDBStateDownloader.downloadDataForStateHandle"
_TASK = f"{PREFIX}runtime.taskmanager.Task.run"
_COORDINATOR = f"{PREFIX}runtime.source.coordinator.SourceCoordinator.resetToCheckpoint"


def _explained(head: str, *frames: str) -> tuple[Kind, str]:
    text = head + "".join(f"\n\tat {frame}(X.java:1)" for frame in frames)
    (sighting,) = sightings(read_log(text).traces)
    assert sighting.certainty is Certainty.LIKELY
    return sighting.kind, sighting.rule.doing


def test_every_class_that_throws_has_a_place() -> None:
    last = places._CLASSES[-1][0]
    frames = [f"{PREFIX}{name}.call" for name in stored_classes()]
    without = [frame for frame in frames_of_places(frames) if (room := room_of([frame])) is None or room[0] is last]
    assert without == []
    assert len(frames) > 500


@pytest.mark.parametrize(
    ("head", "frames", "kind"),
    [
        # a library was called by a restore: the same file means another thing while a source or a sink uses it
        (
            "java.io.FileNotFoundException: Item not found: x",
            ("com.google.gcsio.Storage.open", _DOWNLOAD, _TASK),
            Kind.FILE_MISSING,
        ),
        ("java.net.ConnectException: refused", ("com.google.gcsio.Storage.open", _DOWNLOAD, _TASK), Kind.STORAGE),
        ("java.lang.IllegalStateException: code 16777216", ("a.cdc.AssignerStatus.of", _COORDINATOR), Kind.CONNECTOR),
        (
            "java.lang.IllegalStateException: x",
            ("a.Sink.x", f"{PREFIX}streaming.runtime.operators.sink.CommitterOperator.initializeState", _TASK),
            Kind.TRANSACTION,
        ),
        ("java.lang.IllegalArgumentException: x", (f"{PREFIX}util.Preconditions.checkArgument", _TASK), Kind.LOST_PROCESS),
        # code of the job that reads state is one of its serializers
        (
            "java.lang.IllegalStateException: x",
            ("com.acme.Codec.read", f"{_STATE}.heap.HeapRestoreOperation.restore"),
            Kind.SERIALIZER,
        ),
        # relocated packages have the names of classes
        ("java.lang.IllegalStateException: x", ("com.vendor.flink.state.heap.StateTable.put", _TASK), Kind.KEY_GROUPS),
        # an exception without methods
        ("org.apache.flink.runtime.checkpoint.CheckpointException: odd", (), Kind.CHECKPOINT),
        (
            "java.util.concurrent.CompletionException: org.apache.flink.runtime.checkpoint.CheckpointException: Task has failed.",
            (f"{PREFIX}client.cli.CliFrontend.stop",),
            Kind.CHECKPOINT,
        ),
    ],
)
def test_the_kind_follows_from_the_place_and_the_exception(head: str, frames: tuple[str, ...], kind: Kind) -> None:
    assert _explained(head, *frames)[0] is kind


def test_the_answer_says_what_flink_was_doing() -> None:
    _, doing = _explained("java.lang.IllegalStateException: x", f"{_STATE}.heap.StateTable.put", _TASK)
    assert doing == "looked up the current key in the heap"


def test_families_of_exceptions() -> None:
    names = ("java.io.FileNotFoundException", "java.lang.OutOfMemoryError", "java.io.EOFException", "com.acme.Odd")
    assert list(map(family_of, names)) == [Family.MISSING, Family.MEMORY, Family.DAMAGED, Family.CHECK]
    room = room_of([f"{_STATE}.heap.HeapRestoreOperation.restore"])
    assert room is not None
    kinds = (Kind.FILE_MISSING, Kind.MEMORY, Kind.FILE_DAMAGED, Kind.FILE_DAMAGED)
    assert tuple(kind_at(room[0], name) for name in names) == kinds


def test_methods_that_no_place_knows() -> None:
    assert room_of(["com.acme.A.b"]) is None
    assert [*sightings(read_log("com.acme.OddException: 7\n\tat com.acme.A.b(A.java:1)\n").traces)] == []


def test_the_table_has_classes_alone() -> None:
    table = Path(__file__).with_name("throw_sites.txt")
    assert stored_classes(table) == stored_classes()
    assert not any("$" in name for name in stored_classes())
