"""Run many seeds: ``python -m tests.interop.differential --seeds 500``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.interop.differential.cases import VERSION, case_of
from tests.interop.differential.running import (
    BACKENDS,
    DIRECTIONS,
    FORST,
    SPARK,
    VERSIONS,
    Setting,
    run,
    settings,
    shrunk,
    slices,
)

_SLICE = 25
_BY_SPARK = 25  # Spark writes every so many seeds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./dev differential", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many (default: %(default)s)")
    parser.add_argument("--start", type=int, default=0, help="the first (default: %(default)s)")
    parser.add_argument("--direction", choices=DIRECTIONS, action="append", help="(default: all)")
    parser.add_argument("--version", choices=VERSIONS, action="append", help="of Flink (default: all)")
    parser.add_argument("--backend", choices=(*BACKENDS, FORST[1]), action="append", help="of the job (default: all)")
    parser.add_argument("--no-shrinking", action="store_true", help="print what differs as it is")
    options = parser.parse_args(arguments)
    failed = 0
    for direction in options.direction or DIRECTIONS:
        versions, backends = options.version or VERSIONS, options.backend or (*BACKENDS, FORST[1])
        where = [s for s in settings(direction) if s.version in versions and s.backend in backends]
        step = _BY_SPARK if direction == SPARK else 1
        seeds = range(-(-options.start // step) * step, options.start + options.seeds, step)
        failed += _run(where, seeds, not options.no_shrinking) if seeds else 0
    return 1 if failed else 0


def _run(where: Sequence[Setting], seeds: range, shrinking: bool) -> int:
    """The number of seeds that differ in each setting, added up."""
    direction = where[0].direction
    failed = dict.fromkeys(where, 0)
    counts: Counter[str] = Counter()
    for part in slices(seeds, _SLICE):
        began = time.monotonic()
        print(f"{direction}: seeds {part[0]} to {part[-1]}, generator {VERSION}", flush=True)
        problems = run([case_of(seed, direction) for seed in part], where, counts=counts)
        for (number, setting), found in sorted(problems.items(), key=str):
            failed[setting] += 1
            print(f"FAILED: seed {part[number]}, {setting}:", *found[:3], sep="\n", flush=True)
        if shrinking:
            for number in sorted({number for number, _ in problems}):
                setting = next(setting for failing, setting in problems if failing == number)
                case, found = shrunk(case_of(part[number], direction), setting)
                print(f"seed {part[number]}, {setting}, shrunk:", json.dumps(case)[:4000], *found[:1], sep="\n", flush=True)
        print(f"{direction}: {len(part)} seeds in {time.monotonic() - began:.0f} s; all: {dict(counts)}", flush=True)
    for setting, count in failed.items():
        print(f"{setting}: {len(seeds) - count} of {len(seeds)}", flush=True)
    return sum(failed.values())


if __name__ == "__main__":
    sys.exit(main())
