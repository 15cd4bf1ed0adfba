"""The page docs/connectors.md as the descriptions of connectors describe it.

``./dev generate`` writes the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from state_processor import connectors
from state_processor.backends.connectors.connector import Connector, Formats, SinkConnector
from state_processor.backends.connectors.registry import CONSUMER, built_in
from state_processor.serializers.kernel.encode.conversion_table import spark_name

INTRODUCTION = """\
# Sources and sinks

The argument `connector` of `read_source_splits` and `read_sink_state` names a connector. Their tables have its columns. Without
`connector`, a connector is chosen if its formats fit all bytes. `sp.connectors.register` adds
[custom connectors](how-to/custom-connectors.md).
If a source has the column `enumerator`, it is JSON in a row of its own: the state of the enumerator without its lists of splits.

`NAME-consumer` reads the state of an older source in the columns of its successor. `raw` reads bytes.

`./dev generate` writes this page.
"""

SERIALIZERS = """\
## Serializers of single values

`sp.connectors.decode` and `sp.connectors.encode` know the values of these serializers.
"""


def page() -> str:
    """Return the page."""
    sources = [_source(connector) for connector in built_in() if isinstance(connector, Connector)]
    sinks = [_sink(connector) for connector in built_in() if isinstance(connector, SinkConnector)]
    parts = [INTRODUCTION, "## Sources\n", *sources, "## Sinks\n", *sinks, SERIALIZERS]
    known = connectors.serializers()
    rows = [(f"`{name}`", _numbers(versions)) for name, versions in known.items()]
    return "\n".join([*parts, _table(("class", "versions"), rows)])


def _source(connector: Connector) -> str:
    rows = []
    if connector.consumer is not None:
        rows.append(("older source", f"`{connector.name}{CONSUMER}` reads the state of `{connector.consumer.what}`"))
    return _section(connector, (connector.splits, connector.enumerator), rows)


def _sink(connector: SinkConnector) -> str:
    own = () if connector.own_committer is None else (connector.own_committer,)
    return _section(connector, (connector.writer, connector.committables, *own))


def _section(connector: Connector | SinkConnector, formats: Iterable[Formats[Any]], more: Iterable[tuple[str, str]] = ()) -> str:
    about = connector.about.replace("``", "`")
    versions = "; ".join(f"{one.what} {_numbers(one.by_version)}" for one in formats if one.by_version)
    written = ", ".join(dict.fromkeys(f"`{name.rpartition('.')[2]}`" for name in connector.layouts))
    rows = [
        ("columns", ", ".join(f"`{f.name}` {_type(f.type)}" for f in connector.fields)),
        ("versions", versions),
        *([("serializers", written)] if written else ()),
        *more,
    ]
    return "\n".join([f"### {connector.name}\n", *([f"{about}\n"] if about else ()), _table(("", ""), rows)])


def _type(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"array of {_type(type_.value_type)}"
    if pa.types.is_struct(type_):
        return f"struct ({', '.join(f'{f.name} {_type(f.type)}' for f in type_)})"
    return spark_name(type_)


def _numbers(versions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(versions)))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
