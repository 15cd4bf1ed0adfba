"""Symptoms: the kinds that words of users suggest, and what a snapshot contradicts."""

from __future__ import annotations

from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.applications.explain.symptoms import suggested_kinds
from tests.state_processor.applications.explain.test_explaining import written
from tests.state_processor.samples import ORDERS_PATH

T = sp.Types


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("the state is empty after the restore", Kind.UNMAPPED_OPERATOR),
        ("all counters start from zero again", Kind.UNMAPPED_OPERATOR),
        ("the checkpoint size grows every day", Kind.STATE_GROWS),
        ("state keeps growing", Kind.STATE_GROWS),
        ("one subtask has most of the state", Kind.SKEW),
        ("the job reads old offsets again", Kind.UNMAPPED_OPERATOR),
        ("windows never fire after the upgrade", Kind.WINDOW_TYPE),
        ("field amount is null", Kind.FIELD_RENAMED),
        ("values of A and B are exchanged", Kind.OPERATORS_SWAPPED),
        ("expired values came back", Kind.TTL),
        ("duplicates in the output topic", Kind.TRANSACTION),
        ("checkpoints time out since yesterday", Kind.CHECKPOINT),
        ("the pod is OOMKilled", Kind.MEMORY),
        ("the job is stuck in SCHEDULED", Kind.RESOURCES),
    ],
)
def test_words_suggest_kinds(words: str, kind: Kind) -> None:
    assert suggested_kinds(words)[0] is kind
    causes = sp.explain(symptom=words).causes
    assert causes[0].kind is kind
    assert {cause.certainty for cause in causes} == {Certainty.POSSIBLE}


def test_the_snapshot_contradicts_kinds() -> None:
    kinds = [cause.kind for cause in sp.explain(ORDERS_PATH, symptom="windows never fire").causes]
    assert Kind.WINDOW_TYPE not in kinds
    kinds = [cause.kind for cause in sp.explain(ORDERS_PATH, job=ORDERS_PATH, symptom="the state is lost").causes]
    assert Kind.UNMAPPED_OPERATOR not in kinds


def test_states_without_time_to_live_are_named(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    cause = sp.explain(old, symptom="the state grows forever").causes[0]
    assert cause.kind is Kind.STATE_GROWS
    assert cause.evidence == ("keyed states without time-to-live: 'total'",)


def test_a_mismatch_comes_before_what_words_suggest(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.POJO("a.Total", {"amount": T.INT()})), {"amount": 5})
    job = written(tmp_path / "new", sp.ValueState(T.POJO("a.Total", {"sum": T.INT()})), {"sum": 5})
    (cause,) = sp.explain(old, job=job, symptom="the new field is null everywhere").causes
    assert (cause.kind, cause.certainty) == (Kind.FIELD_RENAMED, Certainty.CONFIRMED)


def test_words_without_a_meaning() -> None:
    assert suggested_kinds("hello") == ()
    assert sp.explain(symptom="hello").causes == ()
