"""The command ``validate``: check the files of a snapshot, and list leftovers of writes next to it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Final
from uuid import uuid4

from state_processor.applications.report.restoring import Restoring, files_elsewhere, previewed_migration, restored_by
from state_processor.command_line import (
    JSON_LINES,
    SNAPSHOT,
    Answer,
    command,
    flag_values,
    flags,
    print_json,
    progress,
    say,
    switch,
    text_of,
)
from state_processor.errors import StateProcessorError
from state_processor.options import Kind, SnapshotAccess
from state_processor.snapshots import (
    BUG,
    METADATA_FILE,
    FileCheck,
    Location,
    Snapshot,
    Staging,
    Storage,
    StructureCheck,
    ValueCheck,
    check_files,
    is_moved,
    refer_to_claimed,
    states,
)

_WORDS: Final = {
    "problem": "",
    "unknown": "key groups can't be checked, because user code computes hashCode of the keys:  ",
    "uncounted": "can't be checked: ",
    "unverified": "the blocks of this file don't have checksums: ",
    "removed": "removed: ",
    "repaired": "_metadata now refers to the files of the claimed savepoint; keep its directory: ",
    "left": "left by a write that was killed; --repair removes it: ",
    "open": "of a write that is running or was started on another machine, or of a savepoint without a readable _metadata: ",
}
_UNCHECKED: Final = ("unknown", "uncounted", "unverified")
"""Findings that leave the question open whether something is damaged."""


def _findings(kind: str, subjects: Iterable[str]) -> Iterator[tuple[str, str]]:
    return zip(repeat(kind), subjects)


_ABOUT: Final = {
    "problem": "message",
    "repaired": "savepoint",
    "restoring": "message",
    "uncounted": "message",
    "unknown": "state",
}


@command(
    "validate",
    "check the files of a snapshot",
    "Check that every file of a snapshot has its recorded size, that operator state fits its headers, that entries "
    "in files of the heap backend can be counted to the end, and that the checksums of all blocks in files of RocksDB are "
    "right. Print which versions of Flink restore the snapshot, and the leftovers of writes in its directory. Values are "
    "decoded only with --values.",
    SNAPSHOT,
    switch(
        "--repair",
        "remove leftovers of writes whose process has ended; files of the snapshot and of running writes are not removed. "
        "Also record the paths of the files of a claimed savepoint in _metadata, if the checkpoint refers to them as its own "
        f"({BUG})",
    ),
    switch("--values", "also decode every value completely, and check the key group of every key"),
    switch(
        "--self-contained",
        "also check that all files are in the directory of the snapshot and recorded by name, so that Flink restores a copy of "
        "the directory in other storage",
    ),
    JSON_LINES,
    flags(Kind.CHECKS),
    fails="something is missing or damaged, or is elsewhere with --self-contained",
    unchecked="nothing of this was found, and something could not be checked, such as blocks without checksums",
    python=(),
)
def _validate(options: argparse.Namespace) -> Answer:
    access = SnapshotAccess.of(**flag_values(options))
    findings = list(_strays(options.path, access.storage(), repair=options.repair))
    files, structure, values, restoring = FileCheck(), StructureCheck(), None, []
    try:
        snapshot = access.open(options.path)
        files = check_files(snapshot)
        if options.repair and files.claimed and not files.problems:
            refer_to_claimed(snapshot)
            findings += _findings("repaired", files.claimed)
            snapshot = access.open(options.path)
            files = check_files(snapshot)
        problems = [*files.problems, *_claimed(snapshot, files)]
        if not problems:
            structure.check(snapshot, partial(progress, doing="checking"))
            problems = structure.problems
            findings += _findings("uncounted", structure.unknown)
            findings += _findings("unverified", structure.without_checksums)
        if options.values and not problems:
            values = ValueCheck()
            values.check(snapshot, partial(progress, doing="decoding"))
            problems = values.problems
            findings += _findings("uncounted", values.unknown)
            findings += _findings("unknown", values.unhashed)
        if options.self_contained:
            problems = [*problems, *files_elsewhere(snapshot)]
        if not problems:
            restoring = [sentence.text for sentence in _restoring(options, access, snapshot)]
        findings += _findings("problem", problems)
    except StateProcessorError as problem:
        problems = [str(problem)]
        findings.append(("problem", str(problem)))
    answer = Answer.of(wrong=bool(problems), unchecked=any(finding in _UNCHECKED for finding, _ in findings))
    if options.json:
        findings += _findings("restoring", restoring)
        print_json({"finding": finding, _ABOUT.get(finding, "file"): subject} for finding, subject in findings)
        return answer
    for finding, subject in findings:
        say(_WORDS[finding] + text_of(" ".join(subject.split())))
    if not problems:
        contained = ["all files are in the directory and recorded by name: it can be copied to other storage"]
        say("\n".join([_checked(files.checked, structure, values), *contained * options.self_contained, *restoring]))
    return answer


def _claimed(snapshot: Snapshot, files: FileCheck) -> Iterator[str]:
    """Yield a message for each claimed savepoint whose files the snapshot refers to as its own."""
    if not files.claimed:
        return
    advice = "state-processor copy makes a savepoint of it" if is_moved(snapshot) else "--repair records their paths"
    for directory, number in files.claimed.items():
        yield (
            f"Flink can't restore this checkpoint (its bug {BUG}): {number} files are in the savepoint that the job claimed, "
            f"{directory}, and Flink looks for them in {snapshot.directory}.\nTo restore it: {advice}"
        )


def _checked(files: int, structure: StructureCheck, values: ValueCheck | None) -> str:
    """List the successful checks."""
    checks = {
        f"{files} files are present": True,
        f"{structure.headers} headers of operator state fit": structure.headers,
        f"the entries of {structure.counted} heap files are counted": structure.counted,
        f"the checksums of {structure.blocks} blocks in files of RocksDB are right": structure.blocks,
        f"{values.rows if values else 0} rows are decodable": values is not None,
        "values are not decoded without --values": values is None,
    }
    return ", ".join(check for check, applies in checks.items() if applies)


def _restoring(options: argparse.Namespace, access: SnapshotAccess, snapshot: Snapshot) -> Iterator[Restoring]:
    """Yield the versions and backends that restore the snapshot; Flink 2.x is included only if values are read."""
    migration = previewed_migration(options.path, access) if options.values and snapshot.flink_major == 1 else None
    yield from restored_by(snapshot, states(snapshot).to_pylist(), migration)


def _strays(path: str, storage: Storage, *, repair: bool) -> Iterator[tuple[str, str]]:
    location = Location.given(path)
    directory = location.parent if location.name == METADATA_FILE else location
    staging = Staging(str(directory), uuid4().hex[:16], storage)
    removed = staging.sweep() if repair else []
    strays = staging.strays()
    for name in removed:
        if name not in strays.over:
            yield "removed", name
    for name in strays.over:
        yield "left", name
    for name in strays.open:
        yield "open", name
