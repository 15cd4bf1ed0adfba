"""What shapes rows, as text: equal in every process, other if an option, a registration or the version is other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.changes.row_shape import NOT_OF_ROWS, difference, row_shape, shape_of_text, shape_text
from state_processor.backends.read.read_options import ReadOptions, declarations
from state_processor.options.access import SnapshotAccess
from state_processor.serializers import register_kryo_class, registrations
from tests.waiting import SECONDS

MONEY = "com.acme.Money"


def shape(*, read: ReadOptions | None = None, **access: Any) -> dict[str, str]:
    return row_shape(read or ReadOptions(), SnapshotAccess.of(**access))


def test_places_and_memory_do_not_shape_rows() -> None:
    elsewhere = shape(path_mapping={"/a": "/b"}, allow_paths=["/c"], storage_options={"region": "x"}, uids=["orders"])
    assert elsewhere == shape() == shape(read=ReadOptions.of(batch_memory=1 << 20)) == shape(time_zone="UTC")
    assert declarations(ReadOptions).keys() | declarations(SnapshotAccess).keys() > NOT_OF_ROWS


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"time_zone": "Asia/Tokyo"}, "time_zone was not set and is Asia/Tokyo"),
        ({"read": ReadOptions.of(nanos="string")}, "nanos was not set and is string"),
        ({"read": ReadOptions.of(row_kind=True)}, "row_kind was not set and is True"),
        ({"read": ReadOptions.of(undescribed="bytes")}, "undescribed was not set and is bytes"),
    ],
)
def test_an_option_is_named(other: dict[str, Any], said: str) -> None:
    assert difference(shape(), shape(**other)) == said
    assert difference(shape_of_text(shape_text(shape())), shape()) == ""


def test_the_content_of_a_plan_counts() -> None:
    first, second = (shape(plan=f'{{"flinkVersion": "{version}"}}' + " " * 80) for version in ("2.0", "2.1"))
    assert difference(first, second).startswith("plan was sha256:")


def test_the_version_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = shape()
    monkeypatch.setattr(sp, "__version__", "99.0")
    assert difference(before, shape()) == f"the version of state-processor was {before['version']} and is 99.0"
    assert difference(shape_of_text(None), shape()) == "the options of its rows were not recorded"


def test_registrations_count() -> None:
    before = shape()
    shapes = []
    for fields_of_class in ({"amount": sp.Types.LONG()}, {"cents": sp.Types.LONG()}, {"amount": sp.Types.INT()}):
        with registrations():
            register_kryo_class(MONEY, fields_of_class)
            shapes.append(shape())
    assert len({shape_text(s) for s in (before, *shapes)}) == 4
    assert difference(before, shapes[0]).startswith("the content of the registrations was ")


def test_the_code_of_a_registered_class_counts(tmp_path: Path) -> None:
    """Two processes with the same code have the same text; a changed line of code changes it."""

    def text_with(code: str) -> str:
        module = tmp_path / "acme_states.py"
        module.write_text(
            "from state_processor.serializers import SimpleTypeSerializerSnapshot, register_snapshot\n"
            "class Cents(SimpleTypeSerializerSnapshot):\n"
            "    @classmethod\n"
            "    def read(cls, class_name, version, source):\n"
            f"        {code}\n"
            'register_snapshot("com.acme.CentsSnapshot", Cents)\n'
        )
        program = (
            "from state_processor.applications.changes.row_shape import row_shape, shape_text\n"
            "from state_processor.backends.read.read_options import ReadOptions\n"
            "from state_processor.options.access import SnapshotAccess\n"
            "print(shape_text(row_shape(ReadOptions(), SnapshotAccess.of(serializers=['acme_states']))))\n"
        )
        place = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(
            [sys.executable, "-c", program], env=place, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert run.returncode == 0, run.stderr
        return run.stdout

    first = text_with("return None")
    assert text_with("return None") == first
    assert text_with("return 1") != first
