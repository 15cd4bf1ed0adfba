"""Runs of many inputs in children with limits. This process watches the children, counts results and keeps failures."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import logging
import mmap
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from state_processor.support.errors import StateProcessorError
from tests.fuzz.edits import Edit, Edits, Seed, apply, draw
from tests.fuzz.guard import CanaryError, guards
from tests.fuzz.targets import TARGETS
from tests.fuzz.targets.base import InvalidArrowError, Target, WrongRowsError

READ: Final = "read"
REFUSED: Final = "refused"
CRASH: Final = "crash"
HANG: Final = "hang"
OUTCOMES: Final = (READ, REFUSED, "foreign", CRASH, HANG, "memory", "invalid Arrow", "wrong rows")
FINE: Final = (READ, REFUSED)
_BY_ERROR: Final = {
    StateProcessorError: REFUSED,
    MemoryError: "memory",
    InvalidArrowError: "invalid Arrow",
    CanaryError: CRASH,
    WrongRowsError: "wrong rows",
    Exception: "foreign",
}
_CPU_SECONDS: Final = 20
_WALL_SECONDS: Final = 300
_MEMORY: Final = 2 << 30
_CHUNK: Final = 5000
_SHORTEST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.5
_INDEX, _SLOWEST, _SLOWEST_INDEX, _COUNTS = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Input:
    """One input: a seed of a class, its edits, and the name of the random choices that reading it makes."""

    target: str
    seed: Seed
    edits: Edits
    choices: str

    def run(self) -> None:
        """Read it in this process."""
        TARGETS[self.target].run(self.seed, apply(self.seed.data, self.edits), self.edits, random.Random(self.choices))


@dataclass(frozen=True, slots=True)
class Failure:
    """What an input ended in that it must not end in; ``signature`` is equal for failures with one cause."""

    input: Input
    outcome: str
    signature: str
    message: str


@dataclass(slots=True)
class Report:
    """What a run of one class came to."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Failure] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: float = 0.0
    slowest_index: int = -1

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return self.counts.total()


def input_of(target: Target, number: int, index: int) -> Input:
    """Draw an input: always the same one for the same seeds."""
    choices = f"{number}/{target.name}/{index}"
    rng = random.Random(choices)
    seed = rng.choice(target.seeds)
    return Input(target.name, seed, draw(rng, seed), choices)


def run_class(name: str, inputs: int, deadline: float, number: int = 0, keep: Path | None = None, start: int = 0) -> Report:
    """Run inputs of one class until there were so many or the time (of ``time.monotonic``) has come."""
    target = TARGETS[name]
    report = Report()
    began = time.monotonic()
    with _work_directory():
        _warm_up(target)
        index = start
        while index < start + inputs and time.monotonic() < deadline:
            index = _run_chunk(target, number, index, min(index + _CHUNK, start + inputs), deadline, report)
        report.seconds = time.monotonic() - began
        for failure in report.failures.values() if keep is not None else ():
            store(minimised(failure), keep)
    return report


def outcome_of(case: Input) -> tuple[str, str, str]:
    """Read an input in a child; outcome, signature and message."""
    report = Report()
    _watch(lambda shared, out: _read_one(case, shared, out), lambda _: case, report, time.monotonic() + _WALL_SECONDS)
    for failure in report.failures.values():
        return failure.outcome, failure.signature, failure.message
    return next(iter(report.counts.elements()), READ), "", ""


def minimised(failure: Failure) -> Failure:
    """Leave out edits, and parts of them, as long as the failure stays the same."""
    edits = list(failure.input.edits)
    for edit in failure.input.edits:
        fewer = tuple(e for e in edits if e is not edit)
        if fewer and _fails_alike(failure, fewer):
            edits = list(fewer)
    return Failure(_with_edits(failure.input, tuple(edits)), failure.outcome, failure.signature, failure.message)


