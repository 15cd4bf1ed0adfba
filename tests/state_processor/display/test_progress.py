from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.display.progress import progress


class Part(NamedTuple):
    size: int


class Bar:
    """The interface of a tqdm bar, with a record of its calls."""

    told: list[dict[str, Any]]

    def __init__(self, **settings: Any) -> None:
        self.told = Bar.told
        self.told.append(settings | {"steps": []})

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.told[-1]["closed"] = True

    def update(self, step: int) -> None:
        self.told[-1]["steps"].append(step)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    Bar.told = []
    module = ModuleType("tqdm.auto")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    return Bar.told


def test_bytes_where_all_parts_have_a_size(told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(progress([Part(3), Part(4)], "reading")) == [Part(3), Part(4)]
    assert list(progress(["a", "b", "c"], "writing")) == ["a", "b", "c"]
    of_bytes, of_parts = told
    assert (of_bytes["total"], of_bytes["unit"], of_bytes["steps"], of_bytes["closed"]) == (7, "B", [3, 4], True)
    assert (of_parts["total"], of_parts["desc"], of_parts["steps"], of_parts["disable"]) == (3, "writing", [1, 1, 1], None)


@pytest.mark.one_engine(reason="Spark shows the progress of its jobs itself")
@pytest.mark.parametrize("is_stream", [False, True])
def test_rows_of_a_write_without_spark(
    is_stream: bool, told: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    rows = pa.table({"key": ["a", "b"], "total": [1, 2]})
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("o", rows.to_reader() if is_stream else rows, parallelism=3)
    writer.write(tmp_path / "new")
    assert [(t["desc"], t["total"], t["unit"], t["steps"]) for t in told] == [
        ("encoding", None if is_stream else 2, " rows", [2]),
        ("writing", 3, " parts", [1, 1, 1]),
    ]


def test_a_bar_ends_with_the_one_who_looks_at_it(told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    parts = progress([Part(1), Part(2)], "reading")
    next(parts)
    parts.close()  # type: ignore[attr-defined]
    assert (told[0]["steps"], told[0]["closed"]) == ([], True)


def test_without_tqdm_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert list(progress([1, 2], "reading")) == [1, 2]


def test_a_bar_that_nobody_sees_is_not_made(told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take a lock that processes share, and that one that is killed never gives back."""
    monkeypatch.setattr(sys, "stderr", StringIO())
    monkeypatch.setattr(sys, "stdout", StringIO())
    assert list(progress([1, 2], "reading")) == [1, 2]
    assert told == []
    monkeypatch.setattr(sys, "stdout", Terminal())  # where notebooks have theirs
    assert list(progress([1, 2], "reading")) == [1, 2]
    assert len(told) == 1
