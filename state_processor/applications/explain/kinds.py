"""Kinds of causes of failed restores, how certain a cause is, and rules: which message of Flink means which kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar


class Certainty(StrEnum):
    """The certainty of a cause."""

    CONFIRMED = "confirmed by the snapshot"
    PLACE = "likely: the snapshot has the place that the trace names, and nothing confirms the cause"
    TRACE = "from the trace alone"
    LIKELY = "likely: the trace fits, and nothing confirms it"
    BESIDE = "true of the snapshot and the job; the trace does not show that it made Flink fail"
    POSSIBLE = "possible"


class Kind(StrEnum):
    """The kind of a cause."""

    UNMAPPED_OPERATOR = "unmapped-operator"
    DUPLICATE_UID = "duplicate-uid"
    OPERATORS_SWAPPED = "operators-swapped"
    MAX_PARALLELISM = "max-parallelism-changed"
    PARALLELISM = "parallelism-too-high"
    STATE_NOT_USED = "state-not-used"
    STATE_RENAMED = "state-renamed"
    STATE_KIND = "state-kind-changed"
    STATE_MODE = "operator-state-mode-changed"
    OPERATOR_STATE_TYPE = "operator-state-type-incompatible"
    BROADCAST_TYPE = "broadcast-state-type-incompatible"
    VALUE_TYPE = "value-type-incompatible"
    MAP_KEY_TYPE = "map-key-incompatible"
    KEY_TYPE = "key-type-incompatible"
    WINDOW_TYPE = "window-type-changed"
    TTL = "ttl-changed"
    POJO_TO_KRYO = "pojo-to-kryo"
    KRYO_TO_POJO = "kryo-to-pojo"
    KRYO_CLASS = "kryo-class-changed"
    KRYO_VERSION = "kryo-1-to-2"
    SERIALIZER = "serializer-replaced"
    ENUM_CONSTANT = "enum-constant-removed"
    FIELD_RENAMED = "pojo-field-renamed"
    FIELD_NULL = "null-in-primitive-field"
    CLASS_MISSING = "class-missing"
    SERIAL_VERSION = "serial-version-uid"
    QUERY = "sql-query-changed"
    PATTERN = "cep-pattern-changed"
    NOT_FOUND = "snapshot-not-found"
    NOT_A_SNAPSHOT = "not-a-snapshot"
    METADATA_DAMAGED = "metadata-damaged"
    NEWER_FORMAT = "newer-format-version"
    OLDER_FORMAT = "older-format-version"
    FILE_MISSING = "file-missing"
    FILE_DAMAGED = "file-damaged"
    MOVED = "checkpoint-moved"
    CLAIMED = "claimed-savepoint-flink-39964"
    BACKEND = "state-backend-changed"
    STATE_API = "state-api-changed"
    CHANGELOG = "changelog-storage-missing"
    IN_FLIGHT = "records-in-flight"
    FINISHED_TASKS = "finished-tasks-and-new-operators"
    CHECKPOINT = "checkpoint-not-completed"
    OTHER_JOB = "snapshot-of-another-job"
    NO_KEY = "keyed-state-without-key"
    NO_BACKEND = "state-backend-not-found"
    FIELD_TYPE = "pojo-field-type-changed"
    KEY_GROUPS = "key-hash-changed"
    CONNECTOR = "connector-version-changed"
    TRANSACTION = "transaction-expired"
    STORAGE = "storage-not-accessible"
    DISK = "disk-full"
    MEMORY = "out-of-memory"
    NATIVE_LIBRARY = "native-library-missing"
    LOST_PROCESS = "process-lost"
    RESOURCES = "slots-not-available"
    HIGH_AVAILABILITY = "high-availability-data-lost"
    RESTORE_MODE = "restore-mode-not-supported"
    CONFIGURATION = "configuration-invalid"
    LINKAGE = "libraries-do-not-fit"
    PYTHON = "python-module-missing"
    SOURCE_POSITION = "source-position-gone"
    EXTERNAL = "external-system-not-reachable"
    PROGRAM = "job-not-valid"
    JOB_CODE = "exception-of-the-job"
    STATE_GROWS = "state-grows"
    SKEW = "state-unevenly-distributed"
    CODE = "code-not-described"
    STEP = "step-failed"
    TASK = "task-failed"


CONSEQUENCES: Final = frozenset({Kind.LOST_PROCESS, Kind.CHECKPOINT, Kind.RESOURCES, Kind.EXTERNAL, Kind.TASK})
"""Kinds that often follow from another failure of the same log."""


V = TypeVar("V")


class PatternTable(Generic[V]):
    """Values by patterns: a text has the values whose patterns occur in it, in the order of the table."""

    def __init__(self, rows: Iterable[tuple[V, str]], flags: int = 0) -> None:
        self._rows = [(value, re.compile(pattern, flags)) for value, pattern in rows]

    def values(self, text: str) -> Iterator[V]:
        """Yield all values of a text."""
        for value, pattern in self._rows:
            if pattern.search(text):
                yield value

    def first(self, text: str) -> V | None:
        """Return the first value of a text."""
        return next(self.values(text), None)


@dataclass(frozen=True, slots=True)
class Rule:
    """A message of Flink, and its meaning."""

    kind: Kind  # the kind of the cause
    # part of the message of an exception. Named groups are facts; a 2 at the end of a name stands for the same fact.
    message: re.Pattern[str]
    thrown_by: str  # the class of Flink, or of a library, that throws it
    classes: re.Pattern[str] | None = None  # part of the name of the exception
    frames: re.Pattern[str] | None = None  # part of a method of the trace
    thrown_in: re.Pattern[str] | None = None  # part of the method that threw it
    releases: tuple[str | None, str | None] = (None, None)  # the releases of Flink that have it; ``None`` for no limit
    plain: bool = False  # whether the message names the cause in so many words: nothing else makes Flink throw it
    says: str = ""  # the sentence of the cause, with facts in braces, if the kind has a vaguer one
    advice: str = ""  # the advice, if the kind has a vaguer one
    follows: bool = False  # whether it follows from another failure, of a task or of the job
    wraps: bool = False  # whether the exception reports another one: what is below it comes first
    doing: str = ""  # what the method was doing that threw it, if the place is all that is known
    usual: bool = False  # whether the kind is only the usual one of the place: the snapshot has to confirm it


def rule(
    kind: Kind,
    message: str,
    thrown_by: str,
    *,
    classes: str = "",
    frames: str = "",
    thrown_in: str = "",
    releases: str = "",
    plain: bool = False,
    says: str = "",
    advice: str = "",
    wraps: bool = False,
    follows: bool = False,
) -> Rule:
    """Return a rule.

    ``follows``: whether it follows from another failure.
    ``releases``: the first and the last release of Flink, such as ``1.9-1.16``; either may be absent. ``plain``: whether nothing
    else makes Flink throw it. ``says`` and ``advice``: more exact words than those of the kind. ``wraps``: whether it
    reports another one.
    """
    since, _, until = releases.partition("-")
    limits = (since or None, until or None)
    patterns = _pattern(classes), _pattern(frames), _pattern(thrown_in)
    return Rule(kind, re.compile(message, re.DOTALL), thrown_by, *patterns, limits, plain, says, advice, follows, wraps)


def _pattern(text: str) -> re.Pattern[str] | None:
    return re.compile(text) if text else None
