"""What the log says of checkpoints and savepoints that were not completed."""

from __future__ import annotations

import pytest

import state_processor as sp
from state_processor.applications.explain.kinds import Certainty, Kind


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Checkpoint Coordinator is suspending.", "the job ended, was cancelled, stopped or failed"),
        ("CheckpointCoordinator shutdown.", "the job ended, was cancelled, stopped or failed"),
        ("Periodic checkpoint scheduler is shut down.", "the job ended, was cancelled, stopped or failed"),
        ("FailoverRegion is restarting.", "a task failed while it was taken"),
        ("Checkpoint has been subsumed.", "a later one overtook it"),
        ("The maximum number of queued checkpoint requests exceeded", "too many of them wait"),
        ("Checkpoint was declined (tasks not ready)", "did not run yet, or had ended"),
        ("Checkpoint was declined (task is closing)", "did not run yet, or had ended"),
        ("Task received cancellation from one of its inputs", "another task declined it"),
    ],
)
def test_reasons(reason: str, words: str) -> None:
    error = f"org.apache.flink.runtime.checkpoint.CheckpointException: {reason}\n\tat a.B.c(B.java:1)\n"
    (cause,) = sp.explain(error=error).causes
    assert (cause.kind, cause.certainty) == (Kind.CHECKPOINT, Certainty.LIKELY)
    assert words in cause.sentence
