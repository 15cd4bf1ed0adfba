"""Versions of serializer snapshots: each class refuses versions that its row of the table lacks."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from state_processor.options.user_serializers import import_serializers
from state_processor.serializers import (
    CompositeTypeSerializerSnapshot,
    SimpleTypeSerializerSnapshot,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_serializer_snapshot,
    register_snapshot,
    registrations,
    registry,
)
from state_processor.serializers.base import COMPOSITE_MAGIC, NESTED_MAGIC, read_nested_snapshots
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.format_versions import FLINK_PACKAGES, FormatVersions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import provide_snapshots
from state_processor.support.errors import OptionError, UnknownSerializerError, UnsupportedFormatError
from tests.serializers.harness import snapshot_versions

VERSIONS = snapshot_versions()
LONG = NumberSerializer("LONG")
COMPOSITES = sorted(name for name, known in VERSIONS.items() if known.outer is not None and 3 in known.own.since)
ROW = f"{FLINK_PACKAGES}table.runtime.typeutils.RowDataSerializer$RowDataSerializerSnapshot"
TUPLE = f"{FLINK_PACKAGES}api.java.typeutils.runtime.TupleSerializerSnapshot"


def _framed(class_name: str, version: int, payload: bytes = b"") -> bytes:
    target = DataOutput()
    target.write_utf(class_name)
    target.write_int(version)
    target.write_bytes(payload)
    return target.to_bytes()


def _read(data: bytes, flink_major: int | None = None) -> TypeSerializerSnapshot:
    return read_serializer_snapshot(data, "a file", flink_major=flink_major)


@pytest.fixture
def own_classes() -> Iterator[None]:
    with registrations():
        yield


def test_scalar_types_have_versions() -> None:
    assert VERSIONS[SCALARS["LOCAL_DATE"].serializer.snapshot_class].own.since == {3: "1.9"}
    assert VERSIONS[SCALARS["LONG"].serializer.snapshot_class].own.since == {2: "1.7", 3: "1.8"}


@pytest.mark.parametrize("class_name", sorted(VERSIONS))
def test_another_version_is_refused(class_name: str) -> None:
    known = VERSIONS[class_name].own.since
    for version in {min(known) - 1, max(known) + 1, *range(min(known), min(max(known), 9))} - known.keys():
        with pytest.raises(UnknownSerializerError) as refused:
            _read(_framed(class_name, version))
        assert f"version {version} of {class_name} is not known, only " in str(refused.value)
        assert len(str(refused.value).splitlines()) <= 3


@pytest.mark.parametrize("class_name", COMPOSITES)
def test_another_outer_version_is_refused(class_name: str) -> None:
    outer = VERSIONS[class_name].outer
    assert outer is not None
    version = max(outer.since) + 1
    with pytest.raises(UnknownSerializerError, match=rf"version {version} of .*, outer part is not known, only "):
        _read(_framed(class_name, 3, struct.pack(">ii", COMPOSITE_MAGIC, version)))


@pytest.mark.parametrize(
    ("version", "flink_major", "cause"),
    [
        (5, None, "A Flink after 2.4 probably wrote it"),
        (5, 2, "A Flink after 2.4 probably wrote it"),
        (5, 1, "No release of Flink writes it.*The snapshot is of Flink 1.x"),
        (2, None, "A Flink before 1.11 wrote it, or the bytes are damaged: restore it with"),
    ],
)
def test_the_probable_writer_is_named(version: int, flink_major: int | None, cause: str) -> None:
    with pytest.raises(
        UnsupportedFormatError, match=rf"(?s)a file, offset 0: .*3 \(Flink 1\.11\) and 4 \(Flink 2\.4\)\.\n{cause}"
    ):
        _read(_framed(ROW, version), flink_major)


def test_a_version_in_between_was_never_written() -> None:
    with pytest.raises(UnsupportedFormatError, match="No release of Flink writes it"):
        FormatVersions("a format", {1: "1.8", 3: "1.10"}).check(2, "a file", 0)


def test_the_newest_release_counts() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"A Flink after 2\.3 probably"):
        FormatVersions("a format", {1: "1.8"}).check(2, "a file", 0, 2)


def test_the_block_of_nested_snapshots_has_a_version() -> None:
    with pytest.raises(UnsupportedFormatError, match="version 2 of the block of nested serializer snapshots is not known"):
        read_nested_snapshots(DataInput(struct.pack(">iii", NESTED_MAGIC, 2, 0)))


def test_a_composite_snapshot_of_flink_1_7_has_no_magic_number() -> None:
    nested = struct.pack(">iii", NESTED_MAGIC, 1, 1) + LONG.snapshot().to_bytes()
    snapshot = _read(_framed(ListSerializer(LONG).snapshot().class_name, 1, nested))
    assert snapshot.restore_serializer() == ListSerializer(LONG)
    assert snapshot.to_bytes().endswith(nested)


def test_a_class_without_versions_is_not_provided() -> None:
    with pytest.raises(LookupError, match=r"com\.acme\.Snapshot: its versions are not declared"):
        provide_snapshots(("com.acme.Snapshot",), SimpleTypeSerializerSnapshot)


class MoneySnapshot(SimpleTypeSerializerSnapshot):
    serializer = LONG


class BoxSnapshot(CompositeTypeSerializerSnapshot):
    outer_versions = (1, 2)

    def create_serializer(self, nested):  # type: ignore[no-untyped-def]
        return nested[0]


class AnyVersion(TypeSerializerSnapshot):
    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> AnyVersion:
        return cls(class_name, version)

    def write(self, target: DataOutput) -> None:
        pass

    def restore_serializer(self) -> TypeSerializer:
        return LONG


@pytest.mark.usefixtures("own_classes")
def test_classes_of_users_declare_their_versions() -> None:
    register_snapshot("com.acme.Money", MoneySnapshot)
    register_snapshot("com.acme.Box", BoxSnapshot)
    register_snapshot("com.acme.Any", AnyVersion)
    assert _read(_framed("com.acme.Money", 3)).restore_serializer() == LONG
    assert _read(_framed("com.acme.Any", 77)).version == 77
    with pytest.raises(UnknownSerializerError, match=r"version 4 of com\.acme\.Money is not known, only 2 and 3\.\n.*`versions`"):
        _read(_framed("com.acme.Money", 4))
    box = struct.pack(">ii", COMPOSITE_MAGIC, 3)
    with pytest.raises(UnknownSerializerError, match=r"version 3 of com\.acme\.Box, outer part is not known, only 1 and 2"):
        _read(_framed("com.acme.Box", 3, box))


@pytest.mark.usefixtures("own_classes")
def test_a_user_may_read_another_version_of_flinks_classes() -> None:
    register_snapshot(TUPLE, AnyVersion)
    assert _read(_framed(TUPLE, 9)).version == 9


def test_an_object_that_is_not_a_snapshot_class_is_refused() -> None:
    with pytest.raises(OptionError, match=r"register_snapshot\('com.acme.Money'\): expected a subclass .*, found <object object"):
        register_snapshot("com.acme.Money", object())  # type: ignore[arg-type]


class _BrokenEntryPoint:
    name, value = "acme", "acme.serializers:register"

    def load(self) -> object:
        raise AttributeError("register")


def test_an_entry_point_that_fails_is_named_where_a_class_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: [_BrokenEntryPoint()])
    monkeypatch.setattr(registry, "_FAILED", [])
    registry._load_entry_points.cache_clear()
    assert _read(LONG.snapshot().to_bytes()).restore_serializer() == LONG
    missing = r"(?s)com\.acme\.Missing.*entry point acme \(acme\.serializers:register\) failed with AttributeError: register"
    with pytest.raises(UnknownSerializerError, match=missing):
        _read(_framed("com.acme.Missing", 1))


def test_a_module_of_serializers_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_serializers.py").write_text("{}['missing']", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OptionError, match=r"'acme_serializers': importing the module failed with KeyError: 'missing'"):
        import_serializers(["acme_serializers"])