def store(failure: Failure, directory: Path) -> Path:
    """Keep a failure as a file that :func:`load` reads."""
    directory.mkdir(parents=True, exist_ok=True)
    case = failure.input
    text = {
        "class": case.target,
        "outcome": failure.outcome,
        "signature": failure.signature,
        "message": failure.message[:2000],
        "choices": case.choices,
        "seed": case.seed.name,
        "seed_sha256": hashlib.sha256(case.seed.data).hexdigest(),
        "edits": [[e.offset, e.removed, e.inserted.hex()] for e in case.edits],
    }
    digest = hashlib.sha256(failure.signature.encode()).hexdigest()[:8]
    path = directory / f"{case.target}-{failure.outcome.replace(' ', '-')}-{digest}.json"
    path.write_text(json.dumps(text, indent=1) + "\n")
    return path


def load(path: Path) -> Input:
    """Read a kept failure.

    Raises
    ------
    LookupError
        Its seed is not there, or is another one than when it failed.
    """
    text: dict[str, Any] = json.loads(path.read_text())
    for seed in TARGETS[text["class"]].seeds:
        if seed.name == text["seed"] and hashlib.sha256(seed.data).hexdigest() == text["seed_sha256"]:
            edits = tuple(Edit(offset, removed, bytes.fromhex(inserted)) for offset, removed, inserted in text["edits"])
            return Input(text["class"], seed, edits, text["choices"])
    raise LookupError(f"{path.name}: no seed {text['seed']!r} of these bytes; if its fixture was rewritten, remove this file")


def _with_edits(case: Input, edits: Edits) -> Input:
    return Input(case.target, case.seed, edits, case.choices)


def _fails_alike(failure: Failure, edits: Edits) -> bool:
    return outcome_of(_with_edits(failure.input, edits))[1] == failure.signature


def _warm_up(target: Target) -> None:
    """Load what children share, the seeds' fields and the kernels."""
    for seed in target.seeds:
        _ = seed.fields
    for seed in random.Random(0).sample(target.seeds, min(len(target.seeds), 40)):
        with suppress(StateProcessorError):
            target.run(seed, seed.data, (), random.Random(0))


def _run_chunk(target: Target, number: int, first: int, last: int, deadline: float, report: Report) -> int:
    """Run inputs in one child; the index of the first that was not run."""

    def read(shared: Any, out: Any) -> None:
        for index in range(first, last):
            shared[_INDEX] = index
            case = input_of(target, number, index)
            _read_one(case, shared, out)
            if time.monotonic() > deadline:
                break
        shared[_INDEX] += 1

    return _watch(read, lambda index: input_of(target, number, index), report, deadline + _WALL_SECONDS, first)


def _watch(read: Any, input_at: Any, report: Report, deadline: float, first: int = 0) -> int:
    """Fork a child that runs ``read``, and wait for it; the index behind the last input that it has finished or died of."""
    shared = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), dtype=np.float64)
    shared[_INDEX] = first
    out_path = tempfile.mktemp(prefix="failures-")
    pid = os.fork()
    if not pid:
        _child(read, shared, out_path)
    status, hanging = _wait(pid, shared, deadline)
    index = int(shared[_INDEX])
    for outcome, count in zip(OUTCOMES, shared[_COUNTS : _COUNTS + len(OUTCOMES)].tolist(), strict=True):
        report.counts[outcome] += int(count)
    if shared[_SLOWEST] > report.slowest:
        report.slowest, report.slowest_index = float(shared[_SLOWEST]), int(shared[_SLOWEST_INDEX])
    if os.path.exists(out_path):
        with open(out_path) as lines:
            for line in lines:
                at, outcome, signature, message = json.loads(line)
                if signature not in report.failures:
                    report.failures[signature] = Failure(input_at(at), outcome, signature, message)
        os.unlink(out_path)
    if status:
        outcome = HANG if hanging else CRASH
        signature = HANG if hanging else f"ended with {_ending(status)}"
        report.counts[outcome] += 1
        failure = Failure(input_at(index), outcome, f"{signature} at {index}", signature)
        report.failures[failure.signature] = failure
        index += 1
    return index


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.WEXITSTATUS(status)}"


