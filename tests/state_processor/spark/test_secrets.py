"""Credentials in the URL of a snapshot appear in no plan and no message."""

from __future__ import annotations

import boto3
import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from tests.corpus import FIXTURES
from tests.object_stores import S3Server

CANONICAL = FIXTURES / "2.3.0" / "orders-hashmap-canonical" / "savepoint"


def test_plans_and_errors_show_no_credentials(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = S3Server()
    server.start()
    try:
        host, port = server.get_host_and_port()
        client = boto3.client(
            "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
            aws_access_key_id="AKIAREADER", aws_secret_access_key="hunter2",
        )  # fmt: skip
        client.create_bucket(Bucket="states")
        for path in CANONICAL.iterdir():
            client.put_object(Bucket="states", Key=f"s/{path.name}", Body=path.read_bytes())
        settings = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1&session_token=hunter2"
        url = f"s3://AKIAREADER:hunter2@states/s?{settings}"
        reader = sp.SavepointReader.read(spark, url)
        shown = [repr(reader)]
        for frame in (
            reader.read_keyed_state("orders", "total"),
            spark.read.format("flink-savepoint").option("uid", "orders").option("state", "total").load(url),
        ):
            for mode in ("formatted", "extended"):
                frame.explain(mode=mode)
            shown.append(capsys.readouterr().out)
        for state in ("nope", "total"):
            with pytest.raises(sp.StateProcessorError) as failure:
                sp.SavepointReader.read(spark, f"{url}&nothing=1" if state == "total" else url).read_keyed_state("orders", state)
            shown.append(f"{failure.value} {failure.value!r}")
    finally:
        server.stop()
    assert "states/s" in shown[0]
    assert "Flink state" in shown[1]
    assert "flink-savepoint" in shown[2]
    assert not [text for text in shown if "hunter2" in text or "AKIAREADER" in text]
