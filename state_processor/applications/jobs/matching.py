"""Matches of the operators of a snapshot with the operators of another job, also without equal uids.

The evidence that two operators are the same is names and states. Equal ids alone are not evidence. Flink computes the id of an
operator without a uid from the graph of the job, and an operator may get the id that another one had. Timers are not evidence
either: every process function registers the same two queues.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, islice, permutations, product
from os import PathLike
from typing import Any, Final, Unpack

from state_processor import OperatorIdentifier
from state_processor.applications.flink_sql.descriptions import QueryMatch, match_query
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.applications.jobs.opening import FORWARD, GraphInput, GraphNode, JobGraph, described, signature_of
from state_processor.applications.jobs.rules import RestoringJob, state_verdict
from state_processor.applications.jobs.signature import JobSignature, OperatorSignature, StateSignature
from state_processor.applications.jobs.verdicts import Outcome
from state_processor.command_line import Answer, html_table, json_value, render_records
from state_processor.errors import OptionError
from state_processor.options import SnapshotAccess, SnapshotOptions, takes_options
from state_processor.snapshots import HashedNode, graph_hashes
from state_processor.states import UNKNOWN_WRITER, states_of_connectors
from state_processor.support import without_keys
from state_processor.types import MAPPING_VERSION

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
    return any(outcome in _CONTRADICTIONS for outcome in _outcomes(old, new))


def _outcomes(old: OperatorSignature, new: OperatorSignature) -> Iterator[Outcome]:
    """Yield the outcomes of the states with names that both operators have."""
    before, after = living_states(old), living_states(new)
    for name in before.keys() & after.keys():
        yield state_verdict(before[name], after[name], RestoringJob()).outcome


def takes_all(old: OperatorSignature, new: OperatorSignature) -> bool:
    """Return whether an operator registers all states of another one, and can restore them.

    Every source and every sink registers the same lists of bytes: the connectors decide.
    """
    is_evident = bool(_evident_states(old)) or (bool(_connectors(old)) and _connectors(old) == _connectors(new))
    return is_evident and has_names_of(old, new) and not contradicts(old, new)


def _evident_states(operator: OperatorSignature) -> Mapping[str, StateSignature]:
    """Return the states whose names and types identify an operator: those that no connector registers."""
    of_connectors = states_of_connectors() if operator.writers else frozenset()
    return without_keys(living_states(operator), of_connectors)


def has_names_of(old: OperatorSignature, new: OperatorSignature) -> bool:
    """Return whether an operator registers states with the names of all states of another one."""
    before = living_states(old)
    return bool(before) and before.keys() <= living_states(new).keys()


def shares_states(old: OperatorSignature, new: OperatorSignature) -> bool:
    """Return whether a state of an operator restores into another one."""
    return any(outcome not in _CONTRADICTIONS for outcome in _outcomes(old, new))


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
        hashes = set(chain.from_iterable(operator.hashes for operator in news))
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


_MOST_ORDERS: Final = 720
"""The maximal number of orders of sources that are tried. The REST interface does not show the numbers of sources."""


def with_hashes(graph: JobGraph, ids: Collection[str]) -> JobGraph:
    """Return a graph with the ids of its operators, as far as Flink computes the same ids.

    ``graph``: the graph. An id that the graph shows is preserved. ``ids``: the ids of operators in a snapshot of the job: they
    confirm which operators are chained, and the order of sources. Uids are not in the graph: the id of such an operator stays
    unknown, and with it the ids of operators after it.
    """
    best = max(_candidates(graph), key=lambda ids_by_place: _confirmed(graph, ids_by_place, ids), default={})
    confirmed = {place: uid_hash for place, uid_hash in best.items() if uid_hash in ids}
    nodes = (replace(node, uid_hash=node.uid_hash or confirmed.get(place)) for place, node in enumerate(graph.nodes))
    return JobGraph(tuple(nodes))


def _confirmed(graph: JobGraph, ids_by_place: dict[int, str], ids: Collection[str]) -> int:
    """Return the number of computed ids that a snapshot or the graph has."""
    displayed = 0
    for place, node in enumerate(graph.nodes):
        if node.uid_hash is not None and node.uid_hash == ids_by_place.get(place):
            displayed += 1
    return displayed + len({*ids_by_place.values()} & {*ids})


def _candidates(graph: JobGraph) -> Iterator[dict[int, str]]:
    """Yield possible ids by position: for each way to chain operators, and for each order of the sources."""
    sources = [place for place, node in enumerate(graph.nodes) if not node.inputs]
    hashes = {place: node.uid_hash for place, node in enumerate(graph.nodes) if node.uid_hash is not None}
    for chaining in (True, False):
        nodes = [_hashed(graph, node, chaining=chaining) for node in graph.nodes]
        for order in islice(permutations(sources), _MOST_ORDERS):
            yield graph_hashes(nodes, {}, order)
            if hashes:
                yield graph_hashes(nodes, hashes, order)


def _hashed(graph: JobGraph, node: GraphNode, *, chaining: bool) -> HashedNode:
    chained = tuple(_is_chained(graph, node, edge, chaining=chaining) for edge in node.inputs)
    return HashedNode(tuple(edge.source for edge in node.inputs), chained)


def _is_chained(graph: JobGraph, node: GraphNode, edge: GraphInput, *, chaining: bool) -> bool:
    """Return whether an operator is in the task of its input (Flink: ``StreamingJobGraphGenerator.isChainable``)."""
    if edge.chained is not None:
        return edge.chained
    same_size = graph.nodes[edge.source].parallelism == node.parallelism
    return chaining and edge.strategy == FORWARD and same_size and len(node.inputs) == 1


_COLUMNS: Final = ("old", "new", "confidence", "evidence")


class Confidence(StrEnum):
    """The confidence of a match."""

    CERTAIN = "certain"
    HIGH = "high"
    AMBIGUOUS = "ambiguous"
    NONE = "no match"


@dataclass(frozen=True, slots=True)
class OperatorMatch:
    """The match of an operator of a snapshot.

    Attributes
    ----------
    old, old_name
        The uid or hash of the operator in the snapshot, and its name if it is known.
    new
        The uid or hash of the operator in the new job; ``None`` unless the match is certain or its confidence is high.
    confidence
        ``certain``: the ids are equal, and neither states nor names raise a doubt. ``high``: the evidence fits this pair alone.
        ``ambiguous``: it fits several operators, or contradicts the ids.
    evidence
        The facts that support the match.
    candidates
        The possible operators of the new job, for an ambiguous match.
    """

    old: str
    old_name: str | None
    new: str | None
    confidence: Confidence
    evidence: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorMatches:
    """The matches of the operators of a snapshot; as text, a table.

    Attributes
    ----------
    matches
        The matches.
    advice
        For a query that was submitted as text: the options to compile its plan with, if the job had other options.
    """

    matches: tuple[OperatorMatch, ...]
    advice: tuple[str, ...] = ()

    @property
    def mapping(self) -> dict[str, str]:
        """The operators that get another uid: old and new identifiers. Ambiguous matches are left out."""
        return {match.old: match.new for match in self.matches if match.new is not None and match.new != match.old}

    @property
    def answer(self) -> Answer:
        """Whether every operator with state has its match: an ambiguous match can't be checked."""
        confidences = {match.confidence for match in self.matches}
        return Answer.of(wrong=Confidence.NONE in confidences, unchecked=Confidence.AMBIGUOUS in confidences)

    @property
    def open(self) -> tuple[OperatorMatch, ...]:
        """The operators without a match, or with several possible ones."""
        return tuple(match for match in self.matches if match.new is None)

    def to_json(self) -> str:
        """Return the content of a mapping file: ``rename-uid --mapping`` applies its ``uids``."""
        content = {"version": MAPPING_VERSION, "uids": self.mapping, "matches": json_value(self.matches)}
        return json.dumps(content, indent=2, ensure_ascii=False)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each operator of the snapshot."""
        for match in self.matches:
            old = match.old if match.old_name in (None, match.old) else f"{match.old} ({match.old_name})"
            new = match.new or " or ".join(match.candidates) or None
            yield {"old": old, "new": new, "confidence": str(match.confidence), "evidence": "; ".join(match.evidence)}

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join([render_records(_COLUMNS, self.rows()), *self.advice])

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, list(self.rows()))


@takes_options
def match_operators(
    old: str | PathLike[str] | JobSignature,
    new: str | PathLike[str] | JobSignature,
    *,
    graph: str | PathLike[str] | None = None,
    new_graph: str | PathLike[str] | None = None,
    **options: Unpack[SnapshotOptions],
) -> OperatorMatches:
    """Match the operators of a snapshot with the operators of a new job.

    Equal ids are certain if a uid made them and no other operator has the states instead, or if names or states agree and no
    other operator has the same states. States whose types can't be read confirm nothing. Names that contradict the ids make a
    match ambiguous. Timers are not evidence, since every process function has them; the lists of sources and sinks are evidence
    if the same connector wrote them. Other operators are matched by their names, and by their states with kinds and types, if the
    evidence fits one pair of operators alone. Names come from snapshots of Flink 2.x, or from the graph of the old job: Flink
    computes the ids of operators without a uid from the shape of this graph (``StreamGraphHasherV2``). If the new job is a
    compiled plan of Flink SQL, and the old one was submitted as text, the ids are computed from the plan.

    Parameters
    ----------
    old
        Directory of the snapshot, or its ``_metadata``; or its signature.
    new
        The new job: a snapshot, or a file that :func:`signature` reads.
    graph
        The graph of the job that wrote the snapshot, as the REST paths ``/jobs/:id`` and ``/jobs/:id/plan`` or
        ``getExecutionPlan()`` print it.
    new_graph
        The graph of the new job, in the same forms. Snapshots of Flink 1.x do not have the names of its operators.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Raises
    ------
    OptionError
        If a file has another form.
    """
    access = SnapshotAccess.of(**options)
    if not isinstance(old, JobSignature) and not isinstance(new, JobSignature) and access.plan is None:
        matches = matched_query(old, new, access)
        if matches is not None:
            return matches
    written = old if isinstance(old, JobSignature) else signature_of(old, access)
    if graph is not None:
        written = _with_names(written, graph, "graph", access)
    job = new if isinstance(new, JobSignature) else signature_of(new, replace(access, plan=None, uids=None))
    if new_graph is not None:
        job = _with_names(job, new_graph, "new_graph", access)
    return match_signatures(written, job)


def matched_query(old: str | PathLike[str], new: str | PathLike[str], access: SnapshotAccess) -> OperatorMatches | None:
    """Match the operators of a query that was submitted as text with a plan that was compiled later.

    Returns: ``None`` if the new job is not a compiled plan, or the job that wrote the snapshot has the uids of a plan.
    """
    storage = access.storage()
    plan = described(new, storage)
    if not isinstance(plan, CompiledPlan) or described(old, storage) is not None:
        return None
    snapshot = access.open(old, storage)
    if not plan.operators.keys().isdisjoint(snapshot.metadata.operators_by_id):
        return None
    matches = match_query(snapshot, plan)
    sure = Confidence.CERTAIN if matches.by_id else Confidence.HIGH
    with_state = (m for m in matches.matches if m.plan_operator or m.candidates or m.operator.state_size)
    return OperatorMatches(tuple(_of_query(match, sure) for match in with_state), matches.advice)


def _of_query(match: QueryMatch, sure: Confidence) -> OperatorMatch:
    old = match.operator.label
    if match.plan_operator is not None:
        return OperatorMatch(old, match.operator.name, match.plan_operator.uid, sure, match.evidence)
    candidates = tuple(candidate.uid for candidate in match.candidates)
    confidence = Confidence.AMBIGUOUS if candidates else Confidence.NONE
    return OperatorMatch(old, match.operator.name, None, confidence, match.evidence, candidates)


def _with_names(job: JobSignature, graph: str | PathLike[str], option: str, access: SnapshotAccess) -> JobSignature:
    signature = described(graph, access.storage())
    if not isinstance(signature, JobGraph):
        raise OptionError(f"{option}={str(graph)!r}: expected the graph of a job as Flink prints it, found another description")
    return named_by(job, signature)


def named_by(job: JobSignature, graph: JobGraph) -> JobSignature:
    """Return a signature whose operators have the names of a graph, by their ids."""
    ids = {o.uid_hash for o in job.operators if o.uid_hash is not None}
    names = {node.uid_hash: node.name for node in with_hashes(graph, ids).nodes if node.uid_hash is not None}
    named = (replace(o, name=o.name or names.get(o.uid_hash or "")) for o in job.operators)
    return replace(job, operators=tuple(named))


def match_signatures(old: JobSignature, new: JobSignature) -> OperatorMatches:
    """Match the operators of two jobs; see :func:`match_operators`."""
    matches: list[OperatorMatch] = []
    by_hash = new.by_hash
    doubts: dict[str, tuple[str, ...]] = {}
    left_old: list[OperatorSignature] = []
    matched_ids: set[int] = set()
    for operator in old.operators:
        uid_hash = operator.uid_hash or ""
        if uid_hash in by_hash:
            same = by_hash[uid_hash]
            doubts[uid_hash] = (*id_doubts(operator, same, old.operators, new.operators), *_unread(operator, same))
            if _is_same(operator, doubts[uid_hash]):
                matches.append(_match(operator, same, Confidence.CERTAIN, ("the ids are equal",)))
                matched_ids.add(id(same))
                continue
        if operator.has_state:
            left_old.append(operator)
    left_new = [o for o in new.operators if id(o) not in matched_ids]
    pairs: dict[tuple[int, int], tuple[str, ...]] = {}
    for (i, operator), (j, candidate) in product(enumerate(left_old), enumerate(left_new)):
        facts = evidence(operator, candidate)
        if facts:
            pairs[i, j] = facts
    decided = _unique_pairs(pairs)
    for i, operator in enumerate(left_old):
        if i in decided:
            j, facts = decided[i]
            matches.append(_match(operator, left_new[j], Confidence.HIGH, facts))
            continue
        fitting = [j for j in range(len(left_new)) if (i, j) in pairs]
        candidates = [left_new[j].label for j in fitting]
        facts = tuple(dict.fromkeys(chain.from_iterable(pairs[i, j] for j in fitting)))
        uid_hash = operator.uid_hash or ""
        if uid_hash in doubts:
            facts = ("the ids are equal", *doubts[uid_hash], *facts)
            candidates = list(dict.fromkeys((by_hash[uid_hash].label, *candidates)))
        confidence = Confidence.AMBIGUOUS if candidates else Confidence.NONE
        matches.append(OperatorMatch(_identifier(operator), operator.name, None, confidence, facts, tuple(candidates)))
    return OperatorMatches(tuple(matches))


def _unread(old: OperatorSignature, new: OperatorSignature) -> Iterator[str]:
    """Yield that states with unknown types confirm no id, unless a name does."""
    unread = unread_states(old, new)
    if unread and not (has_own_name(old) and plain_name(old) == plain_name(new)):
        yield unread


def connected(mapping: Mapping[str, str], uid_hash: str) -> dict[str, str]:
    """Return the new ids that depend on one another: an operator gets the id that another one had.

    ``mapping``: new identifiers by old ones. ``uid_hash``: the id that one of the operators has, or gets.
    """
    hashes = {old: {OperatorIdentifier.of(old).uid_hash, OperatorIdentifier.of(new).uid_hash} for old, new in mapping.items()}
    group, members = {uid_hash}, 0
    while len(group) > members:
        members = len(group)
        for pair in hashes.values():
            if pair & group:
                group |= pair
    return {old: mapping[old] for old, pair in hashes.items() if pair <= group}


def _is_same(old: OperatorSignature, doubts: tuple[str, ...]) -> bool:
    """Return whether equal ids are certain. Without uids, an operator without state is not matched."""
    return not doubts and (old.has_state or old.uid is not None)


def _match(old: OperatorSignature, new: OperatorSignature, confidence: Confidence, evidence: tuple[str, ...]) -> OperatorMatch:
    target = new.uid or new.uid_hash
    if target is None:  # only the name of the new operator is known
        return OperatorMatch(_identifier(old), old.name, None, Confidence.AMBIGUOUS, evidence, (new.label,))
    is_same = new.uid_hash == old.uid_hash
    return OperatorMatch(_identifier(old), old.name, _identifier(old) if is_same else target, confidence, evidence)


def _identifier(operator: OperatorSignature) -> str:
    return operator.uid or operator.uid_hash or operator.label


def _unique_pairs(pairs: Mapping[tuple[int, int], tuple[str, ...]]) -> dict[int, tuple[int, tuple[str, ...]]]:
    """Return the pairs whose evidence fits no other operator, on either side.

    A fact of an earlier kind outweighs later kinds: if states and name point to different operators, the match is left open.
    """
    decided: dict[int, tuple[int, tuple[str, ...]]] = {}
    for kind in (is_own_name, is_states):
        by_old: dict[int, list[int]] = {}
        by_new: dict[int, list[int]] = {}
        for (i, j), facts in pairs.items():
            if any(map(kind, facts)):
                by_old.setdefault(i, []).append(j)
                by_new.setdefault(j, []).append(i)
        for i, partners in by_old.items():
            decided_new = {j for j, _ in decided.values()}
            if i not in decided and len(partners) == 1 and by_new[partners[0]] == [i] and partners[0] not in decided_new:
                decided[i] = partners[0], pairs[i, partners[0]]
    return {i: partner for i, partner in decided.items() if not _contradicted(i, partner[0], pairs)}


def _contradicted(i: int, j: int, pairs: Mapping[tuple[int, int], tuple[str, ...]]) -> bool:
    """Return whether an operator has the name of one operator, and only another one has its states."""
    if any(map(is_states, pairs[i, j])):
        return False
    for (old, new), facts in pairs.items():
        is_rival = (old == i) != (new == j)
        if is_rival and any(map(is_states, facts)):
            return True
    return False
