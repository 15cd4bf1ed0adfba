"""Removals beside running jobs: ``./dev removals --version 2.3.0 --removals 250``.

Real Flink runs jobs that keep one checkpoint each in one directory, takes savepoints and restores the jobs. Meanwhile,
``orphans``, ``retain`` and ``dispose`` remove files. After each call, no checkpoint that is there names a removed file in the
bytes of its ``_metadata``. Jobs end after some calls, or their JVM is killed. Then Flink restores every checkpoint and savepoint
in the directory. The newest checkpoint of each job has the content of a savepoint that was taken at its end.

Files of a job that runs for days are old. So the times of files that checkpoints use are set back, and nothing but their use
protects them. Files of checkpoints that are not complete stay young.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import state_processor as sp
from state_processor import cli
from tests.interop import flink

VERSIONS: Final = ("1.20.5", "2.3.0")
_ROCKSDB: Final[dict[str, str]] = {}
_HASHMAP: Final = dict.fromkeys(("state.backend", "state.backend.type"), "hashmap")
_CHANGELOG: Final = dict.fromkeys(("state.backend.changelog.enabled", "state.changelog.enabled"), "true") | {
    **dict.fromkeys(("dstl.dfs.preemptive-persist-threshold", "state.changelog.dstl.dfs.preemptive-persist-threshold"), "32kb"),
    **dict.fromkeys(
        (
            "state.backend.changelog.periodic-materialize.interval",
            "state.changelog.periodic-materialize.interval",
        ),
        "1500ms",
    ),
    **dict.fromkeys(("state.backend.changelog.storage", "state.changelog.storage"), "filesystem"),
}
_MERGED: Final = dict.fromkeys(
    ("state.checkpoints.file-merging.enabled", "execution.checkpointing.file-merging.enabled"), "true"
) | {
    "execution.checkpointing.file-merging.across-checkpoint-boundary": "true",
    "state.checkpoints.file-merging.across-checkpoint-boundary": "true",
}
JOBS: Final[dict[str, dict[str, str]]] = {
    "incremental": _ROCKSDB,
    "hashmap": _HASHMAP,
    "changelog": _CHANGELOG,
    "merged": _MERGED,
}
_MOST_CALLS: Final = 6
"""Calls for each removal; others are previews and refusals."""
DAYS: Final = 24 * 3600
_UUID: Final = rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_RECORDED: Final = re.compile(rb"file:(/[^\0]*?/" + _UUID + rb")|(" + _UUID + rb")")
_UNCLAIMED: Final = dict.fromkeys(
    ("execution.savepoint.ignore-unclaimed-state", "execution.state-recovery.ignore-unclaimed-state"), "true"
)
_TOTALS: Final = {
    "uid": "totals",
    "key_type": "LONG",
    "states": [
        {"name": "total", "kind": "VALUE", "value_type": "LONG"},
        {"name": "items", "kind": "MAP", "map_key_type": "STRING", "value_type": "LONG"},
    ],
}


@dataclass
class Report:
    """What the calls did, what Flink restored, and problems."""

    calls: Counter[str] = field(default_factory=Counter)
    removals: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    previews: int = 0
    checked: int = 0
    halves: int = 0
    restored: int = 0
    compared: int = 0
    problems: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the numbers as text."""
        for name, calls in sorted(self.calls.items()):
            yield f"{name}: {calls} calls, {self.removals[name]} removed {self.files[name]} files"
        yield f"previews: {self.previews}"
        yield f"checkpoints that were checked by the names in their bytes after a call: {self.checked}"
        yield f"checkpoints and savepoints that Flink restored: {self.restored}, {self.compared} of them with known content"
        yield f"checkpoints that Flink had removed in part when a cluster ended: {self.halves}"
        for reason, count in self.refusals.most_common():
            yield f"{count} x {reason}"
        yield f"problems: {len(self.problems)}"
        yield from self.problems


