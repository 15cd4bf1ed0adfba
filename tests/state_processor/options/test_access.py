from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.backends.metadata import snapshot as snapshots
from state_processor.options.access import SnapshotAccess
from state_processor.options.sink import SinkOptions
from state_processor.options.source import SourceOptions
from tests.state_processor.samples import ORDERS_PATH

SPARK: Any = None  # not needed to open a snapshot

OPENING: dict[str, Callable[..., Any]] = {
    "read_state": lambda **o: list(sp.arrow.read_state(ORDERS_PATH, "orders", "total", **o)),
    "read_timers": lambda **o: list(sp.arrow.read_timers(ORDERS_PATH, "orders", **o)),
    "read_raw_state": lambda **o: list(sp.arrow.read_raw_state(ORDERS_PATH, "orders", **o)),
    "read_channel_state": lambda **o: sp.arrow.read_channel_state(ORDERS_PATH, **o),
    "read_source_splits": lambda **o: sp.arrow.read_source_splits(ORDERS_PATH, "orders", **o),
    "read_sink_state": lambda **o: sp.arrow.read_sink_state(ORDERS_PATH, "orders", **o),
    "operators": lambda **o: sp.arrow.operators(ORDERS_PATH, **o),
    "states": lambda **o: sp.arrow.states(ORDERS_PATH, **o),
    "handles": lambda **o: sp.arrow.handles(ORDERS_PATH, **o),
    "writer": lambda **o: sp.SavepointWriter.from_existing(SPARK, ORDERS_PATH, **o),
    "data source": lambda **o: SourceOptions.parse({"path": ORDERS_PATH, "SCRATCH": str(o["scratch"])}).access.open(ORDERS_PATH),
    "sink": lambda **o: SinkOptions.parse({"path": "/new", "uid": "a", "scratch": str(o["scratch"])}).access.open(ORDERS_PATH),
    "command line": lambda **o: cli.main(["inspect", ORDERS_PATH, "--scratch", str(o["scratch"])]),
}


@pytest.mark.parametrize("opening", OPENING.values(), ids=list(OPENING))
def test_scratch_is_accepted_wherever_a_path_is(
    opening: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        opened.append(given["scratch"])
        return original(*args, **kwargs)

    original = snapshots.open_snapshot
    monkeypatch.setattr(snapshots, "open_snapshot", noted)
    with suppress(sp.NotFoundError):  # these orders have neither source splits nor raw state
        opening(scratch=tmp_path)
    assert opened == [str(tmp_path)]


def test_values_are_those_that_are_set() -> None:
    assert SnapshotAccess().values() == {}
    access = SnapshotAccess.of(path_mapping={"/old": "/new"}, serializers=["tests.baskets"], scratch="/fast")
    assert SnapshotAccess.of(**access.values()) == access


def test_a_bad_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", ORDERS_PATH, "--map", "a"]) == cli.BAD_INPUT
    assert "--map a: expected OLD=NEW" in capsys.readouterr().err
