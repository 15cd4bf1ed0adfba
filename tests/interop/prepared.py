"""What most tests with Flink need, before the first of them runs: its jars, our classes, archives of the classes that JVMs load.

``python -m tests.interop.prepared`` fetches and compiles; with ``archives``, it makes archives, too, which takes a minute or two.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.interop import class_archives, flink, sql_queries

ARCHIVED: Final = ("1.20.5", "2.3.0")
"""The versions that most tests use: an archive pays for itself by the fifth JVM."""
QUERIES: Final = (
    *("group-aggregate", "inner-join", "interval-join", "lag", "last-row", "match", "multi-join", "over", "sessions", "top"),
    *("tumbling", "two-phases"),
)


def archive() -> None:
    """Archive the classes of :data:`ARCHIVED`, with and without the jars for SQL, and delete other archives."""
    made = []
    for version in ARCHIVED:
        path = [flink.classes(version), *flink.jars(version)]
        made.append(class_archives.make(path, partial(restore, version)))
        made.append(class_archives.make([*path, *flink.sql_class_path(version)], partial(query, version)))
    for stale in set(class_archives.FOLDER.glob("[!.]*")) - set(made):
        shutil.rmtree(stale)


def restore(version: str, *, tables: bool = False) -> None:
    """Restore the fixtures that Flink does not look for where it wrote them."""
    requests = []
    for path in sorted((flink.ROOT / "tests" / "fixtures" / version).glob("*/expected.json")):
        expected = json.loads(path.read_text("utf-8"))
        if expected["format"] != "checkpoint":
            given = {"backend": expected["backend"], "max_parallelism": expected["max_parallelism"]}
            requests.append(flink.request(expected["operators"], path.parent / expected["snapshot_dir"], **given))
    flink.restore(version, requests, tables=tables)


def query(version: str) -> None:
    """Compile queries, run them, stop them, and go on with them; then restore fixtures with the same JVM."""
    with tempfile.TemporaryDirectory() as temporary:
        files = Path(temporary)
        sql_queries.write_lines(files, "1", sql_queries.FIRST)
        asked = [(sql_queries.QUERIES[name], files, files / f"{name}.json") for name in QUERIES]
        first = [sql_queries.request(*job, to=temporary) for job in asked]
        found = sql_queries.answered(version, first, sql_queries.AT_ONCE)
        sql_queries.write_lines(files, "2", sql_queries.MORE)
        given: dict[str, Any] = {"backend": "rocksdb", "to": temporary}
        again = [sql_queries.request(*job, origin=a["savepoint"], **given) for job, a in zip(asked, found, strict=True)]
        sql_queries.answered(version, again, sql_queries.AT_ONCE)
    restore(version, tables=True)


if __name__ == "__main__":
    for each in flink.VERSIONS:
        flink.table_classes(each)
    if sys.argv[1:] == ["archives"]:
        archive()
