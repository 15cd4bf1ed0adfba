"""Rewrite tests/fixtures with real Flink: ``python -m tests.interop.generate_fixtures [CASE ...]``.

``baskets`` is state of Flink 1.x that Flink 2.x does not restore. It is in the folder ``migration``.

Every fixture has ``savepoint/`` from Flink and ``expected.json``, its content, computed with plain Java collections from the
job's input. Cases of :data:`PACKED` are stored in archives, one for all variants of a case.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.archives import ARCHIVES, pack
from tests.interop import flink, flink_jars, sql_queries
from tests.interop.fixture_plan import CASES, KINDS, MIGRATION, PACKED, SINKS, VERSIONS, WITH_LIBRARIES, Plan

FIXTURES = flink_jars.ROOT / "tests" / "fixtures"
SAMPLE = flink_jars.ROOT / "state_processor" / "samples" / "shop"
SHOP = "rocksdb-canonical"
"""The variant of the case orders that is installed with the package."""
FILE_SINKS = "sinks"
"""A case whose state are files: a savepoint alone, in a folder of its own."""

PLANS = "sql-plans"
"""A case of many queries, each with its compiled plan: those of ``sql_queries``."""

TEXTS = "sql-text"
"""The same queries, submitted as text: their plans are compiled later."""

EVOLUTION = "evolution"
"""A case of three jobs with three versions of a class."""

IN_ONE_JVM = 8
UNCLAIMED = {"execution.savepoint.ignore-unclaimed-state": "true", "execution.state-recovery.ignore-unclaimed-state": "true"}
"""With file merging, operators without state hold empty handles."""


def generate(version: str, wanted: list[str], output: Path, instead: str | None = None) -> list[Path]:
    """Write fixtures, each a case and a variant, with one Flink version and return their directories.

    Parameters
    ----------
    instead
        The folder below ``java`` with classes of the job that take the place of ours.
    """
    output = output.resolve()
    before = set(output.iterdir())
    libraries = flink.sql_class_path(version) if any(w.startswith(WITH_LIBRARIES) for w in wanted) else []
    flink.run(version, "GenerateFixtures", [str(output), *wanted], class_path=libraries, instead=instead, timeout=1800)
    directories = sorted(path for path in output.iterdir() if path not in before)
    contents = {written: json.loads((written / "expected.json").read_text("utf-8")) for written in directories}
    _check(version, {d: c for d, c in contents.items() if _is_restorable(c)}, instead)
    _list_states(
        version, {d: c for d, c in contents.items() if c["case"].startswith(WITH_LIBRARIES) and c["format"] == "canonical"}
    )
    for written, content in contents.items():
        (written / "expected.json").write_text(_one_entry_per_line(content), "utf-8")
    return directories


def _is_restorable(content: dict[str, Any]) -> bool:
    """Whether a job that only reads the states can restore the snapshot."""
    return content.get("restore_check", True) and not content["case"].startswith(WITH_LIBRARIES)


def generate_loose(version: str, wanted: list[str], folder: Path = FIXTURES) -> list[Path]:
    """Write unpacked fixtures."""
    # Checkpoints name their files by absolute paths: they are not written to where they stay, so readers have to find them.
    with tempfile.TemporaryDirectory(prefix="flink-fixtures-") as output:
        made = []
        for written in generate(version, wanted, Path(output)):
            target = folder / version / written.name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(written, target)
            made.append(target)
        return made


def generate_packed(version: str, plan: Plan) -> list[Path]:
    """Write all variants of some cases, with one archive per case."""
    with tempfile.TemporaryDirectory(prefix="flink-fixtures-") as temporary:
        output = Path(temporary)
        wanted = [f"{case}/{variant}" for case, variants in plan.items() for variant in variants if case != EVOLUTION]
        for first in range(0, len(wanted), IN_ONE_JVM):
            generate(version, wanted[first : first + IN_ONE_JVM], output)
        _generate_evolution(version, plan.get(EVOLUTION, ()), output)
        archives = {case: ARCHIVES / KINDS.get((version, case), "cases") / version / f"{case}.tar.xz" for case in plan}
        for case, archive in archives.items():
            pack(archive, [path for path in output.iterdir() if _case_of(path, plan) == case])
        return list(archives.values())


def generate_sinks(version: str) -> Path:
    """Write the savepoint of two file sinks; it is one file."""
    target = FIXTURES / FILE_SINKS / version
    with tempfile.TemporaryDirectory(prefix="flink-files-") as temporary:
        written = flink.write_files(version, Path(temporary, "files"), Path(temporary), lines=8)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(written, target)
    return target


def generate_plans(version: str, case: str = PLANS) -> Path:
    """Write plans and savepoints of all queries into one archive."""
    is_text = case == TEXTS
    archive = ARCHIVES / ("sql-text" if is_text else "sql") / version / "queries.tar.xz"
    with tempfile.TemporaryDirectory(prefix="flink-queries-") as temporary:
        (sql_queries.generate_text if is_text else sql_queries.generate)(version, Path(temporary))
        pack(archive, list(Path(temporary).iterdir()))
    return archive


def _case_of(directory: Path, plan: Plan) -> str:
    """The case whose name is a prefix of a directory's name."""
    return max((case for case in plan if directory.name.startswith(f"{case}-")), key=len)


