"""Differences and sizes of keys, compared with reads of the same savepoints.

Targets: a difference of two savepoints of 1,000,000 keys with 1,000 changes takes at most 2.5 times the CPU time of one read.
Sizes of 5,000,000 keys take at most 1.2 times the CPU time of a read of the keys. ``first`` is the first call of a new process or
session, without its start; ``later`` is the median of later calls. Spark's workers are included.

``python bench/ask_bench.py process,spark long_long,string_pojo canonical,heap,rocksdb`` also measures questions through Spark.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from effort import effort
from figures import Figure
from processes import usage

CACHE: Final = Path(__file__).parent.parent / ".cache" / "bench" / "ask"
KINDS: Final = ("long_long", "string_pojo")
FORMATS: Final[dict[str, dict[str, str]]] = {
    "canonical": {},
    "heap": {"format": "native", "backend": "hashmap"},
    "rocksdb": {"format": "native", "backend": "rocksdb"},
}
OLD, NEW, MANY = "old", "new", "many"
COMPARED, CHANGED, MEASURED = 1_000_000, 1_000, 5_000_000
REPEATS: Final = effort(3, 1)
QUESTIONS: Final = {("read", "diff"): 2.5, ("read keys", "sizes"): 1.2}
ENGINES: Final = ("process",)
Actions = dict[str, Callable[[], object]]


def directory(kind: str, form: str, role: str) -> Path:
    """Return the path of a savepoint."""
    return CACHE / f"{kind}-{form}-{role}"


def write_savepoints(kind: str) -> None:
    """Write the missing savepoints of a kind."""
    from read_bench import session
    from write_bench import CORES, TYPES, rows

    import state_processor as sp

    spark = session(CORES)
    key, value = TYPES[kind]
    for role in (OLD, NEW, MANY):
        count, every = (MEASURED, 0) if role == MANY else (COMPARED, COMPARED // CHANGED if role == NEW else 0)
        for form, options in FORMATS.items():
            if (directory(kind, form, role) / "_metadata").exists():
                continue
            writer = sp.SavepointWriter.new(spark)
            frame = rows(spark, kind, count, every)
            writer.with_keyed_state("bench", frame, key_type=key, states={"value": value}, parallelism=4)
            writer.write(directory(kind, form, role), **options)  # type: ignore[arg-type]


def in_process(kind: str, form: str) -> Actions:
    """Return the actions without Spark."""
    import state_processor as sp

    old, new, many = (str(directory(kind, form, role)) for role in (OLD, NEW, MANY))

    def counted(batches: Any) -> int:
        return sum(batch.num_rows for batch in batches)

    return {
        "read": lambda: counted(sp.arrow.read_state(old, "bench", "value")),
        "diff": lambda: counted(sp.arrow.diff(old, new, "bench", "value")),
        "read keys": lambda: counted(sp.arrow.read_state(many, "bench", "value", columns=["key"])),
        "sizes": lambda: sum(sp.arrow.size_report(many, "bench", "key").column("entries").to_pylist()),
    }


def in_spark(kind: str, form: str) -> Actions:
    """Return the actions through Spark; their rows arrive in the JVM."""
    from pyspark.sql import functions as f
    from read_bench import session

    import state_processor as sp

    spark = session(2)
    spark.range(10).count()
    old, new, many = (str(directory(kind, form, role)) for role in (OLD, NEW, MANY))

    def counted(frame: Any) -> int:
        return int(frame.agg(*(f.count(c) for c in frame.columns)).first()[0])

    def read(path: str, **options: Any) -> Any:
        return sp.SavepointReader.read(spark, path).read_keyed_state("bench", "value", **options)

    return {
        "read": lambda: counted(read(old)),
        "diff": lambda: counted(sp.diff(spark, old, new, "bench", "value")),
        "read keys": lambda: counted(read(many, columns=["key"])),
        "sizes": lambda: sum(r.entries for r in sp.SavepointReader.read(spark, many).size_report("bench", "key").collect()),
    }


EXPECTED: Final = {"read": COMPARED, "diff": CHANGED, "read keys": MEASURED, "sizes": 20}


def measure(engine: str, kind: str, form: str, names: Sequence[str]) -> dict[str, Any]:
    """Run actions in turns in this new process; return the CPU seconds of the very first run, and of later runs."""
    actions = (in_process if engine == "process" else in_spark)(kind, form)
    runs: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(REPEATS + 1):
        for name in names:
            before = usage().cpu_seconds
            if (found := actions[name]()) != EXPECTED[name]:
                raise AssertionError(f"{name} of {kind}, {form}: {EXPECTED[name]} expected, found {found}")
            runs[name].append(usage().cpu_seconds - before)
    return {"first": runs[names[0]][0], "later": {name: statistics.median(cpu[1:]) for name, cpu in runs.items()}}


def in_new_process(*arguments: str) -> Any:
    """Run this program with arguments and return its output."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def main(engines: Sequence[str] = ENGINES, kinds: Sequence[str] = KINDS, forms: Sequence[str] = tuple(FORMATS)) -> list[Figure]:
    """Measure each question with each engine, kind and format in separate processes, and print a table."""
    print(f"{'CPU s':44}{'first':>8}{'read':>8}{'ratio':>7}{'later':>10}{'read':>8}{'ratio':>7}", flush=True)
    figures = []
    for kind in kinds:
        in_new_process("write", kind)
        for form in forms:
            for engine in engines:
                for (reading, asking), target in QUESTIONS.items():
                    one = in_new_process("measure", engine, kind, form, reading, asking)
                    two = in_new_process("measure", engine, kind, form, asking, reading)
                    first = {reading: one["first"], asking: two["first"]}
                    later = {n: statistics.mean(r["later"][n] for r in (one, two)) for n in (reading, asking)}
                    what = f"{asking}, {kind}, {form}, {engine}"
                    cells = [(t[asking], t[reading], t[asking] / t[reading]) for t in (first, later)]
                    text = "  ".join(f"{a:8.2f}{b:8.2f}{ratio:7.2f}" for a, b, ratio in cells)
                    print(f"{what:44}{text}", flush=True)
                    for when, times in (("first", first), ("later", later)):
                        figures.append(Figure(f"{what}, {when}", times[asking], "CPU s", (times[reading], reading), target))
    return figures


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "interop"))
    match sys.argv[1:]:
        case ["write", kind]:
            write_savepoints(kind)
            print("null")
        case ["measure", engine, kind, form, *names]:
            print(json.dumps(measure(engine, kind, form, names)))
        case [engines, kinds, forms]:
            main(engines.split(","), kinds.split(","), forms.split(","))
