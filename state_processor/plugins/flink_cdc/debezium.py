"""Table ids and table changes of Debezium, as Flink CDC writes them.

Debezium: ``TableId``. Flink CDC: ``FlinkJsonTableChangeSerializer``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from state_processor.connectors.codecs import TEXT, UTF, Codec, Content, Kept, Mapped, json_bytes_text, json_text
from state_processor.errors import InvalidRowError

CATALOG: Final = "catalog"
SCHEMA: Final = "schema"
TABLE: Final = "table"
_PARTS: Final = (CATALOG, SCHEMA, TABLE)
_OPTIONAL_KEYS: Final = ("nativeType", "length", "scale", "defaultValueExpression")
_LATER_KEYS: Final = ("comment", "hasDefaultValue", "enumValues")
"""Keys that tables and columns lack in the bytes of releases before 2.4. The content lacks them then, too."""
_COLUMN_KEYS: Final = (
    *("name", "jdbcType", "nativeType", "typeName", "typeExpression", "charsetName", "length", "scale", "position", "optional"),
    *("autoIncremented", "generated", "comment", "hasDefaultValue", "defaultValueExpression", "enumValues"),
)


# Ids


def table_id(text: str, quote: str, catalog_first: bool) -> dict[str, Any]:
    """Return the parts of an id.

    Of two parts, the first is the catalog or the schema. Without quotes, points of a name look like those between parts.
    """
    parts = _quoted_parts(text, quote) if quote else text.split(".")
    if len(parts) > 2 and not quote and not catalog_first:
        parts = [parts[0], ".".join(parts[1:])]
    if len(parts) > len(_PARTS):
        parts = [*parts[:2], ".".join(parts[2:])]
    id_: dict[str, Any] = dict.fromkeys(_PARTS)
    names = {1: (TABLE,), 2: (CATALOG if catalog_first else SCHEMA, TABLE)}.get(len(parts), _PARTS)
    return id_ | dict(zip(names, parts, strict=True))


def _quoted_parts(text: str, quote: str) -> list[str]:
    """Return the parts of an id in quotes. A name that begins or ends with a quote is not quoted again."""
    plain = f"{quote}(?:[^{quote}]|{quote}{quote})*{quote}"
    part = f"(?:{plain}|{quote}[^.]*|[^.]*{quote})"
    match = re.fullmatch(rf"({part})(?:\.({part}))?(?:\.({part}))?", text, re.DOTALL)
    if match is None:
        return text.split(".")
    parts = [name for name in match.groups() if name is not None]
    return [
        name[1:-1].replace(quote * 2, quote) if len(name) > 1 and re.fullmatch(plain, name, re.DOTALL) else name for name in parts
    ]


def table_text(content: Content, quote: str) -> str:
    """Return the text of an id."""
    if not isinstance(content, Mapping) or content.get(TABLE) is None:
        raise InvalidRowError(f"a table id needs {', '.join(map(repr, _PARTS))}; found {content!r}")
    parts = [content[name] for name in _PARTS if content.get(name) is not None]
    return ".".join(_in_quotes(part, quote) if quote else part for part in parts)


def _in_quotes(name: str, quote: str) -> str:
    return name if quote in (name[:1], name[-1:]) else quote + name.replace(quote, quote * 2) + quote


def catalog_first(content: Mapping[str, Any]) -> bool:
    """Return the flag ``useCatalogBeforeSchema`` of Flink CDC."""
    return content.get(CATALOG) is not None or content.get(SCHEMA) is None


@cache
def id_codec(quote: str) -> Codec:
    """Return the codec of an id in quotes."""
    return Kept(Mapped(UTF, lambda text: table_id(text, quote, True), lambda content: table_text(content, quote)))


DOUBLE_QUOTED: Final = id_codec('"')
BACK_QUOTED: Final = id_codec("`")


# Changes of tables, offsets


def _change(text: str, first: bool) -> dict[str, Any]:
    change = json.loads(text)
    table = change["table"]
    columns = [
        {key: column.get(key) for key in _COLUMN_KEYS if key in column or key not in _LATER_KEYS} for column in table["columns"]
    ]
    return {
        "type": change["type"],
        "id": table_id(change["id"], '"', first),
        "defaultCharsetName": table["defaultCharsetName"],
        "primaryKeyColumnNames": table["primaryKeyColumnNames"],
        "columns": columns,
        **{key: change[key] for key in ("comment",) if key in change},
    }


def _is_written(column: Mapping[str, Any], key: str) -> bool:
    if key in _OPTIONAL_KEYS:
        return column.get(key) is not None
    return key in column or key not in _LATER_KEYS


def _change_text(content: Content) -> str:
    columns = [{key: column[key] for key in _COLUMN_KEYS if _is_written(column, key)} for column in content["columns"]]
    table = {
        "defaultCharsetName": content["defaultCharsetName"],
        "primaryKeyColumnNames": content["primaryKeyColumnNames"],
        "columns": columns,
    }
    comment = {key: content[key] for key in ("comment",) if key in content}
    return json_text({"type": content["type"], "id": table_text(content["id"], '"'), "table": table, **comment})


@cache
def change_codec(text: Codec, first: bool) -> Codec:
    """Return the codec of a table change."""
    return Kept(Mapped(text, lambda json_text: _change(json_text, first), _change_text))


OFFSET: Final = Kept(Mapped(TEXT, json.loads, json_bytes_text))
"""An offset: names and texts, in the order of Java's ``HashMap``."""
