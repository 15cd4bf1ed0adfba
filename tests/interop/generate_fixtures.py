"""Write tests/fixtures anew with real Flink: ``python tests/interop/generate_fixtures.py [CASE ...]``.

``baskets`` is what Flink 1.x writes and Flink 2.x does not restore, in a folder of its own: ``migration``.

Every fixture holds ``savepoint/``, as Flink wrote it, and ``expected.json``, what it holds as worked out on plain Java
collections from the job's input.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import flink

FIXTURES = flink.ROOT / "tests" / "fixtures"
VERSIONS = ("1.20.5", "2.3.0")
MIGRATION = {"1.18.1": ("rocksdb-canonical",), "1.20.5": ("hashmap-native",)}
CASES = {
    "orders": ("hashmap-canonical", "rocksdb-canonical", "hashmap-native", "rocksdb-native", "rocksdb-incremental"),
    "types": ("hashmap-canonical", "hashmap-native"),
    "windows": ("hashmap-canonical", "rocksdb-canonical"),
}


def generate(version: str, wanted: list[str], folder: Path = FIXTURES) -> list[Path]:
    """Write fixtures, each a case and a variant, with one Flink version and return their directories."""
    # Checkpoints name their files by absolute paths: they are not written to where they stay, so readers have to find them.
    with tempfile.TemporaryDirectory(prefix="flink-fixtures-") as output:
        flink.run(version, "GenerateFixtures", [output, *wanted])
        made = []
        directories = sorted(Path(output).iterdir())
        contents = [json.loads((written / "expected.json").read_text("utf-8")) for written in directories]
        _check(version, directories, contents)
        for written, content in zip(directories, contents, strict=True):
            target = folder / version / written.name
            (written / "expected.json").write_text(_one_entry_per_line(content), "utf-8")
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(written, target)
            made.append(target)
        return made


def _check(version: str, directories: list[Path], contents: list[dict[str, Any]]) -> None:
    """Have Flink restore what it wrote, checkpoints too while they are where it put them."""
    requests = [
        flink.request(content["operators"], directory / content["snapshot_dir"], backend=content["backend"])
        for directory, content in zip(directories, contents, strict=True)
    ]
    for content, answer in zip(contents, flink.restore(version, requests), strict=True):
        if "error" in answer or flink.entries(answer["operators"]) != flink.entries(content["operators"]):
            raise flink.FlinkError(f"{content['case']} {content['variant']}: Flink restores something else\n{answer}")


def _one_entry_per_line(document: dict[str, Any]) -> str:
    """Lay out expected.json so that a difference between two versions shows entry by entry."""

    def layout(value: Any, indent: str, opened: tuple[str, ...]) -> str:
        inner = indent + " "
        if opened and isinstance(value, dict):
            items = [f"{inner}{_compact(k)}: {layout(v, inner, opened if k in opened else ())}" for k, v in value.items()]
            return "{\n" + ",\n".join(items) + f"\n{indent}}}"
        if opened and isinstance(value, list) and value:
            rest = opened[1:]
            return "[\n" + ",\n".join(inner + layout(item, inner, rest) for item in value) + f"\n{indent}]"
        return _compact(value)

    return layout(document, "", ("operators", "states", "entries")) + "\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    cases = sys.argv[1:] or [*CASES, "baskets"]
    unknown = set(cases) - {*CASES, "baskets"}
    if unknown:
        sys.exit(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}, baskets")
    variants = [f"{case}/{variant}" for case in cases if case in CASES for variant in CASES[case]]
    jobs = [(version, variants, FIXTURES) for version in VERSIONS if variants]
    if "baskets" in cases:
        jobs += [(v, [f"baskets/{variant}" for variant in MIGRATION[v]], FIXTURES / "migration") for v in MIGRATION]
    for job in jobs:
        for directory in generate(*job):
            size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
            print(f"{directory.relative_to(flink.ROOT)}: {size / 1000:.0f} kB")
