"""``./dev bench [name ...]``: speed and memory compared with Parquet and targets; ``report`` writes docs/performance.md.

Compared values are measured in one run on one machine; CPU time includes the JVM and all Python workers. ``report`` measures all
benchmarks of one commit on an idle machine. ``--resume`` goes on with a report that was interrupted.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

REPORT = "report"


def main() -> None:
    """Run the named benchmarks, by default all, and write the page on request."""
    # imported here: they are modules of this folder
    import effort
    import report

    names = [name for name, table in report.TABLES.items() if not table.command]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*names, REPORT, []], metavar="|".join((*names, REPORT)))
    parser.add_argument("--quick", action="store_true", help="repeat less, and measure smaller savepoints")
    parser.add_argument("--keys", type=int, nargs="+", metavar="MILLIONS", help="scale: stores of so many keys, without Spark")
    parser.add_argument("--resume", action="store_true", help="report: go on with the run that was interrupted")
    options = parser.parse_intermixed_args()
    if options.quick:
        effort.make_quick()
    if options.keys and options.names != ["scale"]:
        parser.error("--keys is for scale alone")
    if options.resume and options.names != [REPORT]:
        parser.error("--resume is for report alone")
    if REPORT in options.names:
        if options.names != [REPORT] or options.quick:
            parser.error("report measures all benchmarks in whole: it takes no names and no --quick")
        print(report.make(options.resume))
    elif options.keys:
        import_module("many_keys_bench").main(options.keys)
    else:
        for name in options.names or names:
            import_module(f"{name}_bench").main()


if __name__ == "__main__":
    main()
