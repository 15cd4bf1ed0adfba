"""Descriptions of sinks: the formats of the state of writers, and of committables.

A sink (Sink V2, FLIP-191) is split in two. Its writers keep their state in a list, each element written by the serializer of the
writer's state. Its committers keep committables: results of a checkpoint that become visible when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import field
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.connector import Formats, Values
from state_processor.serializers.records import dataclass

WRITER: Final = "WRITER"
COMMITTABLE: Final = "COMMITTABLE"

ROLE: Final = "role"
CHECKPOINT: Final = "checkpoint_id"
STATUS: Final = "commit_status"
RETRIES: Final = "retries"


def _keep(values: Values, dropped: Collection[Values]) -> Values:
    return values


def _element_per_row(row: Values, number: int) -> Hashable:
    return number


_NO_WRITER_STATE: Final[Formats[list[Values]]] = Formats("writers without state", {})
_NO_COMMITTABLES: Final[Formats[Values]] = Formats("a sink without committables", {})


@dataclass(frozen=True, slots=True)
class SinkConnector:
    """A sink: its name for users, its columns, and the formats of its writers' state and of its committables.

    An element of the writers' list is one or more rows, by default one; ``element_of`` returns the same value for all rows of one
    element, given a row and its number. ``required`` are the columns that rows of writers can't be without.
    ``forget`` returns a row of a writer without its memory of dropped committables. ``layouts`` are the codecs of
    its serializers, by Java class and version.

    Some sinks have committers of their own. ``own_committer`` are the formats of the elements of their list. An element is one or
    more rows. With ``keeps_emptied``, an element is written without rows if all of its rows were left out. By default, it is
    dropped. ``own_states`` maps roles to the names of list states, if they are not Flink's names. Elements of these lists are
    stored without a version; their formats have version 0.
    """

    name: str
    fields: tuple[pa.Field, ...]
    writer: Formats[list[Values]] = _NO_WRITER_STATE
    committables: Formats[Values] = _NO_COMMITTABLES
    element_of: Callable[[Values, int], Hashable] = _element_per_row
    required: tuple[str, ...] = ()
    forget: Callable[[Values, Collection[Values]], Values] = _keep
    layouts: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    own_committer: Formats[list[Values]] | None = None
    keeps_emptied: bool = False
    own_states: Mapping[str, str] = field(default_factory=dict)
