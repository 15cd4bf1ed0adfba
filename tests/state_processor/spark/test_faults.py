"""Errors about a damaged snapshot name operator, state and file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from tests.backends.open_stores import close_stores
from tests.state_processor.samples import FIXTURES, ORDERS

NATIVE = FIXTURES / "2.3.0" / "orders-rocksdb-native"
INCREMENTAL = FIXTURES / "2.3.0" / "orders-rocksdb-incremental"
UID = "orders"
LOST = "does not exist|is missing"
OF_ANOTHER_LENGTH = r"has \d+ bytes; the snapshot records \d+|has only \d+ bytes"


@pytest.fixture(autouse=True)
def no_open_stores() -> Any:
    close_stores()
    yield
    close_stores()


def copied(case: Path, target: Path) -> Path:
    """A copy of a case's snapshot that may be damaged; the directory with ``_metadata``."""
    root = Path(shutil.copytree(case / "savepoint", target / case.name))
    return next(root.rglob("_metadata")).parent


def files_of(snapshot: Path, part: str) -> list[tuple[str, Path]]:
    """Names and places of the files of operator ``orders`` whose local name has ``part`` in it."""
    found = []
    for row in sp.arrow.handles(snapshot).to_pylist():
        if row["operator_uid_hash"] == sp.OperatorIdentifier.for_uid(UID).uid_hash and part in (row["local_name"] or ""):
            name = row["path"].rpartition("/")[2]
            places = (snapshot / name, snapshot.parent / "shared" / name)
            found.append((row["local_name"], next(place for place in places if place.exists())))
    return found


def read(snapshot: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in sp.arrow.read_state(snapshot, UID, "total", **options) for row in batch.to_pylist()]


def tables_of_total(snapshot: Path) -> list[Path]:
    """Return the tables with entries of the state: a read fails if their bytes are zeros."""
    tables = [path for _, path in files_of(snapshot, ".sst")]
    found = []
    for path in tables:
        content = path.read_bytes()
        path.write_bytes(bytes(len(content)))
        try:
            read(snapshot)
        except sp.CorruptSnapshotError:
            found.append(path)
        path.write_bytes(content)
        close_stores()
    assert 0 < len(found) < len(tables)
    return found


def delete(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(7))


@pytest.mark.parametrize("case", [NATIVE, INCREMENTAL], ids=lambda case: case.name)
@pytest.mark.parametrize(
    ("part", "damage", "told"),
    [
        (".sst", delete, LOST),
        (".sst", cut, OF_ANOTHER_LENGTH),
        (".sst", lengthen, OF_ANOTHER_LENGTH),
        ("MANIFEST", cut, OF_ANOTHER_LENGTH),
        ("MANIFEST", delete, LOST),
        ("CURRENT", delete, LOST),
    ],
    ids=["sst deleted", "sst cut", "sst longer", "manifest cut", "manifest deleted", "current deleted"],
)
def test_files_of_rocksdb(case: Path, part: str, damage: Callable[[Path], None], told: str, tmp_path: Path) -> None:
    snapshot = copied(case, tmp_path)
    path = tables_of_total(snapshot)[0] if part == ".sst" else files_of(snapshot, part)[0][1]
    damage(path)
    where = f"state 'total' of operator 'orders', subtask 0.*: .*{path.name}"
    with pytest.raises(sp.MissingFileError, match=f"{where}.*({told})"):
        read(snapshot)


@pytest.mark.parametrize("case", [NATIVE, INCREMENTAL], ids=lambda case: case.name)
def test_files_in_each_others_place(case: Path, tmp_path: Path) -> None:
    snapshot = copied(case, tmp_path)
    own = tables_of_total(snapshot)[0]
    other = max((path for _, path in files_of(snapshot, ".sst")), key=lambda path: path.stat().st_size)
    assert own.stat().st_size < other.stat().st_size
    content = own.read_bytes()
    own.write_bytes(other.read_bytes())
    other.write_bytes(content)
    with pytest.raises(sp.MissingFileError, match=rf"state 'total' of operator 'orders', subtask 0.*{own.name} has 2699 bytes"):
        read(snapshot)


def test_a_file_in_anothers_place_that_has_its_length(tmp_path: Path) -> None:
    snapshot = copied(NATIVE, tmp_path)
    own = tables_of_total(snapshot)[0]
    other = max((path for _, path in files_of(snapshot, ".sst")), key=lambda path: path.stat().st_size)
    own.write_bytes(other.read_bytes()[-own.stat().st_size :])
    with pytest.raises(sp.CorruptSnapshotError, match=rf"state 'total' of operator 'orders', subtask 0.*{own.name}"):
        read(snapshot)


@pytest.mark.parametrize("case", [ORDERS, NATIVE, INCREMENTAL], ids=lambda case: case.name)
def test_a_checkpoint_that_is_deleted_while_it_is_read(case: Path, tmp_path: Path) -> None:
    snapshot = copied(case, tmp_path)
    batches = sp.arrow.read_state(snapshot, UID, "total")
    assert next(batches).num_rows > 0
    shutil.rmtree(tmp_path / case.name)
    with pytest.raises(sp.MissingFileError, match=f"state 'total' of operator 'orders', subtask 1.*{tmp_path}.*") as caught:
        list(batches)
    assert "exist" in str(caught.value)


def test_a_canonical_file_that_is_cut(tmp_path: Path) -> None:
    snapshot = copied(ORDERS, tmp_path)
    [name, *_] = [r["path"] for r in sp.arrow.handles(snapshot).to_pylist() if r["operator_uid"] == UID and r["path"]]
    cut(snapshot / name)
    with pytest.raises(sp.MissingFileError, match=f"state 'total' of operator 'orders', subtask 0: .*{name} has"):
        read(snapshot)
