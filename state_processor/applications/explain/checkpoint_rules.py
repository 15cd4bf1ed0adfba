"""The rules about checkpoints and savepoints that were not completed: the reasons of ``CheckpointFailureReason``."""

from __future__ import annotations

from typing import Final

from state_processor.applications.explain.kinds import Kind
from state_processor.applications.explain.rule import rule

_COORDINATOR: Final = "runtime.checkpoint.CheckpointCoordinator"
_AGAIN: Final = "Take it again when all tasks run. The snapshot need not change."

CHECKPOINT_RULES: Final = (
    rule(
        Kind.CHECKPOINT,
        r"Checkpoint Coordinator is suspending|CheckpointCoordinator shutdown|Periodic checkpoint scheduler is shut down",
        _COORDINATOR,
        says="A checkpoint or savepoint was not completed ({what}): while it was taken, the job ended, was cancelled, stopped or "
        "failed, or its JobManager lost the leadership.",
        advice="If the job was cancelled or stopped, take the savepoint again and wait for it first, or stop once with a "
        "savepoint (flink stop). If it failed, look for the failure above. The snapshot need not change.",
        follows=True,
    ),
    rule(
        Kind.CHECKPOINT,
        r"FailoverRegion is restarting|The job has failed",
        _COORDINATOR,
        says="A checkpoint or savepoint was not completed ({what}): a task failed while it was taken.",
        advice="Look for the failure of the task in the log. The snapshot need not change.",
        follows=True,
    ),
    rule(
        Kind.CHECKPOINT,
        r"[Cc]heckpoint has been subsumed|barrier from newer checkpoint was received",
        _COORDINATOR,
        says="A checkpoint was dropped, because a later one overtook it ({what}).",
        advice="Nothing has to be done, unless no checkpoint is completed: a longer interval between checkpoints helps then.",
        follows=True,
    ),
    rule(
        Kind.CHECKPOINT,
        r"maximum number of queued checkpoint requests exceeded",
        _COORDINATOR,
        says="Flink refused a checkpoint or savepoint: too many of them wait to be taken.",
        advice="Ask for one savepoint at a time, and wait for it. The snapshot need not change.",
    ),
    rule(
        Kind.CHECKPOINT,
        r"Not all required tasks are currently running|declined \(task(?:s not ready| is closing)\)|"
        r"one input stream is finished|Unknown task for the checkpoint to notify",
        _COORDINATOR,
        says="A checkpoint or savepoint was not taken ({what}): a task did not run yet, or had ended.",
        advice=_AGAIN,
        wraps=True,
    ),
    rule(
        Kind.CHECKPOINT,
        r"Task received cancellation from one of its inputs|exception of other subtasks sharing the ChannelState file",
        _COORDINATOR,
        says="A checkpoint or savepoint was not completed ({what}): another task declined it.",
        advice="Look for the failure of the other task in the log. The snapshot need not change.",
        follows=True,
    ),
)
"""Rules, the specific ones first."""
