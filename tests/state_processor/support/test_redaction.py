"""Secrets of URLs appear in no message and no repr."""

from __future__ import annotations

import pickle

import pytest

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.write.staging import Staging
from state_processor.support import errors
from state_processor.support.redaction import redacted
from state_processor.write.plan.reports import WriteSummary


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/x", "s3://bucket/x"),
        ("s3://AKIA:secret@bucket/x", "s3://***@bucket/x"),
        ("s3a://AKIA:sec/r+et@bucket/x", "s3a://***@bucket/x"),
        ("s3://AKIA@bucket/x", "s3://***@bucket/x"),
        (
            "s3://b/x?access_key=A&secret_key=S&region=eu&endpoint_override=h:1",
            "s3://b/x?access_key=***&secret_key=***&region=eu&endpoint_override=h:1",
        ),
        ("https://host/x?sv=1&sig=abc#t=1", "https://host/x?sv=***&sig=***#t=***"),
        ("abfss://container@account/x?sig=abc", "abfss://container@account/x?sig=***"),
        ("hdfs://name:8020/a@b", "hdfs://name:8020/a@b"),
        ("hdfs://me@name:8020/a", "hdfs://***@name:8020/a"),
        ("file:///a?b=c@d", "file:///a?b=c@d"),
        ("/a/b@c?d=e", "/a/b@c?d=e"),
        ("in 's3://K:S@b/x', and s3://b/y?secret_key=S.", "in 's3://***@b/x', and s3://b/y?secret_key=***"),
        ("S3://K:S@b", "S3://***@b"),
    ],
)
def test_what_of_a_url_is_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown
    assert redacted(shown) == shown


ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.StateProcessorError)]
URL = "memory://AKIA:hunter2@nowhere/x?secret_key=hunter2"


@pytest.mark.parametrize("kind", ALL)
def test_no_error_shows_them(kind: type[errors.StateProcessorError]) -> None:
    for error in (kind(f"{URL} does not exist"), pickle.loads(pickle.dumps(kind(URL)))):
        assert "hunter2" not in f"{error} {error!r} {error.args}"
        assert "***@nowhere/x" in str(error)


def test_messages_can_be_printed() -> None:
    assert str(errors.CorruptSnapshotError("name \ud800")) == "name \\ud800"


def test_nothing_shows_them() -> None:
    shown = [
        Staging(URL, "token"),
        Location.parse(URL),
        h.FileStateHandle(1, URL),
        h.SegmentFileStateHandle(1, 1, 0, URL, "x"),
        WriteSummary(URL, 1, ()),
    ]
    for value in shown:
        assert "hunter2" not in repr(value)
        assert "nowhere" in repr(value)


def test_failures_of_storage_do_not_show_them() -> None:
    for call in (Storage().read_all, Storage().list, Storage().size, open_snapshot):
        with pytest.raises(errors.StateProcessorError) as failure:
            call("nosuch" + URL)  # type: ignore[operator]
        assert "hunter2" not in f"{failure.value} {failure.value.__cause__}"