class Campaign:
    """Removals in one directory.

    Parameters
    ----------
    version
        Of Flink.
    root
        The directory.
    seed
        Of random choices.
    jobs
        Names and settings of jobs.
    share
        The share of calls that remove; the others are previews.
    """

    def __init__(self, version: str, root: Path, seed: int, jobs: Mapping[str, Mapping[str, str]], share: float = 0.75) -> None:
        self.report = Report()
        self._version = version
        self._root = root
        self._checkpoints = root / "checkpoints"
        self._random = random.Random(seed)
        self._jobs = jobs
        self._share = share
        self._removed: dict[str, str] = {}
        self._copies: list[Path] = []
        self._contents: dict[tuple[Path, bytes], Any] = {}
        for name in ("checkpoints", "savepoints", "last"):
            (root / name).mkdir(exist_ok=True)

    def run(self, removals: int, *, halt: bool, interval: int = 300, pause: int = 1200) -> None:
        """Start the jobs, call the commands until they removed files in so many calls, end the jobs, and restore."""
        end = self._root / "end"
        end.unlink(missing_ok=True)
        results: list[Any] = []

        def jobs() -> None:
            places = (self._checkpoints, self._root / "savepoints", self._root / "last", end)
            sizes: Any = {"interval": interval, "keys": 400, "rate": 2000, "pause": pause}
            try:
                results.append(flink.run_busy_jobs(self._version, *places, jobs=self._jobs, **sizes))
            except flink.FlinkError as error:
                results.append(error)

        running = threading.Thread(target=jobs)
        running.start()
        try:
            while len(list(self._checkpoints.glob("*/chk-*/_metadata"))) < len(self._jobs) and running.is_alive():
                time.sleep(0.05)
            target = self.report.removals.total() + removals
            for _ in range(_MOST_CALLS * removals):
                if self.report.removals.total() >= target or not running.is_alive():
                    break
                self._call()
        finally:
            end.write_text("halt" if halt else "stop", "utf-8")
            running.join()
        (result,) = results
        if isinstance(result, flink.FlinkError):
            if not (halt and "137" in str(result)):
                raise result
            result = {}
        self._remove_halves()
        self._restore(result)

    # Calls

    def _call(self) -> None:
        """Make files that can be removed, preview or remove them by one of the commands, and check the checkpoints."""
        self._set_times_back()
        call, name = self._random.choice([self._orphans, self._retain, self._dispose])()
        if call is None:
            return
        delete = self._random.random() < self._share
        try:
            self._call_and_check(call, name, delete)
        finally:
            for copy in self._copies:  # Flink does not know them, and removes files that they share
                shutil.rmtree(copy, ignore_errors=True)
            self._copies.clear()

    def _call_and_check(self, call: Callable[[bool], dict[str, Any]], name: str, delete: bool) -> None:
        try:
            summary = call(delete)
        except sp.StateProcessorError as error:
            self.report.refusals[f"{name}: {re.sub(r'[^ ]*/[^ ]*', 'PATH', str(error).splitlines()[0])[:110]}"] += 1
            self._remove_halves()
        else:
            paths, number = set(summary["files"]), self.report.calls.total()
            if delete:
                self.report.calls[name] += 1
                self.report.removals[name] += bool(paths)
                self.report.files[name] += len(paths)
                self._removed |= {path: f"{name} {number}" for path in paths if not path.endswith("/_metadata")}
            else:
                self.report.previews += 1
            self._check(name, set() if delete else paths, set(summary["snapshots"]))

    def _orphans(self) -> tuple[Callable[[bool], dict[str, Any]] | None, str]:
        """Make stray files beside files that are used, with names that Flink gives."""
        used = [path for path in self._paths() if re.fullmatch(_UUID.decode(), path.name)]
        for path in self._random.sample(used, min(len(used), 3)):
            stray = path.with_name(str(UUID(int=self._random.getrandbits(128))))
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(path, stray)
                set_back(stray, 5)
        return lambda delete: self._summary("orphans", self._checkpoints, delete, also=[self._root / "savepoints"]), "orphans"

    def _retain(self) -> tuple[Callable[[bool], dict[str, Any]] | None, str]:
        """Make an older copy of the checkpoint of a job, as jobs leave them that were restored from it."""
        copy = self._copy()
        job = self._checkpoints if copy is None or self._random.random() < 0.5 else copy.parent
        return lambda delete: self._summary("retain", job, delete, keep=1), "retain"

    def _dispose(self) -> tuple[Callable[[bool], dict[str, Any]] | None, str]:
        savepoints = sorted(self._checkpoints.glob("savepoint-*/_metadata"))
        if savepoints and self._random.random() < 0.5:
            target = self._random.choice(savepoints).parent
            for path in target.iterdir():
                set_back(path)
        else:
            copy = self._copy()
            if copy is None:
                return None, ""
            target = copy
        return lambda delete: self._summary("dispose", target, delete), "dispose"

    def _copy(self) -> Path | None:
        jobs = sorted({path.parent.parent for path in self._checkpoints.glob("*/chk-*/_metadata")})
        for job in self._random.sample(jobs, len(jobs)):
            metadata_file = _newest(job)
            if metadata_file is None:
                continue
            checkpoint = metadata_file.parent
            copy = job / f"chk-{self._random.randrange(10**6, 10**7)}"
            try:
                content = (checkpoint / "_metadata").read_bytes()
                self._copies.append(copy)
                shutil.copytree(checkpoint, copy, ignore=shutil.ignore_patterns("_metadata"))
            except (OSError, shutil.Error):
                continue
            if not (checkpoint / "_metadata").exists():  # Flink removes it first
                continue
            (copy / "_metadata").write_bytes(content)
            for path in copy.iterdir():
                set_back(path, 3)
            return copy
        return None

    def _summary(self, name: str, path: Path, delete: bool, **options: Any) -> dict[str, Any]:
        """Call a command, in Python or on the command line."""
        if self._random.random() < 0.8:
            return asdict(getattr(sp, name)(path, delete=delete, **options))
        arguments = [name, str(path), "--json", *(["--delete"] if delete else [])]
        for option, value in options.items():
            for part in value if isinstance(value, list) else [value]:
                arguments += [f"--{option}", str(part)]
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            cli.main(arguments)
        if not output.getvalue().strip():
            raise sp.WriteError(errors.getvalue().strip().removeprefix("error: ") or "no output")
        (summary,) = (json.loads(line) for line in output.getvalue().splitlines() if line.strip())
        assert isinstance(summary, dict)
        return summary

    # Checks

    def _paths(self) -> list[Path]:
        """Return all files, also while Flink removes directories."""
        return sorted(Path(folder, name) for folder, _, names in os.walk(self._checkpoints) for name in names)

    def _living(self) -> Iterator[tuple[Path, bytes]]:
        """Yield the ``_metadata`` files that are there, and their content."""
        for path in [path for path in self._paths() if path.name == "_metadata"]:
            with contextlib.suppress(FileNotFoundError):
                content = path.read_bytes()
                if content:
                    yield path, content

    def _set_times_back(self) -> None:
        for path, content in self._living():
            for name in recorded_files(path, content):
                set_back(Path(name))
            set_back(path)

    def _check(self, call: str, previewed: set[str], snapshots: set[str]) -> None:
        """Check that no checkpoint that is there uses a file that was removed, now or before, or previewed."""
        for path, content in self._living():
            used = recorded_files(path, content)
            self.report.checked += 1
            if str(path.parent) in snapshots:
                continue
            for kind, names in (("removed", self._removed.keys()), ("previewed", previewed)):
                if used & names:
                    calls = ", ".join(sorted({self._removed.get(name, call) for name in used & names}))
                    example = min(used & names)
                    self.report.problems.append(f"{calls} {kind} {len(used & names)} files of {path}, such as {example}")

    def _remove_halves(self) -> None:
        """Remove the ``_metadata`` of checkpoints that Flink was removing when a cluster ended, as the messages advise."""
        lacking = {path for path, content in self._living() if not all(map(os.path.exists, absolute_files(content)))}
        if lacking:
            time.sleep(1)  # Flink may be removing them now
        for path in lacking:
            with contextlib.suppress(FileNotFoundError):
                missing = {name for name in absolute_files(path.read_bytes()) if not os.path.exists(name)}
                if missing & self._removed.keys():
                    self.report.problems.append(f"{path} lacks {sorted(missing & self._removed.keys())[:3]}")
                elif missing:
                    self.report.halves += 1
                    path.unlink()

    def _restore(self, ends: Mapping[Path, Path]) -> None:
        """Restore every snapshot with Flink; compare content that is known."""
        newest = {_newest(job) for job in self._checkpoints.iterdir()}
        living = [(path.parent, content) for path, content in self._living() if path in newest or "savepoint-" in str(path)]
        paths = [*(path for path, _ in living), *ends.values()]
        requests = [
            flink.request([_TOTALS], path, backend=_backend(path), settings=_UNCLAIMED | (_MERGED if is_merged(path) else {}))
            for path in paths
        ]
        answers = dict(zip(paths, flink.restore(self._version, requests), strict=True)) if requests else {}
        contents = {}
        for path, answer in answers.items():
            if "error" in answer:
                self.report.problems.append(f"Flink does not restore {path}: {answer['error'][:1500]}")
            else:
                contents[path] = flink.entries(answer["operators"])
                self.report.restored += 1
        for path, content in living:
            if path in contents:
                known = self._contents.setdefault((path, content), contents[path])
                self._compare(path, known, contents[path])
        for checkpoint, savepoint in ends.items():
            self._compare(checkpoint, contents.get(savepoint), contents.get(checkpoint))

    def _compare(self, path: Path, expected: Any, actual: Any) -> None:
        if expected is not actual:
            self.report.compared += 1
            if expected != actual:
                self.report.problems.append(f"{path} has other content than before, or than the savepoint at the end of its job")


