"""``./dev bench [name ...]``: speed and memory compared with Parquet and targets; ``report`` writes docs/performance.md.

Compared values are measured in one run on one machine; CPU time includes the JVM and all Python workers. ``report`` stores the
figures of each benchmark at its end. The page contains all stored figures: ``./dev bench report read write`` repeats these two
benchmarks, and ``--resume`` runs only missing benchmarks.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

BENCHES = (
    "read",
    "write",
    "engines",
    "native",
    "metadata",
    "encode",
    "cold",
    "plan",
    "lookup",
    "scale",
    "listing",
    "kernel",
    "flink",
    "ask",
    "changes",
    "serve",
)
"""Modules of this folder. Their ``main`` prints a table and returns figures."""
REPORT = "report"


def main() -> None:
    """Run the named benchmarks, by default all, and write the page on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, REPORT, []], metavar="|".join((*BENCHES, REPORT)))
    parser.add_argument("--quick", action="store_true", help="repeat less, and measure smaller savepoints")
    parser.add_argument("--keys", type=int, nargs="+", metavar="MILLIONS", help="scale: stores of so many keys, without Spark")
    parser.add_argument("--resume", action="store_true", help="report: leave out what has been measured")
    options = parser.parse_intermixed_args()
    # imported here: they are modules of this folder
    import effort
    import report

    if options.quick:
        effort.make_quick()
    if options.keys:
        if options.names != ["scale"]:
            parser.error("--keys is for scale alone")
        import_module("many_keys_bench").main(options.keys)
        return
    names = [name for name in BENCHES if name in options.names] or list(BENCHES)
    if REPORT not in options.names:
        for name in names:
            import_module(f"{name}_bench").main()
        return
    for name in names:
        if not (options.resume and report.is_kept(name)):
            with report.kept(name) as figures:
                figures += import_module(f"{name}_bench").main()
    print(report.write_page(BENCHES))


if __name__ == "__main__":
    main()
