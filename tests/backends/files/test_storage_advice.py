"""Errors of storage name the way out."""

from __future__ import annotations

import pytest

from state_processor.backends.files.storage import Storage
from state_processor.backends.files.storage_advice import in_short
from state_processor.support.errors import StateProcessorError


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("abfss://c@account.dfs.core.windows.net/s", {}, r"no file system for abfss:// .*; install it: pip install adlfs$"),
        ("s4://bucket/s", {}, r"no file system for s4:// .*; did you mean s3://\?$"),
        ("nosuch://host/s", {}, "; known are local paths, .*schemes of installed fsspec packages$"),
        ("dbfs:/s", {}, "'instance' and 'token'.*; on Databricks pass /dbfs/"),
        ("hdfs://nowhere/s", {}, "cannot be reached: .*; set JAVA_HOME to a JDK, HADOOP_HOME to a Hadoop client"),
        ("s3:/bucket/s", {}, "; check the bucket: s3://BUCKET/PATH$"),
        (
            "s3://bucket/s",
            {"region": "eu", "acces_key": "k"},
            r"does not have a setting 'acces_key'; did you mean 'access_key'\?$",
        ),
        ("s3://bucket/s", {"region": "eu", "access_key": "k"}, "; set both in storage_options, or neither$"),
        ("s3://bucket/s", {"endpoint_override": "localhost:1", "anonymous": "true"}, "; check endpoint_override and region in "),
        ("gs://bucket/s", {"projet": "p"}, r"does not have a setting 'projet'; did you mean 'project_id'\?$"),
    ],
)
def test_storage_that_can_not_be_reached_comes_with_what_to_do(url, options, message, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StateProcessorError, match=message) as failure:
        Storage(options).is_file(url)
    assert len(str(failure.value)) < 400
    assert "\n" not in str(failure.value)


def test_long_errors_of_clients_are_shortened():
    assert in_short("Unable to load libjvm\ndlopen(/usr/lib/libjvm.so) failed\n") == "Unable to load libjvm"
    assert len(in_short("x" * 1000)) < 200
