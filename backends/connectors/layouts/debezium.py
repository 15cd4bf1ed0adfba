"""Table ids and table changes of Debezium, as Flink CDC writes them.

Debezium: ``TableId``. Flink CDC: ``FlinkJsonTableChangeSerializer``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from state_processor.backends.connectors.layouts.choices import Kept
from state_processor.backends.connectors.layouts.codecs import TEXT, UTF, Codec, Content, Mapped
from state_processor.serializers.errors import InvalidRowError

CATALOG: Final = "catalog"
SCHEMA: Final = "schema"
TABLE: Final = "table"
_PARTS: Final = (CATALOG, SCHEMA, TABLE)
_OPTIONAL_KEYS: Final = ("nativeType", "length", "scale", "defaultValueExpression")
_COLUMN_KEYS: Final = (
    *("name", "jdbcType", "nativeType", "typeName", "typeExpression", "charsetName", "length", "scale", "position", "optional"),
    *("autoIncremented", "generated", "comment", "hasDefaultValue", "defaultValueExpression", "enumValues"),
)


# Ids


def table_id(text: str, quote: str, catalog_first: bool) -> dict[str, Any]:
    """Return the parts of an id; of two parts, the first is the catalog or the schema."""
    parts = _quoted_parts(text, quote) if quote else text.split(".")
    if len(parts) > len(_PARTS):
        parts = [*parts[:2], ".".join(parts[2:])]
    found: dict[str, Any] = dict.fromkeys(_PARTS)
    names = {1: (TABLE,), 2: (CATALOG if catalog_first else SCHEMA, TABLE)}.get(len(parts), _PARTS)
    return found | dict(zip(names, parts, strict=True))


def _quoted_parts(text: str, quote: str) -> list[str]:
    part = f"{quote}(?:[^{quote}]|{quote}{quote})*{quote}"
    if not re.fullmatch(rf"{part}(?:\.{part}){{0,2}}", text, re.DOTALL):
        return text.split(".")
    return [found[1:-1].replace(quote * 2, quote) for found in re.findall(part, text, re.DOTALL)]


def table_text(content: Content, quote: str) -> str:
    """Return the text of an id."""
    if not isinstance(content, Mapping) or content.get(TABLE) is None:
        raise InvalidRowError(f"a table id needs {', '.join(map(repr, _PARTS))}; found {content!r}")
    parts = [content[name] for name in _PARTS if content.get(name) is not None]
    return ".".join(quote + part.replace(quote, quote * 2) + quote if quote else part for part in parts)


def catalog_first(content: Mapping[str, Any]) -> bool:
    """Return the flag ``useCatalogBeforeSchema`` of Flink CDC."""
    return content.get(CATALOG) is not None or content.get(SCHEMA) is None


@cache
def id_codec(quote: str) -> Codec:
    """Return the codec of an id in quotes."""
    return Kept(Mapped(UTF, lambda text: table_id(text, quote, True), lambda content: table_text(content, quote)))


DOUBLE_QUOTED: Final = id_codec('"')
BACK_QUOTED: Final = id_codec("`")


# JSON


def json_text(value: Any) -> str:
    """Return JSON as Jackson writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])", lambda found: f"{found[1]}\\u00{found[2].upper()}", text)


def _change(text: str, first: bool) -> dict[str, Any]:
    found = json.loads(text)
    table = found["table"]
    columns = [{key: column.get(key) for key in _COLUMN_KEYS} for column in table["columns"]]
    return {
        "type": found["type"],
        "id": table_id(found["id"], '"', first),
        "defaultCharsetName": table["defaultCharsetName"],
        "primaryKeyColumnNames": table["primaryKeyColumnNames"],
        "columns": columns,
        "comment": found["comment"],
    }


def _change_text(content: Content) -> str:
    columns = [
        {key: column[key] for key in _COLUMN_KEYS if key not in _OPTIONAL_KEYS or column.get(key) is not None}
        for column in content["columns"]
    ]
    table = {
        "defaultCharsetName": content["defaultCharsetName"],
        "primaryKeyColumnNames": content["primaryKeyColumnNames"],
        "columns": columns,
    }
    return json_text(
        {"type": content["type"], "id": table_text(content["id"], '"'), "table": table, "comment": content["comment"]}
    )


@cache
def change_codec(text: Codec, first: bool) -> Codec:
    """Return the codec of a table change."""
    return Kept(Mapped(text, lambda found: _change(found, first), _change_text))


OFFSET: Final = Kept(Mapped(TEXT, json.loads, json_text))
"""An offset: names and texts, in the order of Java's ``HashMap``."""