def set_back(path: Path, days: float = 2) -> None:
    """Set the time of a young file back."""
    with contextlib.suppress(FileNotFoundError):
        modified = path.stat().st_mtime
        if time.time() - modified < DAYS:
            os.utime(path, (modified - days * DAYS,) * 2)


def recorded_files(metadata_file: Path, content: bytes) -> set[str]:
    """Return the files that the bytes of a ``_metadata`` name; a bare name is a file beside it."""
    return {(absolute or bytes(metadata_file.parent / bare.decode())).decode() for absolute, bare in _RECORDED.findall(content)}


def absolute_files(content: bytes) -> set[str]:
    """Return the files that the bytes of a ``_metadata`` name by their paths."""
    return {absolute.decode() for absolute, _ in _RECORDED.findall(content) if absolute}


def is_merged(snapshot: Path) -> bool:
    """Return whether a snapshot has merged files."""
    return b"/job_" in (snapshot / "_metadata").read_bytes() or b"/taskowned" in (snapshot / "_metadata").read_bytes()


def _backend(snapshot: Path) -> str:
    """Return the state backend that restores a snapshot."""
    return "hashmap" if sp.arrow.states(snapshot).column("backend").to_pylist()[0] in ("heap", "hashmap") else "rocksdb"


def _newest(job: Path) -> Path | None:
    """Return the ``_metadata`` that a job wrote last; copies are older."""
    return max(job.glob("chk-*/_metadata"), key=_modified, default=None)


