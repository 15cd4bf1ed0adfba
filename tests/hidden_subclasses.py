"""A savepoint with values of a subclass that its snapshot leaves out, as Flink's heap backend takes it of unregistered ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import state_processor as sp
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.staging import Staging
from state_processor.serializers.base import TypeSerializerSnapshot
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.pojo_fields import PojoField
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.registry import Registrations, register, registrations
from tests.backends.operator_files import SubtaskHandles, new_operator
from tests.interop.rewriting import write_keyed

T = sp.Types
SHAPE, SQUARE = "fixtures.Shape", "fixtures.Square"


class HidingSerializer(PojoSerializer):
    """A POJO whose snapshot does not describe its subclasses."""

    def snapshot(self) -> TypeSerializerSnapshot:
        return PojoSerializer(self.class_name, self.fields).snapshot()


_FIELDS = [PojoField("name", T.STRING(), SHAPE), PojoField("order", T.INT(), SHAPE)]
_OWN = [PojoField("label", T.STRING(), SQUARE), PojoField("side", T.LONG(), SQUARE)]
_SQUARES = PojoSerializer(SQUARE, sorted([*_FIELDS, *_OWN], key=lambda f: f.name))
SHAPES = HidingSerializer(SHAPE, _FIELDS, unregistered={SQUARE: _SQUARES})
ROWS: list[dict[str, Any]] = [
    {"_class": SHAPE, "name": "plain", "order": 1},
    {"_class": SQUARE, "name": "s", "order": 2, "side": -5, "label": "ü"},
    {"_class": SHAPE, "name": None, "order": 3},
    {"_class": SQUARE, "name": None, "order": 4, "side": 7, "label": None},
]
STATES = {"shapes": sp.ValueState(SHAPES), "timed": sp.ValueState(SHAPES, ttl=True), "by-name": sp.MapState(T.STRING(), SHAPES)}


def savepoint(target: Path) -> Path:
    """Write it; each of the states has all rows, by key."""
    with registrations():
        register(lambda _: Registrations())  # tests describe them
        return _savepoint(target)


def _savepoint(target: Path) -> Path:
    keys = pa.array(range(len(ROWS)), pa.int64())
    values = pa.array(ROWS, SHAPES.arrow_type(DecodeOptions()))
    maps = pa.array([[("m", row)] for row in ROWS], pa.map_(pa.string(), values.type))
    states = []
    for name, spec in STATES.items():
        column = maps if name == "by-name" else values
        states.append((spec.describe(name, T.LONG()), [pa.RecordBatch.from_pydict({"key": keys, "value": column})]))
    staging = Staging(str(target), "shapes")
    staging.prepare()
    handles = write_keyed(staging, operator_id("shapes"), states, 1, 128, last_access=1)
    subtasks = {subtask: SubtaskHandles(keyed=handle) for subtask, handle in handles.items()}
    commit_savepoint(staging, [new_operator("shapes", 1, 128, subtasks)])
    return target
