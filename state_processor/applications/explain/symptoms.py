"""Symptoms: what users say of a job that runs, and the kinds of causes that their words suggest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from state_processor.applications.explain.causes import make
from state_processor.applications.explain.explanation import FailureCause
from state_processor.applications.explain.kinds import Certainty, Kind, PatternTable
from state_processor.applications.explain.scene import Scene
from state_processor.applications.jobs.contents import NO_CONTENTS
from state_processor.applications.jobs.signature import (
    NAMESPACE,
    VOID_NAMESPACE,
    StateSignature,
    has_kryo_collections,
    kryo_classes,
    states_in,
)
from state_processor.types import NFAStateSerializer

_SYMPTOMS: Final[Sequence[tuple[str, Sequence[Kind]]]] = (
    # where state is
    (
        r"exchang|swap|mix(?:ed|es)? up|mixed|other operator|wrong operator|belongs? to another|crossed|values? of another",
        (Kind.OPERATORS_SWAPPED, Kind.QUERY, Kind.KEY_GROUPS),
    ),
    (
        r"wrong key|another key|other key|same key .*(?:twice|two|different)|(?:two|several|duplicate) (?:entries|rows|"
        r"results) (?:for|per)"
        r" (?:the same|one|a|each) key|key .*not (?:found|the same)|hashcode",
        (Kind.KEY_GROUPS, Kind.OPERATORS_SWAPPED),
    ),
    # values
    (
        r"\bnull\b|\bnulls\b|missing values?|default value|field .*(?:empty|lost|0|zero)|values? (?:is|are) (?:0|zero)|blank",
        (Kind.FIELD_RENAMED, Kind.STATE_RENAMED, Kind.STATE_NOT_USED, Kind.UNMAPPED_OPERATOR),
    ),
    (
        r"expire|came? back|reappear|time.to.live|\bttl\b|stale|(?:vanish|disappear|lost|gone|deleted|"
        r"dropped) after (?:some|a|an|\d|one)|"
        r"too (?:early|soon|long)|never removed|old entries",
        (Kind.TTL, Kind.STATE_GROWS),
    ),
    (
        r"garbage|garbled|unreadable|strange (?:characters|values)|corrupt|nonsense|wrong type|negative numbers",
        (Kind.VALUE_TYPE, Kind.KRYO_CLASS, Kind.SERIALIZER, Kind.OPERATORS_SWAPPED, Kind.FILE_DAMAGED),
    ),
    # sources and sinks
    (
        r"offset|re-?read|re-?process|replay|from the beginning|from earliest|(?:old|same) (?:records|messages|"
        r"events) again|twice from|"
        r"partition.*(?:not|miss|skip)|skips? (?:records|messages|events)|binlog|new (?:topics?|partitions?)",
        (Kind.UNMAPPED_OPERATOR, Kind.SOURCE_POSITION, Kind.CONNECTOR),
    ),
    (
        r"duplicates?|written twice|(?:records|messages|rows|files) (?:are )?(?:missing|lost) in (?:the )?(?:sink|output|"
        r"topic|table|target)|"
        r"in-?progress files|pending files|transaction|exactly.once|not committed|uncommitted|\.inprogress",
        (Kind.TRANSACTION, Kind.SOURCE_POSITION, Kind.CONNECTOR),
    ),
    # time
    (
        r"timer|window|never fires?|do(?:es)? not fire|don't fire|not trigger|session|watermark|no (?:output|results)|"
        r"emits? nothing|"
        r"(?:fires?|triggered) (?:too|twice|early|late)|late(?:ness)?\b",
        (Kind.WINDOW_TYPE, Kind.STATE_NOT_USED, Kind.CODE),
    ),
    (r"pattern|\bcep\b|match(?:es)? (?:are )?(?:lost|missing)|partial match", (Kind.PATTERN, Kind.STATE_NOT_USED)),
    (r"\bsql\b|query|aggregat|join|group by|changelog|retract|update_before", (Kind.QUERY, Kind.TTL, Kind.UNMAPPED_OPERATOR)),
    # size and speed
    (
        r"(?:state|checkpoint|savepoint|size|store|rocksdb|directory|disk|it|memory)\w*(?: size)?s? (?:\w+ ){0,3}"
        r"(?:grow|increas|keeps? on|larger and larger|gets? bigger|explod)|grow(?:s|ing)? (?:forever|without|all|and|"
        r"every|day)|"
        r"never shrink|too (?:big|large)|unbounded",
        (Kind.STATE_GROWS, Kind.TTL, Kind.STATE_NOT_USED),
    ),
    (
        r"skew|uneven|hot key|one (?:sub)?task|single (?:sub)?task|one task ?manager|imbalance|other subtasks (?:idle|"
        r"are)|unbalanced",
        (Kind.SKEW, Kind.STATE_GROWS),
    ),
    (
        r"checkpoints? .*(?:time|timed|slow|long|fail|expire|decline|never complete|stuck|abort|minutes|not complete)|"
        r"savepoints? .*(?:time|timed|slow|long|fail|expire|decline|stuck|abort|hang)|backpressure|alignment|barrier",
        (Kind.CHECKPOINT, Kind.STATE_GROWS, Kind.SKEW),
    ),
    (r"out.?of.?memory|\boom\w*|killed|heap|137|\bgc\b|garbage collect", (Kind.MEMORY, Kind.STATE_GROWS)),
    (r"disk (?:is )?full|no space|disk usage|local disk|\binodes?\b", (Kind.DISK, Kind.STATE_GROWS)),
    # the start
    (
        r"(?:stuck|stays|hangs|waits?|remains) .*(?:created|scheduled|initializ|deploy|slot|resource|restart)|no slots|"
        r"not enough "
        r"(?:slots|resources|task)|pending pods?",
        (Kind.RESOURCES, Kind.CHECKPOINT),
    ),
    (
        r"(?:cannot|can't|could not|does not) find (?:the )?(?:checkpoint|savepoint|_metadata|snapshot)|no (?:checkpoint|"
        r"savepoint|snapshot)|"
        r"(?:checkpoint|savepoint|directory) .*(?:deleted|removed|is empty|does not exist)|retain",
        (Kind.NOT_FOUND, Kind.FILE_MISSING, Kind.HIGH_AVAILABILITY),
    ),
    (
        r"moved|copied|another bucket|other bucket|renamed bucket|migrat\w+ (?:to|the) (?:another|new|other)",
        (Kind.MOVED, Kind.FILE_MISSING),
    ),
    (
        r"job ?manager|leader|fail-?over|high.availability|zookeeper|config ?map|after (?:a )?(?:restart|"
        r"crash) of the (?:job|cluster)",
        (Kind.HIGH_AVAILABILITY, Kind.NOT_FOUND),
    ),
    (r"parallelism|rescal|scal(?:e|ed|ing)", (Kind.MAX_PARALLELISM, Kind.PARALLELISM, Kind.IN_FLIGHT, Kind.KEY_GROUPS)),
    (r"access|permission|denied|credential|403|forbidden", (Kind.STORAGE, Kind.EXTERNAL)),
    (
        r"upgrade|new version|newer flink|older flink|flink 2",
        (Kind.KRYO_VERSION, Kind.CONNECTOR, Kind.NEWER_FORMAT, Kind.OLDER_FORMAT),
    ),
    # all state
    (
        r"not in|gone|dropped|lost|los(?:e|es|ing)\b|disappear|no longer|empty|from scratch|from zero|start(?:s|"
        r"ed)? (?:again )?(?:at|from|with)"
        r"|reset|forgot|forgets|not restored|without (?:its )?state|as if|begins? (?:again|at|from)|missing|zero|ignores?",
        (Kind.UNMAPPED_OPERATOR, Kind.STATE_RENAMED, Kind.STATE_NOT_USED, Kind.OTHER_JOB),
    ),
    (
        r"wrong|continues with|differ|incorrect|too (?:high|low)",
        (Kind.OPERATORS_SWAPPED, Kind.QUERY, Kind.FIELD_RENAMED, Kind.KEY_GROUPS),
    ),
)
_PATTERNS: Final = PatternTable(((kinds, text) for text, kinds in _SYMPTOMS), re.IGNORECASE)


def suggested_kinds(symptom: str) -> tuple[Kind, ...]:
    """Return the kinds of causes that the words of a user suggest, those of the most specific words first."""
    return tuple(dict.fromkeys(chain.from_iterable(_PATTERNS.values(symptom))))


_OF_COMPARISON: Final = frozenset(
    {
        *(Kind.UNMAPPED_OPERATOR, Kind.STATE_RENAMED, Kind.STATE_NOT_USED, Kind.FIELD_RENAMED, Kind.VALUE_TYPE, Kind.OTHER_JOB),
        *(Kind.OPERATORS_SWAPPED, Kind.MAX_PARALLELISM, Kind.PARALLELISM, Kind.WINDOW_TYPE),
    }
)
"""Kinds that a comparison of the snapshot with the job would have shown."""
_OF_FILES: Final = frozenset(
    {Kind.NOT_FOUND, Kind.FILE_MISSING, Kind.FILE_DAMAGED, Kind.MOVED, Kind.NEWER_FORMAT, Kind.OLDER_FORMAT}
)
"""Kinds that a snapshot shows that can be opened and whose files were checked."""
_SUGGESTED: Final = 3


def of_symptom(symptom: str, scene: Scene, causes: Sequence[FailureCause]) -> Iterator[FailureCause]:
    """Yield the causes that the words of a user suggest and that the snapshot does not contradict, unless one was found."""
    kinds = suggested_kinds(symptom)
    if any(cause.kind in kinds or cause.message for cause in causes):
        return
    possible = [kind for kind in kinds if not _is_contradicted(kind, scene)]
    for kind in possible[:_SUGGESTED]:
        cause = make(kind, Certainty.POSSIBLE, {}, evidence=_evidence(kind, scene))
        yield replace(cause, sentence=cause.sentence.replace("operator of the trace", "an operator"))


def _states(scene: Scene) -> list[StateSignature]:
    return [state for _, state in states_in(scene.old_operators)]


def _is_contradicted(kind: Kind, scene: Scene) -> bool:
    """Return whether the snapshot, or its comparison with the job, contradicts a kind of causes."""
    if scene.snapshot is None:
        return False
    if (kind in _OF_COMPARISON and scene.new is not None) or (kind in _OF_FILES and scene.contents is not NO_CONTENTS):
        return True
    states = _states(scene)
    match kind:
        case Kind.QUERY:
            return not scene.has_queries
        case Kind.PATTERN:
            return not any(state.parts(NFAStateSerializer) for state in states)
        case Kind.WINDOW_TYPE:
            return not any(state.type_text(NAMESPACE) not in (None, VOID_NAMESPACE) for state in states if state.is_keyed)
        case Kind.KRYO_CLASS:
            return not any(map(kryo_classes, states))
        case Kind.KRYO_VERSION:
            return not any(map(has_kryo_collections, states))
        case Kind.TTL | Kind.STATE_GROWS | Kind.SKEW | Kind.KEY_GROUPS:
            return not any(state.is_keyed for state in states)
        case Kind.IN_FLIGHT:
            return not scene.of_kind(kind)
    return False


def _evidence(kind: Kind, scene: Scene) -> Iterator[str]:
    """Yield what the snapshot has that is about a kind of causes."""
    keyed = [state for state in _states(scene) if state.is_keyed and not state.is_timer]
    if kind in (Kind.STATE_GROWS, Kind.TTL):
        for has_ttl, text in ((False, "without time-to-live"), (True, "with time-to-live")):
            names = [repr(state.name) for state in keyed if bool(state.ttl) is has_ttl]
            if names:
                yield f"keyed states {text}: {', '.join(names[:9])}"
