"""A connector in a separate package, installed next to this one and found by its entry point."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGE = Path(__file__).parent / "acme_mailboxes"
PROGRAM = """
import state_processor as sp
from state_processor.backends.connectors.source_splits import written_source

assert "mailboxes" in sp.connectors.names()["sources"]
rows = [{"subtask": 0, "mailbox": "inbox", "next_mail": 7}, {"subtask": None, "mailbox": "sent", "next_mail": 1}]
written = written_source(rows, None, "mailboxes")
expected = {"mailbox": "inbox", "next_mail": 7}
assert sp.connectors.decode("com.acme.MailboxSplitSerializer", 1, written.elements[0][8:]) == expected
assert written.coordinator.endswith(sp.connectors.encode("MailboxSplitSerializer", 1, {"mailbox": "sent", "next_mail": 1}))
print("found")
"""


def test_an_installed_connector_is_found(tmp_path: Path) -> None:
    site = tmp_path / "site"
    copy = shutil.copytree(PACKAGE, tmp_path / "source")  # setuptools writes next to the sources
    install = ["pip", "install", "-q", "--no-deps", "--target", str(site), str(copy)]
    copied = subprocess.run([sys.executable, "-m", *install], capture_output=True, text=True, check=False)
    assert copied.returncode == 0, copied.stderr
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ran.stdout.strip() == "found", ran.stderr
