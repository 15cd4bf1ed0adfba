"""Kill writes at random moments: ``./dev faults --kills 200``."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.campaign import KINDS, Campaign, shares
from tests.faults.driver import APIS


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./dev faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="in all groups together (default: %(default)s)")
    parser.add_argument("--group", dest="groups", choices=[*KINDS], action="append", help="(default: all)")
    parser.add_argument("--kind", dest="kinds", choices=sorted({k for kinds in KINDS.values() for k in kinds}), action="append")
    parser.add_argument("--api", dest="apis", choices=APIS, action="append", help="what writes with Spark (default: all)")
    parser.add_argument("--seed", type=int, help="of the random moments (default: the time)")
    options = parser.parse_args(arguments)
    seed = int(time.time()) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="faults-") as root:
        campaign = Campaign(Path(root), seed, options.kinds or (), options.apis or APIS)
        try:
            for group, kills in shares(options.kills, options.groups or [*KINDS]):
                campaign.run(group, kills)
        finally:
            report = campaign.report
            print(report.table())
            for error, count in report.errors.most_common():
                print(f"{count} x {error}")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
