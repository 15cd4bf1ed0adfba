from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.options.access import SnapshotAccess
from state_processor.options.data_sources import METADATA_FORMAT, SinkOptions, SourceOptions
from tests.state_processor.samples import ORDERS_PATH


class Session:
    """A session that is not used: opening a snapshot does not need one."""

    createDataFrame = None  # noqa: N815


SPARK: Any = Session()

READING: dict[str, Callable[..., Any]] = {
    "read_state": lambda **o: sp.arrow.read_state(ORDERS_PATH, "orders", "total", **o),
    "read_timers": lambda **o: sp.arrow.read_timers(ORDERS_PATH, "orders", **o),
    "read_raw_state": lambda **o: sp.arrow.read_raw_state(ORDERS_PATH, "orders", **o),
    "read_channel_state": lambda **o: sp.arrow.read_channel_state(ORDERS_PATH, **o),
    "read_channel_records": lambda **o: sp.arrow.read_channel_records(ORDERS_PATH, "orders", "LONG", **o),
    "read_source_splits": lambda **o: sp.arrow.read_source_splits(ORDERS_PATH, "orders", **o),
    "read_sink_state": lambda **o: sp.arrow.read_sink_state(ORDERS_PATH, "orders", **o),
    "operators": lambda **o: sp.arrow.operators(ORDERS_PATH, **o),
    "states": lambda **o: sp.arrow.states(ORDERS_PATH, **o),
    "handles": lambda **o: sp.arrow.handles(ORDERS_PATH, **o),
    "reader": lambda **o: sp.SavepointReader.read(SPARK, ORDERS_PATH, **o),
    "data source": lambda **o: SourceOptions.parse({"path": ORDERS_PATH, **o}),
    "metadata": lambda **o: SourceOptions.parse({"path": ORDERS_PATH, **o}, METADATA_FORMAT),
    "sink": lambda **o: SinkOptions.parse({"path": "/new", "uid": "a", **o}),
}
WRITING: dict[str, Callable[..., sp.SavepointWriter | sp.arrow.SavepointWriter]] = {
    "new": lambda **o: sp.SavepointWriter.new(SPARK, **o),
    "from_existing": lambda **o: sp.SavepointWriter.from_existing(SPARK, ORDERS_PATH, **o),
    "arrow.new": lambda **o: sp.arrow.SavepointWriter.new(**o),
    "arrow.from_existing": lambda **o: sp.arrow.SavepointWriter.from_existing(ORDERS_PATH, **o),
}
OF_SPARK = {"reader", "new", "from_existing"}


def with_marks(calls: Mapping[str, Callable[..., Any]]) -> list[Any]:
    return [pytest.param(call, id=name, marks=[pytest.mark.spark] * (name in OF_SPARK)) for name, call in calls.items()]


@pytest.mark.parametrize("reading", with_marks(READING))
def test_calls_that_make_no_store_refuse_scratch(reading: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises((TypeError, sp.OptionError), match=r"argument 'scratch'; there are|option 'scratch'"):
        reading(scratch=str(tmp_path))


def test_commands_that_make_no_store_refuse_scratch(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["inspect", ORDERS_PATH], ["show", ORDERS_PATH, "--uid", "orders"], ["copy", ORDERS_PATH, "/new"]):
        with pytest.raises(SystemExit):
            cli.main([*command, "--scratch", "/fast"])
        assert "there is no flag --scratch" in capsys.readouterr().err


@pytest.mark.parametrize("writing", with_marks(WRITING))
def test_writers_refuse_scratch_without_a_store(writing: Callable[..., sp.arrow.SavepointWriter], tmp_path: Path) -> None:
    with pytest.raises(sp.OptionError, match="scratch='': expected a path"):
        writing(scratch="")
    writer = writing(scratch=tmp_path / "scratch")
    for kind in ({}, {"format": "native", "backend": "hashmap"}):
        with pytest.raises(
            sp.OptionError, match=r"scratch='.*' with format=.*: only new files of RocksDB and ForSt need scratch"
        ):
            writer.write(tmp_path / "new", **kind)
    assert not list(tmp_path.iterdir())


def test_stores_are_made_in_scratch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    native = {"format": "native", "backend": "rocksdb"}
    sp.arrow.SavepointWriter.from_existing(ORDERS_PATH, scratch=tmp_path / "a").write(tmp_path / "new", **native)
    flags = ("--format", "native", "--backend", "rocksdb", "--scratch", str(tmp_path / "b"))
    assert cli.main(["convert", ORDERS_PATH, str(tmp_path / "converted"), *flags]) == 0
    for directory in ("a", "b"):
        assert (tmp_path / directory / f"state-processor-{os.getuid()}").is_dir()


def test_values_are_those_that_are_set() -> None:
    assert SnapshotAccess().values() == {}
    access = SnapshotAccess.of(path_mapping={"/old": "/new"}, serializers=["tests.baskets"], uids=["orders"])
    assert SnapshotAccess.of(**access.values()) == access


def test_a_bad_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", ORDERS_PATH, "--map", "a"]) == cli.BAD_INPUT
    assert "--map a: expected OLD=NEW" in capsys.readouterr().err
