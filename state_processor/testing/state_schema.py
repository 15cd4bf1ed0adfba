"""The states of a savepoint as a file of a project, and the changes that Flink refuses to restore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from state_processor.applications.jobs.check import compare
from state_processor.applications.jobs.contents import TYPES_ALONE
from state_processor.applications.jobs.opening import signature_of
from state_processor.applications.jobs.rules import Target
from state_processor.applications.jobs.signature import JobSignature, OperatorSignature
from state_processor.applications.jobs.signature_file import parse_signature
from state_processor.applications.jobs.verdicts import JobReport, Outcome
from state_processor.options.access import SnapshotAccess
from state_processor.serializers.json_text import parse_json

_BAD = (Outcome.REFUSED, Outcome.LOST, Outcome.CHANGED)


class StateSchemaError(AssertionError):
    """Flink would refuse to restore the states of a file into the job that wrote a savepoint, or lose or change values."""


def check_schema(path: str | PathLike[str], file: Path, options: Mapping[str, Any]) -> list[str]:
    """Compare a savepoint with the states of a file.

    ``file``: the signature of the job that the savepoint has to fit. ``options``: options of opening the savepoint.

    Returns: changes that Flink accepts.
    """
    written = parse_signature(parse_json(file.read_text("utf-8")), str(file))
    now = _signature(path, options)
    report = compare(written, now, Target(), str(file), TYPES_ALONE)
    unread = {
        (o.uid_hash, name) for job in (written, now) for o in job.operators for name in (o.states or {}) if _is_unread(o, name)
    }
    refused = list(_refused(report, unread))
    if refused:
        raise StateSchemaError(
            "\n".join(
                [
                    f"Flink would refuse to restore the states of {file.name}, or lose or change values:",
                    *refused,
                    "--update-state-schema accepts this",
                ]
            )
        )
    return list(_accepted(report, written, now))


def write_schema(path: str | PathLike[str], file: Path, options: Mapping[str, Any]) -> None:
    """Write the signature of a savepoint into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{_signature(path, options)}\n", "utf-8")


def _signature(path: str | PathLike[str], options: Mapping[str, Any]) -> JobSignature:
    return signature_of(path, SnapshotAccess.among(options))


def _is_unread(operator: OperatorSignature, name: str) -> bool:
    state = (operator.states or {})[name]
    return state.unread != ""


def _refused(report: JobReport, unread: set[tuple[str | None, str]]) -> Iterator[str]:
    for operator in report.operators:
        if operator.outcome in _BAD and operator.reason:
            yield f"  operator {operator.operator!r}: {operator.reason}"
        for state in operator.states:
            if state.outcome in _BAD or (operator.uid_hash, state.state) in unread:
                yield f"  state {state.state!r} of operator {operator.operator!r}: {state.reason}"


def _accepted(report: JobReport, written: JobSignature, now: JobSignature) -> Iterator[str]:
    before, after = (
        {(o.uid_hash, name): state.content for o in job.operators for name, state in (o.states or {}).items()}
        for job in (written, now)
    )
    for operator in report.operators:
        for state in operator.states:
            place = operator.uid_hash, state.state
            if place not in after:
                yield f"state {state.state!r} of operator {operator.operator!r} is missing"
            elif state.outcome is Outcome.NEW:
                yield f"state {state.state!r} of operator {operator.operator!r} is new"
            elif before[place] != after[place] and state.outcome is Outcome.UNKNOWN:
                yield f"state {state.state!r} of operator {operator.operator!r} has changed, and can't be checked: {state.reason}"
            elif before[place] != after[place]:
                yield f"state {state.state!r} of operator {operator.operator!r} has changed compatibly"
        if operator.outcome is Outcome.NEW:
            yield f"operator {operator.operator!r} is new"
