"""Descriptions of queries for reading and writing: what :mod:`state_processor.backends.metadata.queries` asks.

Without a plan, the kinds of operators follow from their names, or from the names and types of their states.

A job that runs a compiled plan has uids from the plan. For a job that was submitted as text, Flink computes the ids of its
operators from the shape of the graph: the same ids are computed from a plan that is compiled later. If the job had another
shape, operators are matched by their states, types and names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from logging import getLogger
from typing import Final

from state_processor.applications.flink_sql.nodes import Operator, PlanNode, PlanOperator
from state_processor.applications.flink_sql.operators.registry import OPERATORS, has_state
from state_processor.applications.flink_sql.plan import COMMITTER, CompiledPlan, translations
from state_processor.errors import OptionError
from state_processor.options import spelled
from state_processor.snapshots import OperatorState, QueryDescriptions, Snapshot, kind_of_operator, some_of
from state_processor.states import StateDescription, of_one_subtask, surveys
from state_processor.support import only_keys, without_keys

_LOG: Final = getLogger("state_processor")
_UPPER: Final = re.compile(r"(?<!^)([A-Z])")
_NAME: Final = re.compile(r"(?:Source: |Sink: )?(.+)\[(\d+)\].*")
_DISTINCT: Final = re.compile(r"distinctAcc_\d+")
_OF_BATCHES: Final = ("mini-batch-assigner", "local-group-aggregate")
_NAMES_OF_BATCHES: Final = ("MiniBatchAssigner", "LocalGroupAggregate")
_SHAPING: Final = (
    "table.exec.mini-batch.enabled",
    "table.optimizer.agg-phase-strategy",
    "table.optimizer.distinct-agg.split.enabled",
    "parallelism of sources and sinks",
)
"""Options that change the operators of a query, or how they are connected."""
_OF_SINKS: Final = frozenset({"sink", COMMITTER, "streaming-writer", "compact-coordinator", "compact-operator"}) | {
    "partition-committer",
    "discarding-sink",
    "constraint-validator",
    "timestamp-inserter",
}
_WITHOUT_UIDS: Final = frozenset({"iceberg", "paimon"})
"""Connectors whose sinks do not get uids from a compiled plan: a job that runs the plan has other ids for their operators."""
_OPERATOR_STATES: Final[Mapping[str, frozenset[str]]] = {
    "SourceReaderState": frozenset({"source"}),
    "writer_raw_states": frozenset({"sink"}),
    "streaming_committer_raw_states": frozenset({COMMITTER}),
    "bucket-states": frozenset({"streaming-writer", "sink"}),
}
"""Operators that have a state outside of keys."""


def kind_of_states(states: Mapping[str, StateDescription]) -> str | None:
    """Return the kind of an operator with some states by name; several kinds with the same states are separated by ``or``."""
    operators = [operator for operator in OPERATORS if _registers_one(operator, states)]
    if len(operators) != 1:
        operators = [o for o in OPERATORS if o.has_states is not None and o.has_states(states)]
    return " or ".join(operator.kind or operator.names[0] for operator in operators) or None


def _registers_one(operator: Operator, states: Iterable[str]) -> bool:
    """Return whether one of the states has a name that only this operator has."""
    return bool(operator.state_names) and any(re.fullmatch(operator.state_names, name) for name in states)


def kind_of_name(name: str) -> str | None:
    """Return the kind of an operator by its name in snapshots of Flink 2, such as ``GlobalGroupAggregate``."""
    kind = _UPPER.sub(r"-\1", name).lower()
    kind = "upsert-materialize" if kind == "sink-materializer" else kind
    return kind if has_state(kind) else None


@dataclass(frozen=True)
class QueryMatch:
    """The match of an operator of a snapshot."""

    operator: OperatorState
    plan_operator: PlanOperator | None  # the operator of the plan; ``None`` if none or several are possible
    evidence: tuple[str, ...] = ()  # what the match is based on
    candidates: tuple[PlanOperator, ...] = ()  # the possible operators, if there are several


@dataclass(frozen=True)
class QueryMatches:
    """The matches of the operators of a snapshot."""

    matches: tuple[QueryMatch, ...]  # the match of each operator
    by_id: bool  # whether the ids confirm the shape of the graph
    advice: tuple[str, ...] = ()  # how to compile the plan so that it fits the job, if options of the job differ

    @property
    def plan_operators(self) -> dict[str, PlanOperator]:
        """The operators of the plan, by the recorded ids of the operators of the snapshot."""
        return {match.operator.operator_id: match.plan_operator for match in self.matches if match.plan_operator is not None}


def with_query(snapshot: Snapshot, plan: CompiledPlan) -> Snapshot:
    """Return the snapshot with a plan: with the uids of the plan, also for a query that was submitted as text.

    Operators without a uid get ids and uids of the plan. So a savepoint that is written from the snapshot can be restored by a
    job that runs the plan.
    """
    operators, recorded = snapshot.metadata.operators, snapshot.recorded_ids
    if operators and plan.operators.keys().isdisjoint(snapshot.metadata.operators_by_id):
        matches = match_query(snapshot, plan)
        _report(matches)
        renamed = tuple(_renamed(o, matches.plan_operators.get(o.operator_id)) for o in operators)
        recorded = {new.operator_id: old.operator_id for old, new in zip(operators, renamed, strict=True) if new is not old}
        if not any(o.operator_id in plan.operators for o in renamed):
            labels = ", ".join(o.label for o in operators)
            raise OptionError(
                f"{spelled('plan')}: the plan does not have the operators of the snapshot ({labels}). Pass the plan of the query "
                f"that wrote it, compiled from the same text, or with EXECUTE PLAN and the default table.exec.uid.format. "
                f"Without a plan, {spelled('fields')} names rows"
            )
        operators = renamed
    named = []
    for operator in operators:
        planned = plan.operators.get(operator.operator_id)
        named.append(operator if planned is None else replace(operator, uid=operator.uid or planned.uid))
    metadata = replace(snapshot.metadata, operators=tuple(named))
    return replace(snapshot, metadata=metadata, query_plan=plan, recorded_ids=recorded)


def _renamed(operator: OperatorState, translated: PlanOperator | None) -> OperatorState:
    return operator if translated is None else replace(operator, operator_id=translated.uid_hash, uid=translated.uid)


def _report(matches: QueryMatches) -> None:
    """Log the operators without a match, and the advice, if any operator has a match."""
    for match in matches.matches if matches.plan_operators else ():
        if match.plan_operator is None and (match.candidates or match.operator.state_size):
            labels = some_of([candidate.label for candidate in match.candidates]) if match.candidates else "none"
            _LOG.warning(
                "%s: operator %s keeps its id; operators of the plan that fit: %s",
                spelled("plan"), match.operator.name or match.operator.operator_id, labels,
            )  # fmt: skip
    for advice in matches.advice if matches.plan_operators else ():
        _LOG.warning("%s: %s", spelled("plan"), advice)


def match_query(snapshot: Snapshot, plan: CompiledPlan) -> QueryMatches:
    """Match the operators of a snapshot with the operators of a plan.

    If the ids of all operators follow from the plan, they decide; the states have to fit. Otherwise each operator with state is
    matched if one operator of the plan alone fits its states, types and name.

    ``snapshot``: the snapshot of a job without uids.
    """
    return _SubmittedJob(snapshot, plan).matches()


class _SubmittedJob:
    """A job that was submitted as text, and the plan that was compiled later.

    ``operators``: the operators of the snapshot. ``states``: the states of each operator, by its id.
    """

    def __init__(self, snapshot: Snapshot, plan: CompiledPlan) -> None:
        self.plan = plan
        self.operators = snapshot.metadata.operators
        surveyed = surveys(snapshot, map(of_one_subtask, self.operators))
        self.states = {o.operator_id: states for o, (states, _) in zip(self.operators, surveyed, strict=True)}

    def matches(self) -> QueryMatches:
        """Match the operators: see :func:`match_query`."""
        operators_by_id = self._by_id()
        if operators_by_id is not None:
            decided = tuple(_with_uid(self._decided(o, operators_by_id.get(o.operator_id))) for o in self.operators)
            return QueryMatches(decided, by_id=True, advice=tuple(self._other_ttl(decided)))
        matches = tuple(map(_with_uid, self._by_structure()))
        return QueryMatches(matches, by_id=False, advice=(self._other_shape(), *self._other_ttl(matches)))

    def _by_id(self) -> dict[str, PlanOperator] | None:
        """Return the operators of the plan by ids, if one shape of the graph explains all operators except operators of sinks."""
        best: list[Mapping[str, PlanOperator]] = []
        most = 0
        ids = self.states.keys()
        for translated in translations(self.plan):
            confirmed = len(ids & translated.keys())
            if confirmed < max(most, 1) or not self._explains(translated):
                continue
            best, most = ([translated] if confirmed > most else [*best, translated]), confirmed
            if ids == translated.keys():
                break
        if not best:
            return None
        agreed = only_keys(best[0], ids)
        for operator_map in best[1:]:
            agreed = {uid_hash: operator for uid_hash, operator in agreed.items() if operator_map.get(uid_hash) == operator}
        return agreed or None

    def _explains(self, translated: Mapping[str, PlanOperator]) -> bool:
        """Return whether a graph has the operators of the snapshot with their states; sinks of unknown connectors may differ."""
        for uid_hash, translated_operator in translated.items():
            if uid_hash not in self.states and translated_operator.transformation not in _OF_SINKS:
                return False
        for operator in self.operators:
            states = self.states[operator.operator_id]
            match = translated.get(operator.operator_id)
            if match is None and _has_keyed(states):
                return False
            if match is not None and not fits(match, states):
                return False
        return True

    def _decided(self, operator: OperatorState, translated: PlanOperator | None) -> QueryMatch:
        facts = ("the id follows from the plan", *(("the states fit",) if self.states[operator.operator_id] else ()))
        return QueryMatch(operator, translated, facts if translated is not None else ())

    def _by_structure(self) -> Iterator[QueryMatch]:
        usual = next(translations(self.plan)).values()
        possible = sorted(
            (candidate for candidate in usual if _may_have_state(candidate)),
            key=lambda candidate: self.plan.nodes.index(candidate.node),
        )
        ranked = self._by_name(possible)
        candidates: dict[str, list[PlanOperator]] = {}
        unsure: set[str] = set()
        for operator in self.operators:
            states = self.states[operator.operator_id]
            if not states:
                continue
            named, kind = ranked.get(operator.operator_id), kind_of_operator((), operator.name)
            candidates[operator.operator_id] = []
            for candidate in possible:
                fits_name = (named is None or candidate is named) and _is_kind(candidate, kind)
                if fits_name and fits(candidate, states) and _has_states(candidate, states):
                    candidates[operator.operator_id].append(candidate)
            if kind is None and any(map(_DISTINCT.match, states)):
                unsure.add(operator.operator_id)
        decided = without_keys(_eliminated(candidates), unsure)
        for operator in self.operators:
            decided_operator = decided.get(operator.operator_id)
            candidates_left = candidates.get(operator.operator_id, [])
            facts = ["the states fit"] if candidates_left else []
            if candidates_left and operator.operator_id in ranked:
                facts.insert(0, f"name {operator.name!r}")
            if candidates_left and operator.operator_id in unsure:
                facts.append("distinct values have another layout if the job aggregated in another number of phases")
            yield QueryMatch(
                operator, decided_operator, tuple(facts), () if decided_operator is not None else tuple(candidates_left)
            )

    def _by_name(self, possible: Sequence[PlanOperator]) -> dict[str, PlanOperator]:
        """Return operators by the names that snapshots of Flink 2 have: ``Join[7]``. The numbers have the order of the plan."""
        named: dict[str, list[tuple[int, str]]] = {}
        for operator in self.operators:
            match = _NAME.fullmatch(operator.name or "")
            if match is not None:
                named.setdefault(match[1], []).append((int(match[2]), operator.operator_id))
        planned: dict[str, list[PlanOperator]] = {}
        for candidate in possible:
            if candidate.transformation not in (COMMITTER, "streaming-writer"):
                planned.setdefault(_shown_name(candidate), []).append(candidate)
        operators: dict[str, PlanOperator] = {}
        for name, numbered in named.items():
            candidates = planned.get(name, [])
            if len(numbered) == len(candidates):
                operators |= zip((uid_hash for _, uid_hash in sorted(numbered)), candidates, strict=True)
        return operators

    def _other_shape(self) -> str:
        """Return advice on options: the graph of the job has another shape than the plan."""
        batches = any(node.kind in _OF_BATCHES for node in self.plan.nodes)
        names = [match[1] for o in self.operators if (match := _NAME.fullmatch(o.name or "")) is not None]
        ran = any(name in _NAMES_OF_BATCHES for name in names)
        if names and ran != batches:
            modes = ("with mini-batches", "without them") if ran else ("without mini-batches", "with them")
            value = str(ran).lower()
            return (
                f"the job ran {modes[0]}, the plan was compiled {modes[1]}; compile it with SET 'table.exec.mini-batch.enabled' "
                f"= '{value}' and the job's value of 'table.optimizer.agg-phase-strategy'"
            )
        size = len(next(translations(self.plan)))
        return (
            f"expected a job with the graph of the plan, of {size} operators; the snapshot has {len(self.operators)}, with other "
            f"ids. Compile the plan with the version of Flink and the options of the job: {', '.join(_SHAPING)}"
        )

    def _other_ttl(self, matches: Iterable[QueryMatch]) -> Iterator[str]:
        """Yield the operators whose states have time-to-live in the job only, or in the plan only."""
        for match in matches:
            planned = match.plan_operator.node.has_ttl if match.plan_operator is not None else {}
            states = list(chain.from_iterable(self.states[match.operator.operator_id].values()))
            keyed = [state.has_ttl for state in states if state.is_keyed and not state.is_timer]
            if match.plan_operator is not None and planned and keyed and any(keyed) != any(planned.values()):
                has, lacks = ("job", "plan") if any(keyed) else ("plan", "job")
                yield (
                    f"the state of {match.plan_operator.label} has time-to-live in the {has}, and none in the {lacks}; Flink "
                    "refuses to restore it. Compile the plan with the job's value of 'table.exec.state.ttl'"
                )


def _with_uid(match: QueryMatch) -> QueryMatch:
    """Return a match without the operator of the plan, if this operator does not have a uid in a job that runs the plan."""
    if match.plan_operator is None or match.plan_operator.transformation not in _OF_SINKS:
        return match
    connector = str(match.plan_operator.node.at("dynamicTableSink", "table", "resolvedTable", "options", "connector", default=""))
    if connector not in _WITHOUT_UIDS:
        return match
    return QueryMatch(match.operator, None, (f"a sink of {connector} does not get uids from a plan",))


def fits(operator: PlanOperator, states: Mapping[str, Sequence[StateDescription]]) -> bool:
    """Return whether an operator of a plan may have these states: names, kinds, key and row types."""
    for name, (state, *_) in states.items():
        if not state.is_keyed:
            if name in _OPERATOR_STATES and operator.transformation not in _OPERATOR_STATES[name]:
                return False
            continue
        if not has_state(operator.transformation):
            return False
        if state.is_timer:
            continue
        try:
            if operator.meaning(state) is None:
                return False
            operator.names(state)
        except OptionError:
            return False
    return True


def _is_kind(planned: PlanOperator, kind: str | None) -> bool:
    """Return whether an operator of the plan is of the kind in the name of an operator of the snapshot, if it has a name."""
    return kind in (None, planned.transformation) or (kind == "sink" and planned.transformation in _OF_SINKS)


def _may_have_state(planned: PlanOperator) -> bool:
    return has_state(planned.transformation) or planned.transformation in ("source", "sink", COMMITTER, "streaming-writer")


def _has_keyed(states: Mapping[str, Sequence[StateDescription]]) -> bool:
    return any(state.is_keyed for state in chain.from_iterable(states.values()))


def _has_states(planned: PlanOperator, states: Mapping[str, Sequence[StateDescription]]) -> bool:
    """Return whether states outside of keys alone may be states of an operator: most operators have keyed states."""
    return _has_keyed(states) or planned.transformation in ("source", "sink", COMMITTER, "streaming-writer", "async-calc")


def _eliminated(candidates: Mapping[str, Sequence[PlanOperator]]) -> dict[str, PlanOperator]:
    """Return the operators that are the only possible ones, after those that are needed by others are taken away."""
    decided: dict[str, PlanOperator] = {}
    while True:
        decided_uids = {operator.uid for operator in decided.values()}
        single = {}
        for key, operators in candidates.items():
            undecided = [operator for operator in operators if operator.uid not in decided_uids]
            if key not in decided and len(undecided) == 1:
                single[key] = undecided[0]
        uids = [operator.uid for operator in single.values()]
        fresh = {key: operator for key, operator in single.items() if uids.count(operator.uid) == 1}
        if not fresh:
            return decided
        decided |= fresh


def _shown_name(planned: PlanOperator) -> str:
    """Return the name of an operator without its number (Flink: ``ExecNodeBase.getSimplifiedName``)."""
    if planned.transformation == "upsert-materialize":
        return "SinkMaterializer"
    if planned.transformation == "source":
        return _table(planned.node, "scanTableSource")
    if planned.transformation == "sink":
        return _table(planned.node, "dynamicTableSink")
    return "".join(part.capitalize() for part in planned.node.kind.split("-"))


def _table(node: PlanNode, member: str) -> str:
    """Return the name of a table without its catalog and database."""
    identifier = str(node.at(member, "table", "identifier", default=""))
    return identifier.rpartition("`.`")[2].strip("`").replace("``", "`")


def _with_plan(snapshot: Snapshot, text: str) -> Snapshot:
    return with_query(snapshot, CompiledPlan.parse(text))


DESCRIPTIONS: Final = QueryDescriptions(_with_plan, kind_of_name, kind_of_states)