def _generate_evolution(version: str, variants: tuple[str, ...], output: Path) -> None:
    """Write snapshots with the first version of a class, and the results of jobs with other versions."""
    if not variants:
        return
    first = []
    for written in generate(version, [f"{EVOLUTION}-v1/{variant}" for variant in variants], output, "profile1"):
        content = json.loads((written / "expected.json").read_text("utf-8"))
        first.append(f"{content['variant']}/{written / content['snapshot_dir']}")
    generate(version, [f"{EVOLUTION}-v2/{snapshot}" for snapshot in first], output)
    generate(version, [f"{EVOLUTION}-v3-incompatible/{snapshot}" for snapshot in first], output, "profile3")


def _check(version: str, contents: dict[Path, dict[str, Any]], instead: str | None) -> None:
    """Restore Flink's own snapshots with Flink, including checkpoints in their original place."""
    requests = [
        flink.request(
            [_restorable(operator) for operator in content["operators"]],
            directory / content["snapshot_dir"],
            backend=content["backend"],
            parallelism=content["parallelism"],
            max_parallelism=content["max_parallelism"],
            settings=content["settings"] | (UNCLAIMED if "filemerging" in content["variant"] else {}),
        )
        for directory, content in contents.items()
    ]
    with tempfile.TemporaryDirectory(prefix="flink-changelogs-") as changelogs:
        answers = flink.restore(version, requests, instead, changelogs=Path(changelogs)) if requests else []
    for content, answer in zip(contents.values(), answers, strict=True):
        if "error" in answer:
            raise flink.FlinkError(f"{content['case']} {content['variant']}: Flink does not restore it\n{answer['error']}")
        found, expected = flink.entries(answer["operators"]), flink.entries(_with_entries(content["operators"]))
        different = [state for state in expected if found[state] != expected[state]]
        if different:
            state = different[0]
            raise flink.FlinkError(
                f"{content['case']} {content['variant']}: {state}: {found[state]} instead of {expected[state]}"
            )


def _list_states(version: str, contents: dict[Path, dict[str, Any]]) -> None:
    """Record the states that Flink finds in savepoints that only their own jobs restore, next to ``expected.json``."""
    savepoints = [directory / content["snapshot_dir"] for directory, content in contents.items()]
    answers = flink.list_states(version, savepoints) if savepoints else []
    for directory, answer in zip(contents, answers, strict=True):
        operators = [{"operator_id": operator_id, **found} for operator_id, found in answer.items()]
        (directory / "flink_states.json").write_text(
            json.dumps({"operators": operators}, indent=1, sort_keys=True) + "\n", "utf-8"
        )


def _restorable(operator: dict[str, Any]) -> dict[str, Any]:
    """An operator as a job that only reads can have it: splits of sources are bytes to it."""
    states = [{**state, "value_type": "BYTES"} if "sequence_from" in state else state for state in operator["states"]]
    return {**operator, "states": states}


def _with_entries(operators: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [operator for operator in operators if all("entries" in state for state in operator["states"])]


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


def main(cases: list[str]) -> None:
    packed = {case for plan in PACKED.values() for case in plan}
    known = {*CASES, "baskets", FILE_SINKS, PLANS, TEXTS, *packed}
    if set(cases) - known:
        sys.exit(f"no such case: {', '.join(sorted(set(cases) - known))}; there are {', '.join(sorted(known))}")
    made = []
    loose = [f"{case}/{variant}" for case in CASES if case in cases for variant in CASES[case]]
    for version in VERSIONS if loose else ():
        made += generate_loose(version, loose)
    for version, variants in MIGRATION.items() if "baskets" in cases else ():
        made += generate_loose(version, [f"baskets/{variant}" for variant in variants], FIXTURES / "migration")
    made += [generate_sinks(version) for version in SINKS if FILE_SINKS in cases]
    for path in made:
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        print(f"{path.relative_to(flink_jars.ROOT)}: {size / 1000:.0f} kB")
    if f"orders/{SHOP}" in loose:
        shutil.copytree(FIXTURES / VERSIONS[-1] / f"orders-{SHOP}" / "savepoint", SAMPLE, dirs_exist_ok=True)
    archives = [generate_plans(version, case) for case in (PLANS, TEXTS) if case in cases for version in VERSIONS]
    for version, plan in PACKED.items():
        archives += generate_packed(version, {case: variants for case, variants in plan.items() if case in cases})
        while archives:
            archive = archives.pop(0)
            print(f"{archive.relative_to(flink_jars.ROOT)}: {archive.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main(
        sys.argv[1:] or [*CASES, "baskets", FILE_SINKS, PLANS, TEXTS, *{case: None for plan in PACKED.values() for case in plan}]
    )
