from __future__ import annotations

import json
from typing import Any

import pytest

from tests.packaging.audit import verdict

SAFE = {"name": "numpy", "version": "2.0", "vulns": []}
UNKNOWN = {"name": "mine", "skip_reason": "not found on PyPI"}
UNSAFE = {
    "name": "requests",
    "version": "2.19.0",
    "vulns": [{"id": "PYSEC-2018-28", "fix_versions": ["2.20.0"]}, {"id": "GHSA-x", "fix_versions": []}],
}


@pytest.mark.parametrize(
    ("packages", "code", "words"),
    [
        ([SAFE, UNKNOWN], 0, ["no known vulnerabilities in 1 of 2 packages"]),
        ([UNKNOWN], 0, ["vulnerabilities are not checked: the package index tells of none of the packages"]),
        (
            [SAFE, UNSAFE],
            1,
            ["requests 2.19.0: PYSEC-2018-28, mended in 2.20.0", "requests 2.19.0: GHSA-x, mended in no version"],
        ),
    ],
)
def test_reports(packages: list[dict[str, Any]], code: int, words: list[str]) -> None:
    assert verdict(json.dumps({"dependencies": packages, "fixes": []}), "") == (code, words)


def test_no_report() -> None:
    code, (words,) = verdict("", "ERROR: Could not connect to PyPI")
    assert code == 0
    assert words == "vulnerabilities are not checked: pip-audit has no report (ERROR: Could not connect to PyPI)"