def _modified(path: Path) -> float:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0


def main() -> int:
    """Run the campaign, and print its numbers."""
    parser = argparse.ArgumentParser(prog="./dev removals", description=__doc__)
    parser.add_argument("--version", choices=VERSIONS, action="append", help="(default: both)")
    parser.add_argument(
        "--removals", type=int, default=250, help="calls that remove files, for each version (default: %(default)s)"
    )
    parser.add_argument("--each", type=int, default=25, help="of these calls until the jobs end (default: %(default)s)")
    parser.add_argument("--job", choices=[*JOBS], action="append", help="(default: all)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    jobs = {name: JOBS[name] for name in options.job or JOBS}
    problems = 0
    for version in options.version or VERSIONS:
        with tempfile.TemporaryDirectory(prefix="removals-", ignore_cleanup_errors=True) as root:
            campaign = Campaign(version, Path(root), options.seed, jobs)
            try:
                for group in range(-(-options.removals // options.each)):
                    campaign.run(options.each, halt=bool(group % 2))
                    print(f"Flink {version}, {campaign.report.removals.total()} removals", flush=True)
            except flink.FlinkError as error:
                campaign.report.problems.append(str(error)[-3000:])
            finally:
                print("\n".join(campaign.report.lines()), flush=True)
            problems += len(campaign.report.problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
