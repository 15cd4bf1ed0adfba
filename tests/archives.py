"""Stored fixtures: one archive for all variants of a case, unpacked once for each content.

The variants of a case hold the same bytes over and over, so that together they take little more than one of them.
"""

from __future__ import annotations

import hashlib
import lzma
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
ARCHIVES = ROOT / "tests" / "fixtures" / "packed"
UNPACKED = ROOT / ".cache" / "fixtures"


def pack(archive: Path, directories: Sequence[Path]) -> None:
    """Store directories under their names: equal contents give equal archives."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for directory in sorted(directories):
            for path in [directory, *sorted(directory.rglob("*"))]:
                tar.add(path, path.relative_to(directory.parent).as_posix(), recursive=False, filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


@cache
def unpacked(kind: str = "cases") -> Path:
    """Return the directory with the contents of all archives of a kind, ``VERSION/...``, unpacked unless it is there."""
    archives = sorted((ARCHIVES / kind).glob("*/*.tar.xz"))
    digest = hashlib.sha256()
    for archive in archives:
        digest.update(archive.relative_to(ARCHIVES).as_posix().encode() + b"\0" + archive.read_bytes())
    target = UNPACKED / f"{kind}-{digest.hexdigest()[:12]}"
    if not target.is_dir():
        UNPACKED.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{kind}-", dir=UNPACKED))
        work.chmod(0o755)
        for archive in archives:
            with tarfile.open(archive) as tar:
                tar.extractall(work / archive.parent.name, filter="data")
        try:
            work.rename(target)
        except OSError:  # another process was first
            shutil.rmtree(work)
    return target
