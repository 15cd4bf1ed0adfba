"""Known vulnerabilities of the packages in the environment of the tests, where the package index tells of them.

``./dev lint`` runs it. What is installed is the lock of the tests: the newest versions that pyproject.toml allows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SECONDS = 120


def main() -> int:
    with TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        command = [sys.executable, "-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner", "off"]
        try:
            done = subprocess.run(
                [*command, "--timeout", "10", "--format", "json", "--output", str(report)],
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
            said = done.stderr.strip().splitlines()
        except subprocess.TimeoutExpired:
            said = [f"no answer in {SECONDS} seconds"]
        code, lines = verdict(report.read_text() if report.exists() else "", said[-1] if said else "")
    print("\n".join(lines))
    return code


def verdict(report: str, said: str) -> tuple[int, list[str]]:
    """Exit code and summary for the report of pip-audit; the last line of its output without a report."""
    if not report:
        return 0, [f"vulnerabilities are not checked: pip-audit has no report ({said})"]
    packages = json.loads(report)["dependencies"]
    checked = [p for p in packages if "skip_reason" not in p]
    if not checked:
        return 0, ["vulnerabilities are not checked: the package index tells of none of the packages"]
    found = [
        f"{p['name']} {p['version']}: {v['id']}, mended in {', '.join(v['fix_versions']) or 'no version'}"
        for p in checked
        for v in p["vulns"]
    ]
    return int(bool(found)), found or [f"no known vulnerabilities in {len(checked)} of {len(packages)} packages"]


if __name__ == "__main__":
    raise SystemExit(main())
