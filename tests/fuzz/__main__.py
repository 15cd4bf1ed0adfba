"""Read damaged input of all kinds: ``./dev fuzz --minutes 5``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.campaign import FINE, Report, run_class, table
from tests.fuzz.targets import TARGETS

_KEPT = Path(__file__).resolve().parents[2] / ".cache" / "fuzz"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="for all classes together (default: no limit, or 5 without --inputs)")
    parser.add_argument("--inputs", type=int, help="inputs of each class (default: no limit)")
    parser.add_argument("--class", dest="classes", choices=[*TARGETS], action="append", help="(default: all)")
    parser.add_argument("--seed", type=int, help="of the random inputs; equal seeds give equal inputs (default: the time)")
    parser.add_argument("--start", type=int, default=0, help="number of the first input (default: %(default)s)")
    parser.add_argument("--keep", type=Path, default=_KEPT, help="directory for failures (default: %(default)s)")
    options = parser.parse_args(arguments)
    minutes = options.minutes or (24 * 60 if options.inputs else 5)
    number = int(time.time()) if options.seed is None else options.seed
    classes = options.classes or [*TARGETS]
    print(f"seed {number}", flush=True)
    reports: dict[str, Report] = {}
    end = time.monotonic() + 60 * minutes
    for place, name in enumerate(classes):
        now = time.monotonic()
        share = (end - now) / (len(classes) - place)
        report = run_class(name, options.inputs or sys.maxsize, now + share, number, options.keep, options.start)
        reports[name] = report
        bad = {o: n for o, n in report.counts.items() if n and o not in FINE}
        print(f"{name}: {report.inputs} inputs in {report.seconds:.0f} s{f', {bad}' if bad else ''}", flush=True)
        for failure in report.failures.values():
            print(f"  {failure.outcome}: {failure.signature}: {failure.message[:300]}", flush=True)
    print(table(reports))
    return 1 if any(r.failures for r in reports.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
