"""Files of the repository that follow from the code. ``./dev generate [file ...]`` writes all or the named ones."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

GENERATED: Final = {
    "state_processor/options/groups.py": "state_processor.options.option_groups",
    "docs/options.md": "state_processor.options.option_pages",
    "docs/command-line.md": "state_processor.command_page",
    "docs/format-versions.md": "state_processor.version_page",
    "docs/connectors.md": "backends.connectors.connector_page",
    "docs/reference/sql-state.md": "state_processor.read.sql_table",
    "docs/conversions.md": "serializers.kernel.test_conversions",
    "docs/kernel-instructions.md": "serializers.kernel.test_opcodes",
    "docs/support.md": "support_matrix",
    "docs/plugins/index.md": "plugin_index",
    "docs/llms.txt": "llms_page",
}
"""The files, and the modules of ``tests`` whose function ``page`` returns their text."""


def text(path: str) -> str:
    """The text that a file should have."""
    page: str = import_module(f"tests.{GENERATED[path]}").page()
    return page


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - GENERATED.keys()
    if unknown:
        sys.exit(f"{', '.join(unknown)}: not a generated file; these are: {', '.join(GENERATED)}")
    for path in sys.argv[1:] or GENERATED:
        if (ROOT / path).read_text("utf-8") != text(path):
            (ROOT / path).write_text(text(path), "utf-8")
            print(path)
