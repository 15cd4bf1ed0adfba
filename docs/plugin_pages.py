"""Pages of plug-ins in the navigation of the site: all pages of ``docs/plugins``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

PLUGINS: Final = Path(__file__).resolve().parent / "plugins"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages to the group of plug-ins (an event of MkDocs)."""
    group = next(entry["Plug-ins"] for entry in config.nav or () if "Plug-ins" in entry)
    group += [{title: path} for title, path in pages().items()]
    return config


def pages() -> dict[str, str]:
    """Return the paths of the pages by their titles."""
    files = [file for file in sorted(PLUGINS.glob("*.md")) if file.name != "index.md"]
    titles = [file.read_text("utf-8").partition("\n")[0].removeprefix("# ") for file in files]
    return {title: f"plugins/{file.name}" for title, file in zip(titles, files, strict=True)}
