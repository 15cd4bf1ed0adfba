"""Pages at former addresses, which lead to the pages that have moved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

MOVED: Final = {
    "how-to/flink-cdc": "plugins/flink_cdc",
    "how-to/forget-a-user": "how-to/find-and-erase",
    "how-to/kinesis": "plugins/aws",
    "how-to/table-formats": "plugins/iceberg",
}
"""The present addresses of pages by their former ones."""


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages (an event of MkDocs)."""
    for former, address in MOVED.items():
        page = Path(config["site_dir"], former, "index.html")
        page.parent.mkdir(parents=True, exist_ok=True)
        target = f"../../{address}/"
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">'
            f'<title>Moved</title><a href="{target}">This page has moved.</a>\n',
            "utf-8",
        )
