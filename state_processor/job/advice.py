"""Commands that change a savepoint so that a job restores it, by the cause of a verdict."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from state_processor.backends.state.key_groups import default_max_parallelism
from state_processor.job.rules import Target
from state_processor.job.signature import OperatorSignature, StateSignature
from state_processor.job.verdicts import Cause, Outcome, StateVerdict

_FORST = "forst"


class Advice:
    """The commands for a snapshot: commands that keep the values come first. A comment names what a command loses.

    Parameters
    ----------
    source
        The path of the snapshot.
    target
        Version and backend of the job that restores.
    job
        The path of the description of this job.
    """

    def __init__(self, source: str, target: Target, job: str = "NEW") -> None:
        self._source, self._target, self._job = shlex.quote(source), target, job

    def _command(self, name: str, *arguments: str) -> str:
        return " ".join(["state-processor", name, self._source, "OUT", *map(shlex.quote, arguments)])

    def for_snapshot(self, verdict: StateVerdict) -> Iterator[str]:
        """Yield the commands for a verdict on the snapshot as a whole."""
        if verdict.cause is Cause.MOVED:
            yield self._command("copy")
        elif verdict.cause is Cause.CLAIMED:
            yield self._command("copy", "--allow", "claimed")

    def for_missing(self, old: OperatorSignature, takers: Sequence[OperatorSignature]) -> Iterator[str]:
        """Yield the commands for an operator that the new job lacks; ``takers`` are the operators that can take its states."""
        identifier = old.uid or old.uid_hash or ""
        new = (takers[0].uid or takers[0].uid_hash) if len(takers) == 1 else None
        if new is not None:
            yield self._command("rename-uid", "--from", identifier, "--to", new)
        yield self._command("drop-state", "--uid", identifier) + "  # loses all state of the operator"

    def for_operator(self, verdict: StateVerdict, old: OperatorSignature, new: OperatorSignature) -> Iterator[str]:
        """Yield the commands for a verdict on an operator as a whole."""
        if verdict.cause in (Cause.PARALLELISM, Cause.MAX_PARALLELISM):
            size = new.max_parallelism or default_max_parallelism(new.parallelism or 1)
            yield self._command("set-max-parallelism", str(size))
        elif verdict.cause is Cause.FORMAT:
            way = ["--format", "native", "--backend", _FORST] if self._target.backend == _FORST else ["--format", "canonical"]
            yield self._command("convert", *way)
        elif verdict.cause is Cause.ASYNCHRONOUS:
            flag = "--async-state" if new.asynchronous else "--sync-state"
            way = ["--format", "native", "--backend", _FORST, flag, old.uid or old.uid_hash or ""]
            yield self._command("convert", *way)

    def for_state(
        self, verdict: StateVerdict, operator: OperatorSignature, old: StateSignature, new: StateSignature | None
    ) -> Iterator[str]:
        """Yield the commands for the verdict on a state; ``new`` is the state with its name in the new job."""
        if verdict.outcome not in (Outcome.LOST, Outcome.REFUSED) or old.is_timer:
            return
        place = ("--uid", operator.uid or operator.uid_hash or "", "--state", old.name)
        if new is not None and verdict.cause is Cause.TIME_TO_LIVE and old.ttl != new.ttl:
            yield self._command("with-ttl", *place, *(() if new.ttl else ("--off",)))
        if new is not None and verdict.cause is Cause.TYPE and _is_convertible(old, new):
            command = self._command("convert-state", *place, "--job", self._job)
            yield f"{command}  # keeps all values, or refuses a value that does not fit"
        yield self._command("drop-state", *place) + "  # loses all values of the state"


def _is_convertible(old: StateSignature, new: StateSignature) -> bool:
    from state_processor.job.converting import is_convertible  # it imports what writes

    return is_convertible(old, new)
