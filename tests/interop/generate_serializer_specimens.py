"""Write tests/fixtures/serializers anew with real Flink: ``python tests/interop/generate_serializer_specimens.py``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import flink

SPECIMENS = flink.ROOT / "tests" / "fixtures" / "serializers"
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


if __name__ == "__main__":
    for flink_version in VERSIONS:
        print(generate(flink_version))
