"""The check of a snapshot against another job, operator by operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from os import PathLike, fspath
from typing import Final, Unpack

from state_processor.backends.state.key_groups import default_max_parallelism
from state_processor.job.advice import Advice
from state_processor.job.opening import signature_of
from state_processor.job.rules import Target, state_verdict
from state_processor.job.signature import JobSignature, OperatorSignature
from state_processor.job.verdicts import Cause, JobReport, OperatorVerdict, Outcome, StateVerdict
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import SnapshotOptions
from state_processor.options.keywords import takes_options
from state_processor.serializers.errors import OptionError
from state_processor.write.format_choice import BackendName

_BACKENDS: Final = ("hashmap", "rocksdb", "forst")
_FORST: Final = "forst"
_CANONICAL: Final = "canonical"
_RESTORED: Final = {
    "hashmap": ("heap", _CANONICAL),
    "rocksdb": ("rocksdb", _FORST, _CANONICAL),
    _FORST: (_FORST, "rocksdb"),
}
"""The formats of keyed state that each backend restores."""


@takes_options
def check_job(
    path: str | PathLike[str] | JobSignature,
    job: str | PathLike[str] | JobSignature,
    *,
    flink: str | None = None,
    backend: BackendName | None = None,
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
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    JobReport
        The outcome for each operator and state, with reason and repair. ``restores`` is true if nothing is refused or lost.

    Raises
    ------
    OptionError
        If the description of the job has another form, or the backend is unknown.
    """
    if backend is not None and backend not in _BACKENDS:
        raise OptionError(f"backend={backend!r}: expected one of {', '.join(_BACKENDS)}")
    access = SnapshotAccess.of(**options)
    old = path if isinstance(path, JobSignature) else signature_of(path, access)
    new = job if isinstance(job, JobSignature) else signature_of(job, replace(access, plan=None, uids=None))
    source = "IN" if isinstance(path, JobSignature) else fspath(path)
    return compare(old, new, Target(flink or new.flink, backend or new.backend), source)


def compare(old: JobSignature, new: JobSignature, target: Target, source: str = "IN") -> JobReport:
    """Predict the restore of the operators and states of a job in another job.

    Parameters
    ----------
    old, new
        The job that wrote the snapshot, and the job that restores it.
    target
        Version and backend of the job that restores.
    source
        The path of the snapshot, for commands.
    """
    return _Check(old, new, target, source).report()


