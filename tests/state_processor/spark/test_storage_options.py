"""Settings of remote storage: where they are given, in tasks too, and nowhere to be seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyspark.sql import DataFrame, SparkSession

import state_processor as sp
from state_processor import cli
from state_processor.options.access import SnapshotAccess
from state_processor.spark.sessions import settings_of_spark
from tests.corpus import FIXTURES
from tests.object_stores import S3Server

CANONICAL = FIXTURES / "2.3.0" / "orders-hashmap-canonical" / "savepoint"
URL = "s3a://states/s"
KEYS = {"access_key": "AKIAREADER", "secret_key": "hunter2/hunter2", "region": "us-east-1"}
SECRETS = (KEYS["access_key"], KEYS["secret_key"])


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The URL of an S3 store with a savepoint; the environment does not contain the store."""
    server = S3Server()
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any")
    client.create_bucket(Bucket="states")
    client.create_bucket(Bucket="my.logs")
    for path in CANONICAL.iterdir():
        client.put_object(Bucket="states", Key=f"s/{path.name}", Body=path.read_bytes())
    yield url
    server.stop()


@pytest.fixture
def options(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return {"endpoint_override": endpoint, **KEYS}


@pytest.fixture
def session(spark: SparkSession, endpoint: str) -> SparkSession:
    """A session with Hadoop's configuration of the store."""
    settings = {"endpoint": endpoint, "access.key": KEYS["access_key"], "secret.key": KEYS["secret_key"]}
    session = spark.newSession()
    for name, value in (settings | {"endpoint.region": "us-east-1", "path.style.access": "true"}).items():
        session.conf.set(f"spark.hadoop.fs.s3a.{name}", value)
    return session


def seen(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    for mode in ("formatted", "extended"):
        frame.explain(mode=mode)
    return capsys.readouterr().out


@pytest.mark.spark
def test_reader_and_writer(spark: SparkSession, options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    reader = sp.SavepointReader.read(spark, URL, storage_options=options)
    totals = reader.read_keyed_state("orders", "total")
    assert totals.count() == 50
    writer = sp.SavepointWriter.from_existing(spark, URL, storage_options=options)
    writer.update_keyed_state("orders", "total", totals.where("key = 'amelia'").selectExpr("key", "value + 1 AS value"))
    summary = writer.write("s3://states/new", overwrite=True)
    changed = next(sp.arrow.read_state("s3://states/new", "orders", "total", keys=["amelia"], storage_options=options))
    assert changed.to_pylist() == [{"key": "amelia", "value": 3951}]
    with pytest.raises(sp.StateProcessorError) as failure:
        sp.SavepointReader.read(spark, URL, storage_options=options | {"secret": "hunter2/hunter2"})
    shown = [repr(reader), repr(writer), repr(summary), seen(totals, capsys), str(failure.value)]
    assert "does not have a setting" in shown[-1]
    assert not [text for text in shown for secret in SECRETS if secret in text]


@pytest.mark.spark
def test_data_source(spark: SparkSession, options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    sp.register(spark)
    given = {f"storage.{name}": value for name, value in options.items()}
    frame = spark.read.format("flink-savepoint").options(uid="orders", state="total", **given).load(URL)
    assert frame.count() == 50
    assert spark.read.format("flink-savepoint-metadata").options(**given).load(URL).count() == 5
    sink = frame.write.format("flink-savepoint").options(uid="sums", state="sum", **given).mode("append")
    sink.save("s3://states/sink")
    assert sp.SavepointReader.read(spark, "s3://states/sink", storage_options=options).read_keyed_state("sums").count() == 50
    shown = seen(frame, capsys)
    assert not [secret for secret in SECRETS if secret in shown]


@pytest.mark.spark
def test_the_configuration_of_spark(session: SparkSession, options: dict[str, Any], endpoint: str) -> None:
    assert settings_of_spark(session) == options | {"scheme": "http", "force_virtual_addressing": False}
    assert sp.SavepointReader.read(session, URL).read_keyed_state("orders", "total").count() == 50
    sp.register(session)
    assert session.read.format("flink-savepoint").options(uid="orders", state="total").load(URL).count() == 50
    writer = sp.SavepointWriter.new(session, 128)
    writer.with_keyed_state("op", session.range(3).selectExpr("id AS key", "id AS n")).write("s3://states/of-spark")
    assert sp.SavepointReader.read(session, "s3n://states/of-spark").read_keyed_state("op").count() == 3
    with pytest.raises(sp.StateProcessorError):  # settings of one's own are all there are
        sp.SavepointReader.read(session, URL, storage_options={"endpoint_override": endpoint, "access_key": "only"})


@pytest.mark.spark
def test_buckets_with_settings_of_their_own(
    session: SparkSession, options: dict[str, Any], endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for S3A of Hadoop they have precedence, one by one: all other buckets are in a store that does not answer."""
    host = endpoint.removeprefix("http://")
    of_logs = {"endpoint": host, "connection.ssl.enabled": "false", "secret.key": "hunter3", "session.token": "hunter4"}
    changes = {"endpoint": "https://127.0.0.1:9", "bucket.states.endpoint": endpoint, "bucket.my.path.style.access": "false"}
    for name, value in (changes | {f"bucket.my.logs.{name}": value for name, value in of_logs.items()}).items():
        session.conf.set(f"spark.hadoop.fs.s3a.{name}", value)
    found = settings_of_spark(session)
    own = {"endpoint_override": host, "scheme": "http", "secret_key": "hunter3", "session_token": "hunter4"}
    own |= {"access_key": KEYS["access_key"], "region": "us-east-1", "force_virtual_addressing": False}
    assert {name.removeprefix("bucket.my.logs."): value for name, value in found.items() if ".my.logs." in name} == own
    assert (found["bucket.my.endpoint_override"], found["bucket.my.scheme"]) == ("https://127.0.0.1:9", "https")

    totals = sp.SavepointReader.read(session, URL).read_keyed_state("orders", "total")
    writer = sp.SavepointWriter.from_existing(session, URL)
    writer.update_keyed_state("orders", "total", totals.where("key = 'amelia'").selectExpr("key", "value + 1 AS value"))
    new = "s3a://my.logs/new"
    writer.write(new, overwrite=True)
    reader = sp.SavepointReader.read(session, new)
    changed = reader.read_keyed_state("orders", "total", keys=["amelia"])
    assert changed.first().value == 3951
    sp.register(session)
    named = session.read.format("flink-savepoint").options(uid="orders", state="total").load(new)
    assert named.count() == 50

    given = {"endpoint_override": "https://127.0.0.1:9"} | {f"bucket.my.logs.{name}": value for name, value in own.items()}
    assert sp.arrow.operators(new, storage_options=given).num_rows == 5
    with pytest.raises(sp.OptionError, match="does not have a setting") as failure:
        sp.arrow.operators(new, storage_options=given | {"bucket.my.logs.sekret": "hunter3"})
    frames = [seen(frame, capsys) for frame in (changed, named)]
    shown = [*frames, repr(reader), repr(writer), repr(SnapshotAccess(storage_options=found)), str(failure.value)]
    assert not [text for text in shown if "hunter" in text or KEYS["access_key"] in text]


def test_command_line(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    flags = [part for name, value in options.items() for part in ("--storage", f"{name}={value}")]
    assert cli.main(["show", URL, "--uid", "orders", "--state", "total", "--key", "amelia", "--json", *flags]) == 0
    assert '"value": 3950' in capsys.readouterr().out
    assert cli.main(["list", "s3://states", "--check", *flags]) == 0
    assert "true" in capsys.readouterr().out
    assert cli.main(["show", URL, "--uid", "orders", "--storage", "hunter2"]) == 2
    error = capsys.readouterr().err
    assert "--storage: expected KEY=VALUE" in error
    assert "hunter2" not in error


def test_copies_between_storages(options: dict[str, Any], tmp_path: Path) -> None:
    flags = [part for name, value in options.items() for part in ("--storage", f"{name}={value}")]
    local, remote = str(tmp_path / "savepoint"), "s3://states/copied"
    assert cli.main(["copy", URL, local, *flags]) == 0
    assert cli.main(["copy", local, remote, "--overwrite", *flags]) == 0
    for path in (local, remote):
        found = sp.arrow.diff_summary(str(CANONICAL), path, storage_options=options).to_pylist()
        assert len(found) == 10
        assert not [row for row in found if row["inserts"] or row["deletes"] or row["updates"]]


def test_settings_are_not_shown(options: dict[str, Any]) -> None:
    access = SnapshotAccess.of(storage_options=options)
    assert not [secret for secret in SECRETS if secret in repr(access)]
    with pytest.raises(sp.OptionError, match=r"^storage_options: expected settings such as") as failure:
        SnapshotAccess.of(storage_options="hunter2")  # type: ignore[typeddict-item]
    assert "hunter2" not in str(failure.value)


def test_settings_of_fsspec() -> None:
    with pytest.raises(sp.OptionError, match=r"dbfs:///x.*: settings of its file system are missing") as failure:
        sp.arrow.operators("dbfs:/x", storage_options={"instance": "adb.example"})
    assert "adb.example" not in str(failure.value)
    with pytest.raises(sp.StateProcessorError):
        sp.arrow.operators("memory://nowhere", storage_options={"skip_instance_cache": True})