def _wait(pid: int, shared: Any, deadline: float) -> tuple[int, bool]:
    """Wait for a child and end it if one input takes too long; its status, and True if it was ended."""
    at, cpu, since = shared[_INDEX], _cpu_seconds(pid), time.monotonic()
    pause = _SHORTEST_PAUSE
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status, False
        now = time.monotonic()
        if shared[_INDEX] != at:
            at, cpu, since = shared[_INDEX], _cpu_seconds(pid), now
        elif _cpu_seconds(pid) - cpu > _CPU_SECONDS or now - since > _WALL_SECONDS or now > deadline:
            os.kill(pid, signal.SIGKILL)
            return os.waitpid(pid, 0)[1], True
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _child(read: Any, shared: Any, out_path: str) -> None:
    """Run inputs in this child process, and end it."""
    code = 1
    faulthandler.disable()  # pytest's handler would print expected crashes
    logging.disable()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * mmap.PAGESIZE + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        with open(out_path, "w") as out, guards():
            read(shared, out)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _read_one(case: Input, shared: Any, out: Any) -> None:
    """Read an input, and count the result."""
    began = time.process_time()
    outcome = READ
    try:
        with _limited(TARGETS[case.target].most_memory):
            case.run()
    except Exception as error:
        outcome = next(name for kind, name in _BY_ERROR.items() if isinstance(error, kind))
        if outcome not in FINE:
            line = (int(shared[_INDEX]), outcome, _signature(error), f"{type(error).__name__}: {error}"[:2000])
            out.write(json.dumps(line) + "\n")
            out.flush()
    took = time.process_time() - began
    if took > shared[_SLOWEST]:
        shared[_SLOWEST], shared[_SLOWEST_INDEX] = took, shared[_INDEX]
    shared[_COUNTS + OUTCOMES.index(outcome)] += 1


@contextmanager
def _limited(most_memory: int | None) -> Iterator[None]:
    """Raise an error if a block takes more memory than a limit.

    Raises
    ------
    MemoryError
        It took more.
    """
    if most_memory is None:
        yield
        return
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        yield
    finally:
        taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        if taken > most_memory:
            raise MemoryError(f"{taken >> 20} MB were taken")


def _signature(error: BaseException) -> str:
    """Return the type of an error and the innermost places of the project that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f"{Path(f.filename).name}:{f.name}" for f in frames if not any(d in f.filename for d in ("/tests/", "site-packages"))]
    return f"{type(error).__name__} in {' < '.join(list(dict.fromkeys(reversed(ours)))[:2])}"


@contextmanager
def _work_directory() -> Iterator[Path]:
    """Set a directory in memory for the files of a run; it is removed after the run."""
    work = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    before, scratch = tempfile.tempdir, os.environ.get("STATE_PROCESSOR_SCRATCH")
    tempfile.tempdir = str(work)
    os.environ["STATE_PROCESSOR_SCRATCH"] = str(work)
    try:
        yield work
    finally:
        tempfile.tempdir = before
        if scratch is None:
            del os.environ["STATE_PROCESSOR_SCRATCH"]
        else:
            os.environ["STATE_PROCESSOR_SCRATCH"] = scratch
        shutil.rmtree(work, ignore_errors=True)


def table(reports: dict[str, Report]) -> str:
    """Return the counts of all classes as text."""
    names: Sequence[str] = ("class", "inputs", *OUTCOMES, "inputs/s", "slowest s")
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for name, report in reports.items():
        rate = report.inputs / max(report.seconds, 0.001)
        cells = [name, str(report.inputs), *(str(report.counts[o]) for o in OUTCOMES), f"{rate:.0f}", f"{report.slowest:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
