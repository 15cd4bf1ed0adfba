"""Evidence that an operator of a snapshot and one of a new job are the same: names and states.

Equal ids alone are not evidence. Flink computes the id of an operator without a uid from the graph of the job, and an operator
may get the id that another one had. Timers are not evidence either: every process function registers the same two queues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from state_processor.applications.jobs.rules import RestoringJob, state_verdict
from state_processor.applications.jobs.signature import OperatorSignature, StateSignature
from state_processor.applications.jobs.verdicts import Outcome
from state_processor.states import UNKNOWN_WRITER, states_of_connectors

_DEFAULT_NAME: Final = re.compile(
    r"(Source: |Sink: )?(Map|Flat Map|Filter|Process|KeyedProcess|Co-Process[- ].*|Co-Map|Reduce|Keyed Reduce|Unnamed|"
    r"Keyed Aggregation|(Custom|Custom File|Collection|Sequence) Source|Print to Std\. Out|Timestamps/Watermarks|Window\(.*|"
    r"(Tumbling|Sliding|Dynamic)?(Event|Processing)Time(Session)?Windows|GlobalWindows)"
)
"""Names that Flink gives to operators. They are not evidence: several operators may get the same name."""
_CONTRADICTIONS: Final = (Outcome.REFUSED, Outcome.LOST)


def living_states(operator: OperatorSignature) -> Mapping[str, StateSignature]:
    """Return the states of an operator that identify it: all but timers."""
    return {name: state for name, state in (operator.states or {}).items() if not state.is_timer}


def has_own_name(operator: OperatorSignature) -> bool:
    """Return whether the name of an operator is known, and was not given by Flink."""
    return operator.name is not None and _DEFAULT_NAME.fullmatch(operator.name) is None


def plain_name(operator: OperatorSignature) -> str | None:
    """Return a name without the beginning that graphs add to the names of sources and sinks."""
    name = operator.name
    for beginning in ("Source: ", "Sink: "):
        name = None if name is None else name.removeprefix(beginning)
    return None if name is None else name.strip()


def connector_of(writer: str) -> str:
    """Return what wrote state that is only bytes, without the versions of its formats."""
    return writer.partition(" (")[0]


def formats_of(writer: str) -> frozenset[str]:
    """Return the formats of a connector with their versions."""
    return frozenset(writer.partition(" (")[2].removesuffix(")").split(", "))


def unknown_writers(operator: OperatorSignature) -> list[str]:
    """Return what wrote state that is only bytes and fits no connector."""
    return [writer for writer in operator.writers if writer.endswith(UNKNOWN_WRITER)]


def _connectors(operator: OperatorSignature) -> set[str]:
    return set() if unknown_writers(operator) else set(map(connector_of, operator.writers))


def contradicts(old: OperatorSignature, new: OperatorSignature) -> bool:
    """Return whether a state with the same name can't be restored, or another connector wrote the state."""
    before_writers, after_writers = _connectors(old), _connectors(new)
    if before_writers and after_writers and before_writers != after_writers:
        return True
    before, after = living_states(old), living_states(new)
    outcomes = (state_verdict(before[name], after[name], RestoringJob()).outcome for name in before.keys() & after.keys())
    return any(outcome in _CONTRADICTIONS for outcome in outcomes)


def takes_all(old: OperatorSignature, new: OperatorSignature) -> bool:
    """Return whether an operator registers all states of another one, and can restore them.

    Every source and every sink registers the same lists of bytes: the connectors decide.
    """
    is_evident = bool(_evident_states(old)) or (bool(_connectors(old)) and _connectors(old) == _connectors(new))
    return is_evident and has_names_of(old, new) and not contradicts(old, new)


def _evident_states(operator: OperatorSignature) -> Mapping[str, StateSignature]:
    """Return the states whose names and types identify an operator: those that no connector registers."""
    of_connectors = states_of_connectors() if operator.writers else frozenset()
    return {name: state for name, state in living_states(operator).items() if name not in of_connectors}


def has_names_of(old: OperatorSignature, new: OperatorSignature) -> bool:
    """Return whether an operator registers states with the names of all states of another one."""
    before = living_states(old)
    return bool(before) and before.keys() <= living_states(new).keys()


def shares_states(old: OperatorSignature, new: OperatorSignature) -> bool:
    """Return whether a state of an operator restores into another one."""
    before, after = living_states(old), living_states(new)
    shared = (state_verdict(before[name], after[name], RestoringJob()) for name in before.keys() & after.keys())
    return any(verdict.outcome not in _CONTRADICTIONS for verdict in shared)


