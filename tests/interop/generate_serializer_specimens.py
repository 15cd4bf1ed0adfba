"""Rewrite the serializer specimens with real Flink: ``python -m tests.interop.generate_serializer_specimens``.

``serializers/`` has values of many classes that Kryo wrote. ``packed/serializers/`` has, for every serializer that Flink's
packages hold, its snapshot and a value, in the layout of Flink's own upgrade tests: MODULE/NAME-VERSION with
``serializer-snapshot`` and ``test-data``.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.archives import ARCHIVES, pack
from tests.interop import flink, flink_jars

SPECIMENS = flink_jars.ROOT / "tests" / "fixtures" / "serializers"
VERSIONS = ("1.20.5", "2.3.0")


def generate(version: str) -> Path:
    """Write the file of one Flink version, a case per line, and return its path."""
    target = SPECIMENS / f"kryo-{version}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        flink.run(version, "SerializerSpecimens", [output.name])
        cases = json.loads(Path(output.name).read_text("utf-8"))
    target.write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n", "utf-8")
    return target


def generate_snapshots(version: str) -> Path:
    """Write the archive of one Flink version, and print missing specimens."""
    archive = ARCHIVES / "serializers" / version / "specimens.tar.xz"
    class_path = [flink.table_classes(version), *flink_jars.libraries(version), *flink_jars.python_and_files(version)]
    with tempfile.TemporaryDirectory(prefix="specimens-") as output:
        print(flink.run(version, "SnapshotSpecimens", [output], class_path=class_path, timeout=1800), end="")
        pack(archive, list(Path(output).iterdir()))
    return archive


if __name__ == "__main__":
    for flink_version in flink_jars.VERSIONS:
        print(generate_snapshots(flink_version))
    for flink_version in VERSIONS:
        print(generate(flink_version))
