"""Copies of fixtures with an unknown class of serializer snapshots."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.state_processor.samples import FIXTURES

POJO: Final = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"
LONG: Final = "org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot"
STRING: Final = "org.apache.flink.api.common.typeutils.base.StringSerializer$StringSerializerSnapshot"


def unknown(class_name: str) -> str:
    """Return an unknown class name of the same length."""
    return "com.acme." + class_name[len("com.acme.") :]


def with_unknown_class(source: str | Path, class_name: str, to: Path) -> Path:
    """Copy a snapshot, replace a class name in all files, and return the directory of the copy.

    ``source``: its directory, or the name of a fixture of Flink 2.3.0.
    """
    top = FIXTURES / "2.3.0" / source / "savepoint" if isinstance(source, str) else source
    (metadata,) = top.rglob("_metadata")
    shutil.copytree(top, to)
    number = 0
    for file in (path for path in to.rglob("*") if path.is_file()):
        data = file.read_bytes()
        number += data.count(class_name.encode())
        file.write_bytes(data.replace(class_name.encode(), unknown(class_name).encode()))
    assert number
    return to / metadata.parent.relative_to(top)
