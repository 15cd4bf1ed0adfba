"""The check of a snapshot against another job, operator by operator."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from os import PathLike, fspath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Unpack

from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.applications.jobs.contents import NO_CONTENTS, Contents, SnapshotValues, snapshot_verdicts
from state_processor.applications.jobs.matching import (
    connected,
    connector_of,
    contradicts,
    formats_of,
    has_names_of,
    id_doubts,
    living_states,
    match_signatures,
    shares_states,
    takes_all,
    unknown_writers,
)
from state_processor.applications.jobs.opening import described, signature_of, signature_of_snapshot
from state_processor.applications.jobs.repairs import Mismatch, Repairs
from state_processor.applications.jobs.rules import HASHMAP, RestoringJob, class_names, combined_states, state_verdict, worst_of
from state_processor.applications.jobs.signature import NAMESPACE, JobSignature, OperatorSignature, StateSignature, states_in
from state_processor.applications.jobs.verdicts import SNAPSHOT, Cause, JobReport, OperatorVerdict, Outcome, StateVerdict
from state_processor.command_line import flag_words
from state_processor.errors import OptionError
from state_processor.options import BackendName, SnapshotAccess, SnapshotOptions, checked_choice, takes_options
from state_processor.snapshots import RELEASES, release_for
from state_processor.states import default_max_parallelism

if TYPE_CHECKING:
    from state_processor.applications.jobs.queries import QueryOperator

MERGING: Final = "merging-window-set"
"""The state with the windows that Flink merged (``MergingWindowSet``). Session windows have it."""
_WINDOWS: Final = ("TIME_WINDOW", "GLOBAL_WINDOW")
_TIME: Final = re.compile(r"(Event|Processing)Time")


def window_verdicts(old: OperatorSignature, new: OperatorSignature, *, is_unchanged: bool) -> Iterator[StateVerdict]:
    """Yield verdicts on the windows of an operator.

    ``old`` and ``new``: the operator in the snapshot and in the new job. ``is_unchanged``: whether the user declares that the
    code of the operator is unchanged.
    """
    windows, new_windows = _window_states(old), _window_states(new)
    if old.states is None or new.states is None or not {*windows.values()} & {*new_windows.values()}:
        return
    if (MERGING in old.states) != (MERGING in new.states):
        text = "windows that merge (sessions) became windows that do not" if MERGING in old.states else "windows became sessions"
        yield StateVerdict("", Outcome.LOST, f"{text}: Flink starts and never fires the open windows", cause=Cause.WINDOWS)
        return
    before, after = _time(old), _time(new)
    if before is not None and after is not None and before != after:
        text = f"windows of {before} became windows of {after}: Flink starts and never fires the open windows"
        yield StateVerdict("", Outcome.LOST, text, cause=Cause.WINDOWS)
    elif not is_unchanged:
        added = sorted(new_windows.keys() - windows.keys())
        state = f". The new state {', '.join(added)} may belong to another trigger" if added else ""
        text = "assigner, trigger and functions of windows are code: another trigger, or another time, may never fire open ones"
        yield StateVerdict("", Outcome.UNKNOWN, f"{text}{state}", cause=Cause.WINDOWS)


def _window_states(operator: OperatorSignature) -> dict[str, str]:
    """Return the states of single windows and their types: contents, and states of triggers and functions."""
    types: dict[str, str] = {}
    for name, state in (operator.states or {}).items():
        text = None if state.is_timer else state.type_text(NAMESPACE)
        if text is not None and text in _WINDOWS:
            types[name] = text
    return types


def _time(operator: OperatorSignature) -> str | None:
    """Return the time of windows by the name that Flink gives to the operator."""
    match = _TIME.search(operator.name or "")
    return None if match is None else f"{match[1].lower()} time"


_UNREADABLE: Final = (Cause.FILES, Cause.CLAIMED_MISSING)
_FORST: Final = "forst"
_ROCKSDB: Final = "rocksdb"
_BACKENDS: Final = (HASHMAP, _ROCKSDB, _FORST)
_CANONICAL: Final = "canonical"
_FIRST_CHANGE_OF_API: Final = (2, 1)
"""The first Flink whose ForSt restores state of the synchronous API for the asynchronous one, and back."""
_RESTORED: Final = {
    HASHMAP: ("heap", _CANONICAL),
    _ROCKSDB: (_ROCKSDB, _FORST, _CANONICAL),
    _FORST: (_FORST, _ROCKSDB),
}
"""The formats of keyed state that each backend restores."""


_KEEP_TIMERS: Final = frozenset({_ROCKSDB, _FORST})
"""The backends, and formats, that have timers beside the keyed state."""
_ON_THE_HEAP: Final = (
    "a job whose option timer-service.factory of the backend is HEAP ignores timers in these files: they never fire. The default "
    "keeps timers in the backend, and restores them"
)


@takes_options
def check_job(
    path: str | PathLike[str] | JobSignature,
    job: str | PathLike[str] | JobSignature,
    *,
    flink: str | None = None,
    backend: BackendName | None = None,
    unchanged: Collection[str] = (),
    contents: bool = True,
    **options: Unpack[SnapshotOptions],
) -> JobReport:
    """Predict the restore of a snapshot in another job, by Flink's rules, without starting the job.

    Parameters
    ----------
    path
        Directory of the snapshot, its ``_metadata``, or a file with its signature.
    job
        The new job: what :func:`signature` accepts.
    flink, backend
        The Flink version and the state backend of the new job, such as ``"2.3"`` and ``"rocksdb"``; the description of
        the job is the default. Rules about time-to-live and keys of maps differ between them.
    unchanged
        Java classes, and operators by uid, hash or name, whose code is the same in both jobs. Snapshots do not describe the
        fields of classes that Kryo writes, for example; without this promise, such parts can't be checked.
    contents
        Whether all files of the snapshot are checked, and values are read where types alone do not decide. Without this, the
        report never says that the snapshot restores.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    JobReport
        The outcome for each operator and state, with reason and repair. ``restores`` is true only if everything was checked, and
        Flink restores every value as before.

    Raises
    ------
    OptionError
        If the description of the job has another form, or the backend or the version of Flink is unknown.
    """
    if isinstance(unchanged, str):
        raise OptionError(f"unchanged={unchanged!r}: expected a list of classes and operators, found a text")
    access = SnapshotAccess.of(**options)
    new, new_plan = _described(job, replace(access, plan=None, uids=None))
    if new_plan is None:  # the job has the operators that the snapshot records
        access = replace(access, plan=None)
    _check_release(flink, "flink")
    _check_release(new.flink, "flink of the new job")
    described_by = "NEW" if isinstance(job, JobSignature) else fspath(job)
    restoring = backend or new.backend
    if restoring is not None:
        restoring = checked_choice("backend", restoring, _BACKENDS)
    target = RestoringJob(flink or new.flink, restoring, frozenset(unchanged))
    if isinstance(path, JobSignature) or described(path, access.storage()) is not None:
        old, old_plan = _described(path, access)
        queries = {} if old_plan is None or new_plan is None else _plan_operators(old_plan, new_plan)
        source = "IN" if isinstance(path, JobSignature) else fspath(path)
        return compare(old, new, target, source, job=described_by, queries=queries)
    snapshot = access.open(path)
    files = tuple(snapshot_verdicts(snapshot, target, contents=contents))
    repairs = Repairs(fspath(path), target, described_by, flag_words(access))
    if any(verdict.cause in _UNREADABLE and verdict.outcome is Outcome.REFUSED for verdict in files):
        missing = [verdict for verdict in files if verdict.cause is not Cause.MOVED]  # a copy is impossible
        return JobReport(tuple(_of_snapshot(missing, repairs)))
    values = SnapshotValues(snapshot) if contents else NO_CONTENTS
    old = signature_of_snapshot(snapshot)
    queries = {} if new_plan is None or access.plan is None else _query_operators(path, access, old, new_plan)
    report = compare(old, new, target, fspath(path), values, described_by, repairs.access, queries)
    return replace(report, operators=(*_of_snapshot(files, repairs), *report.operators))


def _check_release(flink: str | None, option: str) -> None:
    """Refuse a version whose rules are not known."""
    if flink is not None and release_for(flink, option) not in RELEASES:
        raise OptionError(f"{option}={flink!r}: expected Flink {'.'.join(map(str, RELEASES[0]))} or later")


def _described(job: str | PathLike[str] | JobSignature, access: SnapshotAccess) -> tuple[JobSignature, CompiledPlan | None]:
    """Return the signature of a job, and its plan if a plan describes it."""
    if isinstance(job, JobSignature):
        return job, None
    content = described(job, access.storage())
    return signature_of(job, access), content if isinstance(content, CompiledPlan) else None


def _query_operators(
    path: str | PathLike[str], access: SnapshotAccess, old: JobSignature, new_plan: CompiledPlan
) -> Mapping[str, QueryOperator]:
    from state_processor.applications.jobs.queries import query_operators  # it imports what writes
    from state_processor.write import SavepointBuild

    build = SavepointBuild.from_existing(path, None, access)
    assert build.snapshot is not None
    assert isinstance(build.snapshot.query_plan, CompiledPlan)
    return query_operators(build, {o.uid_hash: o for o in old.operators}, build.snapshot.query_plan, new_plan)


def _plan_operators(old: CompiledPlan, new: CompiledPlan) -> Mapping[str, QueryOperator]:
    from state_processor.applications.jobs.queries import plan_operators  # it imports what writes

    return plan_operators(old, new)


def _of_snapshot(verdicts: Iterable[StateVerdict], repairs: Repairs) -> Iterator[OperatorVerdict]:
    for verdict in verdicts:
        yield _operator_verdict(SNAPSHOT, None, replace(verdict, repair=repairs.of(Mismatch(verdict))))


def _operator_verdict(label: str, uid_hash: str | None, verdict: StateVerdict) -> OperatorVerdict:
    """Return the verdict on an operator, or on the snapshot, from the only rule that applies."""
    return OperatorVerdict(label, uid_hash, verdict.outcome, verdict.reason, verdict.repair, (), verdict.cause, (verdict,))


def compare(
    old: JobSignature,
    new: JobSignature,
    target: RestoringJob,
    source: str = "IN",
    contents: Contents = NO_CONTENTS,
    job: str = "NEW",
    access: Sequence[str] = (),
    queries: Mapping[str, QueryOperator] = MappingProxyType({}),
) -> JobReport:
    """Predict the restore of the operators and states of a job in another job.

    ``old`` and ``new``: the job that wrote the snapshot, and the job that restores it. ``target``: version and backend of the job
    that restores. ``source``: the path of the snapshot, for commands. ``contents``: the values of the snapshot. ``job``: the path
    of the description of the new job, for commands. ``access``: flags that open the snapshot, for commands. ``queries``: what
    becomes of the operators of a query in another query, by their hashes.
    """
    majors = {flink.partition(".")[0] for flink in (old.flink, target.flink) if flink is not None}
    repairs = Repairs(source, replace(target, changes_kryo=len(majors) > 1), job, access)
    return _Check(old, new, repairs, contents, queries).report()


class _Check:
    def __init__(
        self,
        old: JobSignature,
        new: JobSignature,
        repairs: Repairs,
        contents: Contents,
        queries: Mapping[str, QueryOperator],
    ) -> None:
        self._old, self._new, self._target, self._contents = old, new, repairs.target, contents
        self._repairs, self._queries = repairs, queries
        self._by_hash = new.by_hash
        self._old_hashes = {o.uid_hash for o in old.operators}
        self._added = [o for o in new.operators if self._old_hashes.isdisjoint(o.hashes)]
        self._classes: set[str] = set()
        for _, state in states_in(new.operators):
            self._classes.update(class_names(state))
        self._notes: dict[str, None] = {}
        self._functions: list[str] = []
        self._mapping: Mapping[str, str] | None = None

    def report(self) -> JobReport:
        verdicts = list(chain.from_iterable(map(self._operator, self._old.operators)))
        for operator in self._added:
            if operator.uid_hash is not None:
                reason = "the snapshot does not have this operator"
                verdicts.append(OperatorVerdict(operator.label, operator.uid_hash, Outcome.NEW, reason))
        if self._functions:
            self._notes[
                "Not checked: the code of functions, which no snapshot has. States that restore, and that another function would "
                f"continue with other results: {'; '.join(self._functions)}"
            ] = None
        if self._target.version is None:
            self._notes["The Flink version of the new job is unknown: name it to check rules that differ between versions"] = None
        return JobReport(tuple(verdicts), tuple(self._notes))

    def _operator(self, old: OperatorSignature) -> Iterator[OperatorVerdict]:
        new = self._by_hash.get(old.uid_hash or "")
        query = self._queries.get(old.uid_hash or "")
        if new is None:
            yield from self._without_operator(old, query)
            return
        if query is not None:
            new = query.applied_to(new)
        identifiers = {old.uid, old.uid_hash, old.name, new.uid, new.name}
        is_unchanged = (query is not None and query.is_same) or not self._target.unchanged.isdisjoint(identifiers)
        is_forst, api = self._target.backend == _FORST, _api(new)
        target = replace(
            self._target,
            is_unchanged=is_unchanged,
            migrates=not (is_forst and (old.asynchronous if api is None else api)),
            starts_asynchronous=is_forst and api is True and _changes_api(old, new),
            may_ignore_timers=self._target.backend in _KEEP_TIMERS
            and not is_unchanged
            and _is_native(old)
            and not _is_native(new),
        )
        if query is None and not is_unchanged and (combined := combined_states(old, new)):
            self._functions.append(f"{new.uid or old.label} ({', '.join(combined)})")
        verdicts = (*self._operator_verdicts(old, new, target), *_of_query(query, ""))
        whole = tuple(replace(verdict, repair=self._operator_repairs(verdict, old, new)) for verdict in verdicts)
        is_swapped = any((verdict.cause, verdict.outcome) == (Cause.OPERATORS_SWAPPED, Outcome.LOST) for verdict in whole)
        states = tuple(self._states(old, new, target, query, is_swapped=is_swapped))
        outcomes = [verdict.outcome for verdict in (*whole, *states) if verdict.outcome is not Outcome.NEW]
        worst = max(outcomes, key=lambda outcome_: outcome_.severity, default=Outcome.RESTORES)
        outcome = Outcome.RESTORES if worst is Outcome.UNUSED else worst
        decisive = [verdict for verdict in whole if verdict.outcome is outcome]
        reasons = "; ".join(verdict.reason for verdict in decisive)
        cause = decisive[0].cause if decisive else None
        repair = tuple(dict.fromkeys(chain.from_iterable(verdict.repair for verdict in whole)))
        yield OperatorVerdict(new.uid or old.label, old.uid_hash, outcome, reasons, repair, states, cause, whole)

    def _without_operator(self, old: OperatorSignature, query: QueryOperator | None) -> Iterator[OperatorVerdict]:
        """Yield the verdict for an operator that is not in the new job (Flink: ``Checkpoints.loadAndValidateCheckpoint``)."""
        if not old.has_state:
            return
        unnamed = [o.label for o in self._new.operators if o.uid_hash is None]
        if unnamed:
            reason = f"the new job has operators whose hash is unknown: {', '.join(unnamed)}; match_operators compares them"
            yield OperatorVerdict(old.label, old.uid_hash, Outcome.UNKNOWN, reason, cause=Cause.OPERATOR_MISSING)
            return
        reason = "not in the new job: Flink refuses to start or, with --allowNonRestoredState, drops the state of this operator"
        reason = "; ".join((reason, *(verdict.reason for verdict in _of_query(query, ""))))
        verdict = StateVerdict("", Outcome.LOST, reason, cause=Cause.OPERATOR_MISSING)
        repair = self._repairs.of(self._moved(Mismatch(verdict, old)))
        yield _operator_verdict(old.label, old.uid_hash, replace(verdict, repair=repair))

    def _operator_repairs(self, verdict: StateVerdict, old: OperatorSignature, new: OperatorSignature) -> tuple[str, ...]:
        partners = self._partners(old, new)
        return self._repairs.of(self._moved(Mismatch(verdict, old, new, partners=partners, contents=self._contents)))

    def _moved(self, mismatch: Mismatch) -> Mismatch:
        """Return a mismatch with the possible new ids of its operator."""
        if self._mapping is None:
            self._mapping = match_signatures(self._old, self._new).mapping
        moves = connected(self._mapping, mismatch.old.uid_hash or "")
        living = frozenset(operator.uid_hash for operator in self._old.operators if operator.has_state and operator.uid_hash)
        return replace(mismatch, takers=self._takers(mismatch.old), moves=moves, living=living)

    def _takers(self, old: OperatorSignature) -> list[OperatorSignature]:
        """Return the operators of the new job that can take all states of one, or states of these names.

        These are operators that the snapshot lacks. If none can take the states of an operator whose id is gone, another operator
        may have got the id of an operator that was removed.
        """
        takers = [new for new in self._added if takes_all(old, new)] or [new for new in self._added if has_names_of(old, new)]
        if takers or old.uid_hash in self._by_hash:
            return takers
        return [new for new in self._new.operators if new.uid is None and takes_all(old, new)]

    def _partners(self, old: OperatorSignature, new: OperatorSignature) -> list[OperatorSignature]:
        """Return the operators of the snapshot that may have exchanged their ids with another one."""
        partners = []
        for partner in self._old.operators:
            successor = self._by_hash.get(partner.uid_hash or "")
            if partner is not old and successor is not None and takes_all(old, successor) and takes_all(partner, new):
                partners.append(partner)
        return partners

    def _operator_verdicts(self, old: OperatorSignature, new: OperatorSignature, target: RestoringJob) -> Iterator[StateVerdict]:
        """Yield the verdicts on an operator as a whole, except for harmless ones."""
        yield from self._sizes(old, new)
        yield from self._format(old, new)
        if not old.has_state:
            return
        if new.states is None:
            self._notes["States of the new job are unknown: only the operators were compared"] = None
            yield StateVerdict("", Outcome.UNKNOWN, "the description of the new job does not contain states", cause=Cause.CODE)
        elif old.keyed and not new.keyed:
            text = "the operator of the new job registers no keyed state: Flink drops the keyed state of the snapshot silently"
            yield StateVerdict("", Outcome.LOST, text, cause=Cause.NOT_KEYED)
        yield from self._identity(old, new, target)
        yield from window_verdicts(old, new, is_unchanged=target.is_unchanged)
        yield from _writers(old, new, target)

    def _identity(self, old: OperatorSignature, new: OperatorSignature, target: RestoringJob) -> Iterator[StateVerdict]:
        """Yield the verdicts on operators that may have taken the id of another one, and on states that may have another name."""
        doubts = [] if target.is_unchanged else list(id_doubts(old, new, self._old.operators, self._new.operators))
        swapped = doubts and not shares_states(old, new) and any(takes_all(old, operator) for operator in self._new.operators)
        for doubt in doubts:
            is_null = swapped and not living_states(old).keys() & living_states(new).keys()
            text = f"the ids are equal, but {doubt}" + ("; Flink starts, and this state is null" if is_null else "")
            yield StateVerdict("", Outcome.LOST if swapped else Outcome.UNKNOWN, text, cause=Cause.OPERATORS_SWAPPED)
        if not target.is_unchanged:
            yield from self._unused(old, new, has_doubts=bool(doubts))

    def _unused(self, old: OperatorSignature, new: OperatorSignature, *, has_doubts: bool) -> Iterator[StateVerdict]:
        """Yield the verdicts on states that are not used, and that the new job may have in another place."""
        before, after = living_states(old), living_states(new)
        is_replaced = before and new.states is not None and not before.keys() & after.keys()
        if is_replaced and not has_doubts and (new.keyed or not old.keyed):
            text = f"it registers none of the states {', '.join(sorted(before))}: Flink starts, and nothing reads them"
            yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.STATE_UNUSED)
        added = sorted(after.keys() - before.keys())
        for name in sorted(before.keys() - after.keys()):
            like = [repr(added_name) for added_name in added if _is_like(before[name], after[added_name])]
            if like:
                text = f"{name!r} is not used, and {' or '.join(like)} is new, of the same type: a renamed state is empty"
                yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.STATE_RENAMED)

    def _new_places(self, state: StateSignature) -> list[str]:
        """Return the operators of the new job that register a state for the first time."""
        places: list[str] = []
        had = {uid_hash for uid_hash, old in self._old.by_hash.items() if state.name in living_states(old)}
        for operator in self._new.operators:
            registered = living_states(operator).get(state.name)
            if registered is not None and had.isdisjoint(operator.hashes) and _is_like(state, registered):
                places.append(operator.label)
        return places

    def _sizes(self, old: OperatorSignature, new: OperatorSignature) -> Iterator[StateVerdict]:
        """Yield verdicts on the parallelism (Flink: ``StateAssignmentOperation.checkParallelismPreconditions``)."""
        limit, size, new_limit = old.max_parallelism, new.parallelism, new.max_parallelism
        if limit is None:
            return
        if size is not None and size > limit:
            text = f"parallelism {size} is more than the max parallelism {limit} of the snapshot"
            yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.PARALLELISM)
        elif new_limit is not None and new_limit != limit:
            if size is not None and new_limit == default_max_parallelism(size):
                self._notes[
                    f"{new.label}: the max parallelism of the snapshot is {limit}, that of the new job {new_limit}, the default "
                    f"for parallelism {size}. Flink takes over {limit}, unless the job sets {new_limit} explicitly"
                ] = None
                return
            text = f"the new job sets max parallelism {new_limit}, the snapshot has {limit}"
            yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.MAX_PARALLELISM)

    def _format(self, old: OperatorSignature, new: OperatorSignature) -> Iterator[StateVerdict]:
        """Yield verdicts on the format of keyed state."""
        backend = self._target.backend
        if not old.keyed or old.backend is None:
            return
        formats = set(old.backend.split(", "))
        if backend is None:
            if formats != {_CANONICAL}:
                text = (
                    f"the keyed state has the format {old.backend}, which not every backend restores; name the backend of the job"
                )
                yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.FORMAT)
        elif not formats <= {*_RESTORED[backend]}:
            text = f"the keyed state has the format {old.backend}, which {backend} does not restore"
            yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.FORMAT)
        elif _changes_api(old, new) and (self._target.version is None or self._target.version < _FIRST_CHANGE_OF_API):
            api = "asynchronous" if old.asynchronous else "synchronous"
            since = ".".join(map(str, _FIRST_CHANGE_OF_API))
            text = f"the keyed state is of the {api} API, the new job uses the other API: Flink before {since} refuses this"
            yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.ASYNCHRONOUS)

    def _states(
        self,
        old: OperatorSignature,
        new: OperatorSignature,
        target: RestoringJob,
        query: QueryOperator | None,
        *,
        is_swapped: bool,
    ) -> Iterator[StateVerdict]:
        """Yield the verdicts on the states of an operator. Exchanged operators are repaired by exchanging them again."""
        before: Mapping[str, object] = old.states or {}
        for name, state in (old.states or {}).items():
            if new.states is None:
                text = "the description of the new job does not contain its states"
                yield StateVerdict(name, Outcome.UNKNOWN, text, cause=Cause.CODE)
                continue
            after = new.states.get(name)
            verdict = worst_of(name, [self._state(old, state, after, target), *_of_query(query, name)])
            mismatch = Mismatch(verdict, old, new, state, after, contents=self._contents)
            yield verdict if is_swapped else replace(verdict, repair=self._repairs.of(mismatch))
        for name in sorted((new.states or {}).keys() - before.keys()):
            yield StateVerdict(name, Outcome.NEW)

    def _state(
        self, operator: OperatorSignature, state: StateSignature, after: StateSignature | None, target: RestoringJob
    ) -> StateVerdict:
        """Return the verdict on a state, from its types and, where these do not decide, from its values."""
        verdict = state_verdict(state, after, target)
        if after is None:
            gone = sorted(set(class_names(state)) - self._classes - target.unchanged)
            if state.is_timer:
                count = self._contents.timer_count(operator, state.name)
                return _lost_timers(verdict, count, "the new job does not register this queue") if count else verdict
            if gone:
                text = f"{verdict.reason}. It needs {' and '.join(gone)} on the class path to start"
                return replace(verdict, outcome=Outcome.UNKNOWN, reason=text)
            places = [] if target.is_unchanged else self._new_places(state)
            if places:
                text = f"{verdict.reason}. It is new in {' and '.join(places)}: a state that moves there is empty"
                return replace(verdict, outcome=Outcome.UNKNOWN, reason=text)
            return verdict
        if state.is_timer and target.starts_asynchronous:
            count = self._contents.timer_count(operator, state.name)
            text = "ForSt keeps timers of asynchronous state in another place"
            return verdict if count == 0 else _lost_timers(verdict, count, text)
        if state.is_timer and target.may_ignore_timers and verdict.outcome is Outcome.RESTORES:
            count = self._contents.timer_count(operator, state.name)
            return (
                verdict
                if count == 0
                else replace(verdict, outcome=Outcome.UNKNOWN, reason=_ON_THE_HEAP, cause=Cause.TIMER_SERVICE)
            )
        if verdict.outcome.severity > Outcome.UNKNOWN.severity or state.unread or after.unread:
            return verdict
        return worst_of(state.name, [verdict, *self._contents.verdicts(operator, state, after, target)])


def _is_native(operator: OperatorSignature) -> bool:
    """Return whether the keyed state and the timers are in files of RocksDB or ForSt, as in native savepoints and checkpoints."""
    return not _KEEP_TIMERS.isdisjoint((operator.backend or "").split(", "))


def _api(new: OperatorSignature) -> bool | None:
    """Return whether a job uses the asynchronous API; ``None`` if its description does not show it. RocksDB's files do not."""
    return None if new.backend == _ROCKSDB else new.asynchronous