class _Check:
    def __init__(self, old: JobSignature, new: JobSignature, target: Target, source: str) -> None:
        self._old, self._new, self._target = old, new, target
        self._advice = Advice(source, target)
        self._by_hash = {uid_hash: operator for operator in new.operators for uid_hash in operator.hashes}
        self._known = {o.uid_hash for o in old.operators}
        self._notes: dict[str, None] = {}

    def report(self) -> JobReport:
        found = [verdict for operator in self._old.operators for verdict in self._operator(operator)]
        fresh = [o for o in self._new.operators if not self._known.intersection(o.hashes) and o.uid_hash is not None]
        found += [OperatorVerdict(o.label, o.uid_hash, Outcome.NEW, "the snapshot does not have this operator") for o in fresh]
        self._note_version()
        return JobReport(tuple(found), tuple(self._notes))

    def _note_version(self) -> None:
        if self._target.version is None:
            self._notes["The Flink version of the new job is unknown: name it to check rules that differ between versions"] = None
        if self._old.flink == "1.x" and (self._target.version or (1, 0)) >= (2, 0):
            text = "The snapshot is of Flink 1.x and the job of 2.x: values that Kryo wrote need SavepointWriter.migrate"
            self._notes[text] = None

    def _operator(self, old: OperatorSignature) -> Iterator[OperatorVerdict]:
        new = self._by_hash.get(old.uid_hash or "")
        if new is None:
            yield from self._without_operator(old)
            return
        whole = list(self._whole(old, new))
        states = tuple(self._states(old, new))
        found = [*whole, *states]
        outcomes = [one.outcome for one in found if one.outcome is not Outcome.NEW]
        worst = max(outcomes, key=lambda one: one.severity, default=Outcome.RESTORES)
        outcome = Outcome.RESTORES if worst is Outcome.UNUSED else worst
        reasons = "; ".join(one.reason for one in whole if one.outcome is outcome)
        cause = next((one.cause for one in whole if one.outcome is outcome), None)
        repair = tuple(command for one in whole for command in self._advice.for_operator(one, old, new))
        yield OperatorVerdict(new.uid or old.label, old.uid_hash, outcome, reasons, repair, states, cause)

    def _without_operator(self, old: OperatorSignature) -> Iterator[OperatorVerdict]:
        """Yield the verdict for an operator that is not in the new job (Flink: ``Checkpoints.loadAndValidateCheckpoint``)."""
        if not old.has_state:
            return
        unnamed = [o.label for o in self._new.operators if o.uid_hash is None]
        if unnamed:
            reason = f"the new job has operators whose hash is unknown: {', '.join(unnamed)}; match_operators compares them"
            yield OperatorVerdict(old.label, old.uid_hash, Outcome.UNKNOWN, reason)
            return
        reason = "not in the new job: Flink refuses to start or, with --allowNonRestoredState, drops the state of this operator"
        takers = [new for new in self._new.operators if not self._known.intersection(new.hashes) and self._takes(old, new)]
        repair = tuple(self._advice.for_missing(old, takers))
        yield OperatorVerdict(old.label, old.uid_hash, Outcome.LOST, reason, repair, cause=Cause.OPERATOR_MISSING)

    def _takes(self, old: OperatorSignature, new: OperatorSignature) -> bool:
        """Return whether an operator registers all states of another, and can restore them."""
        if not old.states or not new.states or not old.states.keys() <= new.states.keys():
            return False
        verdicts = (state_verdict(s, new.states[name], self._target).outcome for name, s in old.states.items())
        return all(outcome in (Outcome.RESTORES, Outcome.MIGRATES) for outcome in verdicts)

    def _whole(self, old: OperatorSignature, new: OperatorSignature) -> Iterator[StateVerdict]:
        """Yield the verdicts on an operator as a whole, except for harmless ones."""
        yield from self._sizes(old, new)
        yield from self._format(old, new)
        if old.keyed and new.states is not None and not new.keyed:
            text = "the operator of the new job registers no keyed state: Flink drops the keyed state of the snapshot silently"
            yield StateVerdict("", Outcome.LOST, text, cause=Cause.NOT_KEYED)
        if new.states is None:
            self._notes["States of the new job are unknown: only the operators were compared"] = None

    def _sizes(self, old: OperatorSignature, new: OperatorSignature) -> Iterator[StateVerdict]:
        """Yield verdicts on the parallelism (Flink: ``StateAssignmentOperation.checkParallelismPreconditions``)."""
        limit, size, wanted = old.max_parallelism, new.parallelism, new.max_parallelism
        if limit is None:
            return
        if size is not None and size > limit:
            text = f"parallelism {size} is more than the max parallelism {limit} of the snapshot"
            yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.PARALLELISM)
        elif wanted is not None and wanted != limit:
            if size is not None and wanted == default_max_parallelism(size):
                self._notes[
                    f"{new.label}: the max parallelism of the snapshot is {limit}, that of the new job {wanted}, the default for "
                    f"parallelism {size}. Flink takes over {limit}, unless the job sets {wanted} explicitly"
                ] = None
                return
            text = f"the new job sets max parallelism {wanted}, the snapshot has {limit}"
            yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.MAX_PARALLELISM)

    def _format(self, old: OperatorSignature, new: OperatorSignature) -> Iterator[StateVerdict]:
        """Yield verdicts on the format of keyed state."""
        backend = self._target.backend
        if backend is None or not old.keyed or old.backend is None:
            return
        if not set(old.backend.split(", ")) <= {*_RESTORED[backend]}:
            text = f"the keyed state has the format {old.backend}, which {backend} does not restore"
            yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.FORMAT)
        elif old.asynchronous is not None and new.asynchronous is not None and old.asynchronous != new.asynchronous:
            api = "asynchronous" if old.asynchronous else "synchronous"
            text = f"the keyed state is of the {api} API, the new job uses the other API"
            yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.ASYNCHRONOUS)

    def _states(self, old: OperatorSignature, new: OperatorSignature) -> Iterator[StateVerdict]:
        before: Mapping[str, object] = old.states or {}
        for name, state in (old.states or {}).items():
            if new.states is None:
                yield StateVerdict(name, Outcome.UNKNOWN, "the description of the new job does not contain its states")
                continue
            verdict = state_verdict(state, new.states.get(name), self._target)
            repair = self._advice.for_state(verdict, old, state, new.states.get(name))
            yield replace(verdict, repair=tuple(repair))
        for name in sorted((new.states or {}).keys() - before.keys()):
            yield StateVerdict(name, Outcome.NEW)
