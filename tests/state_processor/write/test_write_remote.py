"""Writes to an object store with Spark, from a base there: results are read back, and failures leave nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import boto3
import pytest

import state_processor as sp
from state_processor.backends.write.staging import Staging
from tests.object_stores import S3Server
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

BUCKET: Final = "written"
pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Store:
    """An S3 server. URLs contain its endpoint, because Spark's workers have their own environment."""

    def __init__(self, endpoint: str) -> None:
        self._query = f"?endpoint_override={endpoint}&scheme=http&region=us-east-1&access_key=k&secret_key=s"
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
        self.client = boto3.client("s3", endpoint_url=f"http://{endpoint}", region_name="us-east-1", **keys)
        self.client.create_bucket(Bucket=BUCKET)

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}{self._query}"

    def names(self, prefix: str) -> set[str]:
        """Objects in a directory; a name that ends with a slash is the directory itself."""
        listed = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/").get("Contents", [])
        return {o["Key"].removeprefix(f"{prefix}/") for o in listed if not o["Key"].endswith("/")}

    def etags(self, prefix: str) -> dict[str, str]:
        listed = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/")["Contents"]
        return {o["Key"]: o["ETag"] for o in listed if not o["Key"].endswith("/")}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A store with a base in it, which nothing changes."""
    server = S3Server()
    server.start()
    found = Store(":".join(map(str, server.get_host_and_port())))
    for path in Path(ORDERS_PATH).iterdir():
        found.client.put_object(Bucket=BUCKET, Key=f"base/{path.name}", Body=path.read_bytes())
    before = found.etags("base")
    yield found
    assert found.etags("base") == before
    server.stop()


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 1000, 1, 3).selectExpr("concat('new-', id) AS key", "id AS value")


def sink(df: DataFrame, store: Store) -> DataFrameWriter:
    return df.write.format("flink-savepoint").option("uid", "orders").option("state", "total").option("base", store.url("base"))


def check_complete(store: Store, prefix: str) -> None:
    url = store.url(prefix)
    found: dict[str, Any] = {r["key"]: r["value"] for b in sp.arrow.read_state(url, "orders", "total") for r in b.to_pylist()}
    assert found == expected_values(ORDERS, "orders", "total") | {f"new-{i}": i for i in range(1000)}
    referenced = {h["path"] for h in sp.arrow.handles(url).to_pylist() if not h["inline"]}
    assert store.names(prefix) == {"_metadata"} | referenced


def test_writer(spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = sp.SavepointWriter.from_existing(spark, store.url("base"))
    writer.update_keyed_state("orders", "total", rows(spark))
    bad = sp.SavepointWriter.from_existing(spark, store.url("base"))
    bad.update_keyed_state("orders", "total", rows(spark).unionAll(rows(spark)))
    with pytest.raises(sp.InvalidRowError, match=r"key 'new-\d+' occurs more than once"):
        bad.write(store.url("one"))
    assert store.names("one") == set()
    writer.write(store.url("one"))
    check_complete(store, "one")
    with pytest.raises(sp.OptionError, match="holds a savepoint already"):
        writer.write(store.url("one"))
    before = store.etags("one")

    def fail(*_: object) -> None:
        raise sp.WriteError("the connection is lost")

    with monkeypatch.context() as patch:
        patch.setattr(Staging, "_put_metadata", fail)
        with pytest.raises(sp.WriteError, match="the connection is lost"):
            writer.write(store.url("one"), overwrite=True)
    assert store.etags("one") == before
    writer.write(store.url("one"), overwrite=True)
    check_complete(store, "one")


def test_data_source(spark: SparkSession, store: Store) -> None:
    sp.register(spark)
    with pytest.raises(Exception, match=r"key 'new-\d+' occurs more than once"):
        sink(rows(spark).unionAll(rows(spark)), store).mode("append").save(store.url("two"))
    with pytest.raises(Exception, match="null; a key can't be"):
        sink(rows(spark).selectExpr("if(value = 700, NULL, key) AS key", "value"), store).mode("append").save(store.url("two"))
    assert store.names("two") == set()
    sink(rows(spark), store).mode("append").save(store.url("two"))
    check_complete(store, "two")
    with pytest.raises(Exception, match="holds a savepoint already"):
        sink(rows(spark), store).mode("append").save(store.url("two"))
    sink(rows(spark), store).mode("overwrite").save(store.url("two"))
    check_complete(store, "two")
