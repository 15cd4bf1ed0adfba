"""The way of a snapshot from one managed service to another through a bucket: looked at, repaired, proved, and copied."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import boto3
import pytest

import state_processor as sp
from state_processor import cli
from state_processor.types.identifier import OperatorIdentifier
from tests.object_stores import S3Server
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values

pytestmark = pytest.mark.slow
BUCKETS: Final = ("exported", "imported")


class Buckets:
    """The bucket that a service exports into, and the bucket that another one imports from."""

    def __init__(self, endpoint: str) -> None:
        self._query = f"?endpoint_override={endpoint}&scheme=http&region=us-east-1&access_key=k&secret_key=s"
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
        self._client = boto3.client("s3", endpoint_url=f"http://{endpoint}", region_name="us-east-1", **keys)
        for bucket in BUCKETS:
            self._client.create_bucket(Bucket=bucket)

    def url(self, bucket: str, prefix: str) -> str:
        return f"s3://{bucket}/{prefix}{self._query}"

    def put(self, directory: str, prefix: str) -> None:
        for path in Path(directory).iterdir():
            self._client.put_object(Bucket=BUCKETS[0], Key=f"{prefix}/{path.name}", Body=path.read_bytes())

    def hand_over(self, prefix: str, target: str) -> None:
        """Copy a directory into the other bucket, and delete it in the first one."""
        for content in self._client.list_objects_v2(Bucket=BUCKETS[0], Prefix=f"{prefix}/")["Contents"]:
            key = content["Key"]
            source = {"Bucket": BUCKETS[0], "Key": key}
            self._client.copy_object(Bucket=BUCKETS[1], Key=f"{target}/{key.rpartition('/')[2]}", CopySource=source)
            self._client.delete_object(**source)


@pytest.fixture
def buckets() -> Iterator[Buckets]:
    server = S3Server()
    server.start()
    yield Buckets(":".join(map(str, server.get_host_and_port())))
    server.stop()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def command(*arguments: str) -> tuple[int, str]:
        code = cli.main(list(arguments))
        return code, capsys.readouterr().out

    return command


def test_a_savepoint_goes_to_another_service(buckets: Buckets, run: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    buckets.put(ORDERS_PATH, "app/snapshot-1")
    exported, repaired = buckets.url("exported", "app/snapshot-1"), buckets.url("exported", "app/repaired")

    code, text = run("inspect", exported, "--json")
    assert code == 0
    operators = [json.loads(line) for line in text.splitlines()]
    assert {row["operator_uid"] for row in operators} >= {"orders", "catalog"}

    job: dict[str, Any] = json.loads(str(sp.signature(exported)))
    operator = next(row for row in job["operators"] if row.get("uid") == "orders")
    operator |= {"uid": "purchases", "uid_hash": OperatorIdentifier.of("purchases").uid_hash}
    description = tmp_path / "job.json"
    description.write_text(json.dumps(job))
    assert run("check", exported, "--job", str(description), "--flink", "2.3")[0] == 1
    assert run("rename-uid", exported, repaired, "--from", "orders", "--to", "purchases")[0] == 0
    assert run("check", repaired, "--job", str(description), "--flink", "2.3")[0] == 0

    code, text = run("validate", repaired, "--values", "--self-contained")
    assert code == 0
    assert "it can be copied to other storage" in text
    buckets.hand_over("app/repaired", "other/state")
    imported = buckets.url("imported", "other/state")
    assert run("validate", imported, "--values", "--self-contained")[0] == 0
    totals = sp.arrow.read_state(imported, "purchases", "total").read_all().to_pylist()
    assert {row["key"]: row["value"] for row in totals} == expected_values(ORDERS, "orders", "total")