def _changes_api(old: OperatorSignature, new: OperatorSignature) -> bool:
    """Return whether one of two jobs uses the asynchronous API."""
    return old.asynchronous is not None and _api(new) is not None and old.asynchronous != _api(new)


def _lost_timers(verdict: StateVerdict, count: int | None, reason: str) -> StateVerdict:
    """Return the verdict on a queue of timers that do not fire, or may not if they were not counted."""
    outcome = Outcome.UNKNOWN if count is None else Outcome.LOST
    text = f"{reason}: its {'' if count is None else f'{count} '}timers never fire"
    return replace(verdict, outcome=outcome, reason=text, cause=verdict.cause or Cause.ASYNCHRONOUS)


def _of_query(query: QueryOperator | None, state: str) -> tuple[StateVerdict, ...]:
    return () if query is None else tuple(query.of_state(state))


def _is_like(state: StateSignature, candidate: StateSignature) -> bool:
    """Return whether two states have the same kind, and compatible types."""
    renamed = replace(state, name=candidate.name)
    pair = (OperatorSignature(states={renamed_or_new.name: renamed_or_new}) for renamed_or_new in (renamed, candidate))
    return state.kind == candidate.kind and not contradicts(*pair)


def _writers(old: OperatorSignature, new: OperatorSignature, target: RestoringJob) -> Iterator[StateVerdict]:
    """Yield a verdict on state that is only bytes, by the names of the connectors that wrote it."""
    if not old.writers or target.is_unchanged or new.states is None:
        return
    unknown, connectors = unknown_writers(old), set(map(connector_of, new.writers))
    if unknown or not new.writers:
        text = f"the code of the job alone can read this state: {', '.join(unknown or old.writers)}"
        hint = "" if unknown else "; the description of the new job does not name its connectors"
        yield StateVerdict("", Outcome.UNKNOWN, text + hint, cause=Cause.CODE)
        return
    texts = f"the state was written by {', '.join(old.writers)}; the new job has {', '.join(new.writers)}"
    formats = frozenset().union(*map(formats_of, new.writers))
    if not set(map(connector_of, old.writers)) <= connectors:
        yield StateVerdict("", Outcome.REFUSED, texts, cause=Cause.CODE)
    elif not all(formats_of(writer) <= formats for writer in old.writers):
        text = f"{texts}: another release of the connector, whose code decides"
        yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.CODE)
