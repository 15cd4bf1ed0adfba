"""Commands that count and export rows."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import state_processor as sp
from state_processor.applications.row_files.formats import FORMATS, write_rows
from state_processor.cli import BAD_INPUT, main
from state_processor.commands.command import new_file
from tests.state_processor.samples import ORDERS, ORDERS_PATH, TYPES_PATH, expected_values

TOTALS = expected_values(ORDERS, "orders", "total")


def test_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", ORDERS_PATH, "--uid", "orders", "--state", "total"]) == 0
    assert main(["count", ORDERS_PATH, "--uid", "bc4197a480c92c793190a9f8c0afc54c", "--state", "items"]) == 0
    items = sum(len(v) for v in expected_values(ORDERS, "orders", "items").values())
    assert capsys.readouterr().out.split() == [str(len(TOTALS)), str(items)]


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "csv": lambda path: pyarrow.csv.read_csv(path).to_pylist(),
    "csv.gz": lambda path: pyarrow.csv.read_csv(path).to_pylist(),
    "CSV": lambda path: pyarrow.csv.read_csv(path).to_pylist(),
    "json": lambda path: json.loads(path.read_text("utf-8")),
    "json.gz": lambda path: json.loads(gzip.decompress(path.read_bytes())),
    "ndjson": lambda path: [json.loads(line) for line in path.read_text("utf-8").splitlines()],
    "jsonl.zst": lambda path: [json.loads(line) for line in pa.input_stream(path).read().splitlines()],
    "parquet": lambda path: pyarrow.parquet.read_table(path).to_pylist(),
    "feather": lambda path: pyarrow.feather.read_table(path).to_pylist(),
    "arrow": lambda path: pa.ipc.open_file(path).read_all().to_pylist(),
}


def export(path: Path | str, *more: str, snapshot: str = ORDERS_PATH, uid: str = "orders") -> int:
    return main(["export", snapshot, "--uid", uid, "-o", str(path), *more])


@pytest.mark.parametrize("suffix", READERS)
def test_the_suffix_is_the_format(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"rows.{suffix}"
    assert export(path, "--state", "total") == 0
    assert capsys.readouterr().out == f"{len(TOTALS)} rows\n"
    assert {row["key"]: row["value"] for row in READERS[suffix](path)} == TOTALS
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("form", FORMATS)
def test_a_name_without_suffix_needs_a_format(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows"
    assert export(path, "--state", "total", "--format", form) == 0
    assert {row["key"]: row["value"] for row in READERS[form](path)} == TOTALS
    read_end, write_end = os.pipe()  # unlike a file, a pipe only goes forward
    with os.fdopen(read_end, "rb") as printed:
        with os.fdopen(write_end, "w") as output:
            monkeypatch.setattr(sys, "stdout", output)
            assert export("-", "--state", "total", "--format", form) == 0
        assert printed.read() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("rows.xlsx", [], "the suffix .xlsx is unknown; use one of .arrow, .csv, "),
        ("rows", [], "the name does not have a suffix"),
        ("rows.csv.bz2", ["--format", "csv"], "the suffix .bz2 is unknown"),
        ("rows.csv", ["--format", "parquet"], "the suffix selects csv"),
        ("rows.parquet.gz", [], "parquet compresses its columns itself; leave out .gz"),
        ("rows.json", ["--quote-formulas"], "--quote-formulas applies to csv"),
        ("none/rows.csv", [], "none is not a directory; create it first"),
    ],
)
def test_names_are_refused_before_anything_is_read(
    name: str, more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(tmp_path / name, *more, snapshot="/does/not/exist") == BAD_INPUT
    assert message in capsys.readouterr().err
    assert export("s3://bucket/rows.csv", snapshot="/does/not/exist") == BAD_INPUT
    assert "only local files are written" in capsys.readouterr().err
    assert export("-", snapshot="/does/not/exist") == BAD_INPUT
    assert "choose the format with --format" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_csv_has_values_as_json_has_them(tmp_path: Path) -> None:
    rows: dict[str, list[dict[str, Any]]] = {}
    for suffix in ("csv", "json"):
        assert export(tmp_path / f"rows.{suffix}", snapshot=TYPES_PATH, uid="types") == 0
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        rows["csv"] = list(csv.DictReader(file))
    rows["json"] = READERS["json"](tmp_path / "rows.json")
    assert len(rows["csv"]) == len(rows["json"]) == 6
    for cells, values in zip(rows["csv"], rows["json"], strict=True):
        for name, value in values.items():
            if isinstance(value, (list, dict)):
                assert json.loads(cells[name]) == value
            elif isinstance(value, str) and name not in ("float", "double"):
                assert cells[name] == value
            elif value is None:
                assert cells[name] == ""
    one = next(row for row in rows["json"] if row["key"] == 1)
    assert (one["bytes"], one["tuple"]["f2"], one["map"]) == ("0001ff7f80", "NaN", [["a", 1], ["b", None]])


def test_formulas_are_quoted_on_request(tmp_path: Path) -> None:
    texts = ["=1+1", "+cmd", "-x", "@sum", "\tx", "\rx", "\nx", "＝1", "plain", "", None, "-1.5", "+2e10", "a=b"]
    batch = pa.record_batch({"@key": texts, "number": [-1] * len(texts), "list": [["=1"]] * len(texts)})
    written = {}
    for quote in (False, True):
        with new_file(str(tmp_path / str(quote))) as file:
            assert write_rows(file, "csv", None, batch.schema, [batch], quote_formulas=quote) == len(texts)
        with (tmp_path / str(quote)).open(encoding="utf-8", newline="") as file:
            written[quote] = list(csv.reader(file))
    assert written[False][0] == ["@key", "number", "list"]
    assert written[True][0] == ["'@key", "number", "list"]
    for text, plain, quoted in zip(texts, written[False][1:], written[True][1:], strict=True):
        assert plain == [text or "", "-1", '["=1"]']
        assert quoted == [f"'{text}" if text in texts[:8] else text or "", "-1", '["=1"]']


@given(texts=st.lists(st.none() | st.text(), min_size=1), empty=st.booleans())
def test_text_comes_back(texts: list[str | None], empty: bool) -> None:
    batch = pa.record_batch({"key": pa.array([] if empty else texts, pa.string())})
    for name in ("json", "ndjson"):
        file = BytesIO()
        write_rows(file, name, None, batch.schema, [batch, batch], quote_formulas=False)
        found = json.loads(file.getvalue()) if name == "json" else [json.loads(t) for t in file.getvalue().split(b"\n") if t]
        assert [row["key"] for row in found] == 2 * batch["key"].to_pylist()


def test_a_file_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    half = new_file(str(path))
    half.__enter__().write(b"half")
    assert path.name not in os.listdir(tmp_path)
    assert not half.__exit__(RuntimeError, RuntimeError(), None)
    assert os.listdir(tmp_path) == []
    with pytest.raises(sp.WriteError, match=r"exists; name a new file"), new_file(str(path)):
        path.write_text("of another process")
    assert path.read_text() == "of another process"
    assert os.listdir(tmp_path) == [path.name]


def test_a_full_disk_behind_standard_output_is_told() -> None:
    program = [
        sys.executable,
        "-m",
        "state_processor.cli",
        "export",
        ORDERS_PATH,
        "--uid",
        "orders",
        "-o",
        "-",
        "--format",
        "csv",
    ]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (BAD_INPUT, "state-processor: [Errno 28] No space left on device\n")


def test_export_of_all_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.parquet"
    assert export(path) == 0
    expected = [row for batch in sp.arrow.read_state(ORDERS_PATH, "orders") for row in batch.to_pylist()]
    assert sorted(pyarrow.parquet.read_table(path).to_pylist(), key=str) == sorted(expected, key=str)
    assert export(path) == BAD_INPUT
    assert "exists" in capsys.readouterr().err
