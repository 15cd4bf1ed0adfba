"""What is left to say where no cause is known: the step that failed, its exception, and what was checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from state_processor.applications.explain.causes import STEP, advice_of, make
from state_processor.applications.explain.explanation import FailureCause
from state_processor.applications.explain.kinds import CONSEQUENCES, Certainty, Kind
from state_processor.applications.explain.rules import Sighting
from state_processor.applications.explain.scene import Scene
from state_processor.applications.jobs.contents import NO_CONTENTS
from state_processor.applications.jobs.signature import OperatorSignature, StateSignature
from state_processor.applications.jobs.verdicts import Cause
from state_processor.errors import CorruptSnapshotError, StateProcessorError, UndecodableValueError
from state_processor.options import ReadOptions
from state_processor.states import StoredOperator, open_state, read_all

_CHAINED: Final = " -> "
"""Between the operators of a task: the id of a task is the one of its first operator, and another one may have failed."""


def of_step(
    sighting: Sighting, scene: Scene, certainty: Certainty = Certainty.LIKELY, evidence: Sequence[str] = ()
) -> FailureCause:
    """Return the step that failed as the cause. ``evidence``: why no cause is known."""
    operator = named_operator(sighting, scene)
    name = sighting.message.partition(": ")[0]
    exception = "an exception" if " " in name else name.rpartition(".")[2]
    facts = {"doing": sighting.rule.doing, "exception": exception, "says": STEP, "thrower": sighting.trace.throwables[-1].thrower}
    kind = sighting.kind if sighting.rule.usual and sighting.kind in CONSEQUENCES else Kind.STEP
    lines = [*evidence, *_places(sighting, operator), *_checks(scene, operator)]
    advice = advice_of(Kind.STEP)
    return make(kind, certainty, facts, operator=operator, evidence=lines, message=sighting.message, advice=advice)


def named_operator(sighting: Sighting, scene: Scene) -> OperatorSignature | None:
    """Return the only operator of the snapshot that a trace names, by itself or by its task."""
    named = sighting.operators or (frozenset() if _CHAINED in sighting.task else sighting.tasks)
    operators = [operator for operator in scene.operators(sighting) if operator.uid_hash in named]
    return operators[0] if len(operators) == 1 else None


def _places(sighting: Sighting, operator: OperatorSignature | None) -> Iterator[str]:
    if sighting.rule.doing:
        yield f"{sighting.rule.thrown_by} threw it, or passed it on, while Flink {sighting.rule.doing}"
    if sighting.task:
        yield f"task {sighting.task!r} of the trace"
    if operator is not None and operator.states:
        yield f"states of this operator: {', '.join(map(repr, list(operator.states)[:9]))}"


def _checks(scene: Scene, operator: OperatorSignature | None) -> Iterator[str]:
    """Yield what was checked and is not the cause."""
    bad = [finding for finding in scene.findings if finding.is_bad]
    if scene.snapshot is not None and not any(finding.verdict.cause is Cause.FILES for finding in bad):
        files = ", and its files are complete" if scene.contents is not NO_CONTENTS else ""
        yield f"the snapshot can be opened{files}"
    if scene.new is not None and not any(finding.operator == operator for finding in bad):
        yield "the description of the new job fits the snapshot here"


_OPTIONS = ReadOptions.of(nanos="string")


def unreadable_states(
    scene: Scene, operators: Sequence[OperatorSignature]
) -> Iterator[tuple[OperatorSignature, StateSignature, str]]:
    """Yield the states whose bytes are not what their types say, with the problem. All values are read."""
    if scene.snapshot is None or scene.contents is NO_CONTENTS:
        return
    for stored in scene.snapshot.metadata.operators:
        operator = next((o for o in operators if o.uid_hash == stored.operator_id), None)
        for state in () if operator is None else (operator.states or {}).values():
            problem = "" if state.unread else _problem(StoredOperator(scene.snapshot, stored), state)
            if problem:
                assert operator is not None
                yield operator, state, problem


def _problem(stored: StoredOperator, state: StateSignature) -> str:
    """Return why the values of a state can't be read; empty if they can, or if their types are not known to the end."""
    try:
        reader = open_state(stored, state.name, options=_OPTIONS)
        for _ in read_all(reader.splits, reader.read, stored.snapshot.threads):
            pass
    except (CorruptSnapshotError, UndecodableValueError) as problem:
        return str(problem)
    except StateProcessorError:
        return ""
    return ""