def evidence(old: OperatorSignature, new: OperatorSignature) -> tuple[str, ...]:
    """Return the facts that support a pair; an empty result if its states contradict it."""
    before = living_states(old)
    if contradicts(old, new) or (before and new.states is not None and not living_states(new)):
        return ()
    facts = []
    if old.name is not None and plain_name(old) == plain_name(new):
        facts.append(f"name {old.name!r}")
    if takes_all(old, new):
        names = ", ".join(map(repr, sorted(before)))
        unread = unread_states(old, new)
        facts.append(f"names of states {names}; {unread}" if unread else f"states {names} with kinds and types")
    return tuple(facts)


def unread_states(old: OperatorSignature, new: OperatorSignature) -> str:
    """Return which types were not compared; empty if those of a state were, or if all can be read."""
    before, after = living_states(old), living_states(new)
    shared = before.keys() & after.keys()
    names = {name for name, state in before.items() if state.unread} | {name for name in shared if after[name].unread}
    if not names or shared - names:
        return ""
    return f"the types of {', '.join(map(repr, sorted(names)))} can't be read, and were not compared"


def is_own_name(fact: str) -> bool:
    """Return whether a fact is a name that Flink did not give."""
    return fact.startswith("name ") and _DEFAULT_NAME.fullmatch(fact[len("name ") :].strip("'")) is None


def is_states(fact: str) -> bool:
    """Return whether a fact is about states."""
    return fact.startswith("states ")


def id_doubts(
    old: OperatorSignature, new: OperatorSignature, olds: Sequence[OperatorSignature], news: Sequence[OperatorSignature]
) -> Iterator[str]:
    """Yield reasons to doubt that two operators with equal ids are the same.

    ``old`` and ``new``: an operator of the snapshot, and the operator of the new job with its id. ``olds`` and ``news``: all
    operators of both jobs.
    """
    named = _named_otherwise(old, new, olds, news)
    if named is not None:
        yield named
        return
    if has_own_name(old) and plain_name(old) == plain_name(new):
        return
    takers = [operator for operator in news if operator is not new and takes_all(old, operator)]
    labels = [operator.label for operator in takers]
    if old.uid is not None or new.uid is not None:
        free = [operator.label for operator in takers if not _has_states_of_its_own(operator, olds)]
        if free and living_states(old) and new.states is not None and not shares_states(old, new):
            yield f"the new operator with this uid can't take its states, and {' and '.join(free)} of the new job can"
        return
    if new.states is None:
        yield "nothing else was compared: the description of the new job has neither its states nor a name that confirms it"
        return
    before = living_states(old)
    if not _evident_states(old):
        if not _connectors(old) or _connectors(old) != _connectors(new):
            kinds = [*(["timers, which every process function registers"] if old.states else []), *old.writers]
            yield f"the snapshot has no state of it except {' and '.join(kinds) or 'bytes'}"
        return
    if not shares_states(old, new):
        better = f"; {' and '.join(labels)} of the new job has these states" if labels else ""
        yield f"the new operator with this id has none of the states {', '.join(sorted(before))}{better}"
    elif labels:
        yield f"{' and '.join(labels)} of the new job could restore the same states"
    else:
        hashes = {uid_hash for operator in news for uid_hash in operator.hashes}
        rivals = [rival.label for rival in olds if rival.uid_hash not in hashes and takes_all(rival, new)]
        if rivals:
            yield f"{' and '.join(rivals)} of the snapshot, which the new job lacks, could have the same states"


def _has_states_of_its_own(operator: OperatorSignature, olds: Sequence[OperatorSignature]) -> bool:
    """Return whether the snapshot has the operator under its own id, with its states."""
    return any(old.uid_hash in operator.hashes and shares_states(old, operator) for old in olds)


def _named_otherwise(
    old: OperatorSignature, new: OperatorSignature, olds: Iterable[OperatorSignature], news: Iterable[OperatorSignature]
) -> str | None:
    """Return how names contradict an id: another operator has the name of one of both."""
    if old.name is None or new.name is None or plain_name(old) == plain_name(new):
        return None
    if has_own_name(old) and any(plain_name(operator) == plain_name(old) for operator in news):
        return f"the operator with this id is called {new.name!r} in the new job, and another operator {old.name!r}"
    if has_own_name(new) and any(plain_name(operator) == plain_name(new) for operator in olds):
        return f"the operator with this id was called {old.name!r}, and another operator {new.name!r}"
    return None
