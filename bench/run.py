"""``./dev bench [name ...]``: speed and memory against Parquet and the stated targets; ``report`` writes docs/performance.md.

Everything compared is measured in one run on one machine; CPU time counts the JVM and all Python workers. ``report`` keeps the
figures of each benchmark when it ends. The page has what is kept: ``./dev bench report read write`` measures these two anew, and
``--resume`` measures only what is not kept yet.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

BENCHES = ("read", "write", "native", "metadata", "encode", "cold", "plan", "lookup", "scale", "kernel", "flink", "ask")
"""Each is a module of this folder, whose ``main`` prints a table and returns its figures."""
REPORT = "report"


def main() -> None:
    """Run the benchmarks that are named, by default all, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, REPORT, []], metavar="|".join((*BENCHES, REPORT)))
    parser.add_argument("--quick", action="store_true", help="repeat less, and measure smaller savepoints")
    parser.add_argument("--resume", action="store_true", help="report: leave out what has been measured")
    options = parser.parse_intermixed_args()
    # imported here: they are of this folder
    import effort
    import report

    if options.quick:
        effort.make_quick()
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
