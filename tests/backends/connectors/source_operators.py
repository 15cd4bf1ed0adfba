"""Operators of sources with the state of their readers and enumerator, and the rows of their splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from state_processor.backends.connectors.connector import CoordinatorState, SourceState, Versioned
from state_processor.backends.connectors.source_splits import read_source_splits, source_state
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from tests.backends import state_files as files


def list_state(name: str, serializer: TypeSerializer, elements: Sequence[Any], mode: int = 0) -> h.OperatorStreamStateHandle:
    modes = {0: "SPLIT_DISTRIBUTE", 1: "UNION"}
    data = files.operator_header([files.operator_list(name, serializer, modes[mode])])
    offsets = []
    for element in elements:
        offsets.append(len(data))
        data += serializer.serialize(element) if not isinstance(element, bytearray) else bytes(element)
    return files.operator_handle(data, {name: (mode, offsets)})


def source(*readers: Sequence[Versioned], enumerator: Versioned | None) -> OperatorState:
    handles = [list_state("SourceReaderState", BytesSerializer(), [s.to_bytes() for s in splits]) for splits in readers]
    state = None if enumerator is None else h.ByteStreamStateHandle("coordinator", CoordinatorState(enumerator).to_bytes())
    return replace(files.operator(*handles), coordinator_state=state)


def rows_of(operator: OperatorState, connector: str | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_source_splits(files.snapshot(operator), operator, connector).to_pylist()
    return rows


def state_of(operator: OperatorState) -> SourceState:
    return source_state(files.snapshot(operator), operator)
