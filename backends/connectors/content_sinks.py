"""Sinks whose committables are layouts, and whose writers keep no state."""

from __future__ import annotations

from typing import Any

from state_processor.backends.connectors.connector import Format, Formats, Values
from state_processor.backends.connectors.content_rows import RAW, VERSION, Part, changed_content, row_of
from state_processor.backends.connectors.layouts.choices import Versions
from state_processor.backends.connectors.layouts.codecs import Codec, read_all
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.io import DataInput, DataOutput


def committables(what: str, versions: Versions, *parts: Part) -> dict[str, Any]:
    """Return the arguments of a sink connector with committables of a layout. Each committable is a row."""
    fields = tuple(p.field for p in parts)

    def formats(codec: Codec) -> Format[Values]:
        def write(row: Values, target: DataOutput) -> None:
            if row.get(RAW) is None or row.get(VERSION) not in versions:
                raise InvalidRowError(f"{what} can't be added; keep the columns 'version' and 'raw'")
            base = read_all(versions[row[VERSION]], DataInput(bytes(row[RAW]), f"{what}, raw"))
            codec.write(changed_content(parts, base, row), target)

        return Format(lambda source: row_of(parts, codec.read(source)), write)

    return {
        "fields": fields,
        "committables": Formats(what, {version: (formats(codec),) for version, codec in versions.items()}),
    }
