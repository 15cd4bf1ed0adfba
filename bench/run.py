"""``./dev bench [read|metadata|write|encode|cold|plan]``: speed and memory against Parquet and the stated targets.

Everything compared is measured in one run on one machine; CPU time counts the JVM and all Python workers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "interop")]


def main() -> None:
    """Run the benchmarks that are named, by default all."""
    import cold_bench
    import encode_bench
    import metadata_bench
    import plan_bench
    import read_bench
    import write_bench

    benches = {
        "read": read_bench.main,
        "write": write_bench.main,
        "metadata": metadata_bench.main,
        "encode": encode_bench.main,
        "cold": cold_bench.main,
        "plan": plan_bench.main,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*benches, []], metavar="|".join(benches))
    for name in parser.parse_args().names or benches:
        benches[name]()


if __name__ == "__main__":
    main()
