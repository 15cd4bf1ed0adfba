"""Descriptions of queries for reading and writing: what :mod:`state_processor.backends.metadata.queries` asks."""

from __future__ import annotations

from typing import Final

from state_processor.applications.flink_sql.kinds import kind_of_name, kind_of_states
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.applications.flink_sql.query_operators import with_query
from state_processor.backends.metadata.queries import QueryDescriptions
from state_processor.backends.metadata.snapshot import Snapshot


def _with_plan(snapshot: Snapshot, text: str) -> Snapshot:
    return with_query(snapshot, CompiledPlan.parse(text))


DESCRIPTIONS: Final = QueryDescriptions(_with_plan, kind_of_name, kind_of_states)
