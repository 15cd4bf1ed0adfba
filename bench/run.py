"""``./dev bench [name ...]``: speed and memory against Parquet and the stated targets; ``report`` writes docs/performance.md.

Everything compared is measured in one run on one machine; CPU time counts the JVM and all Python workers.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "interop")]

BENCHES = ("read", "write", "native", "metadata", "encode", "cold", "plan", "lookup", "scale", "kernel")
"""Each is a module of this folder, whose ``main`` prints a table and returns its figures."""
REPORT = "report"


def main() -> None:
    """Run the benchmarks that are named, by default all; ``report`` runs all and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, REPORT, []], metavar="|".join((*BENCHES, REPORT)))
    names = parser.parse_args().names or list(BENCHES)
    load = os.getloadavg()[0]
    benches = {name: import_module(f"{name}_bench").main() for name in (BENCHES if REPORT in names else names)}
    if REPORT in names:
        import report

        print(report.write_page(benches, load))


if __name__ == "__main__":
    main()
