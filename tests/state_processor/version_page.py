"""The page docs/format-versions.md as the tables of versions describe it.

``./dev generate`` writes the page.
"""

from __future__ import annotations

from collections.abc import Iterable

from state_processor.backends.connectors.connector import COORDINATOR_STATE
from state_processor.backends.formats.changelog_log import STATE_METADATA
from state_processor.backends.formats.raw_timers import RAW_TIMERS
from state_processor.backends.metadata.properties import PROPERTIES
from state_processor.backends.metadata.snapshot_metadata import METADATA
from state_processor.backends.read.raw_state import CHANNEL_STATE
from state_processor.backends.state.state_headers import KEYED_STATE, OPERATOR_STATE, SERIALIZER_SNAPSHOTS
from state_processor.serializers.base import NESTED_SNAPSHOTS
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.format_versions import ADAPTER_VERSION, FLINK_PACKAGES, NEWEST_FLINK, FormatVersions
from tests.serializers.harness import snapshot_versions

STRUCTURES = (
    METADATA,
    PROPERTIES,
    KEYED_STATE,
    OPERATOR_STATE,
    SERIALIZER_SNAPSHOTS,
    NESTED_SNAPSHOTS,
    STATE_METADATA,
    RAW_TIMERS,
    CHANNEL_STATE,
    COORDINATOR_STATE,
)

INTRODUCTION = f"""\
# Versions of Flink's formats

Flink writes a version number before each structure whose layout may change. The tables list the versions that are read. Any other
version is an `UnsupportedFormatError`; its message names the structure, the version, and the Flink that probably wrote it. Other
states of the same operator stay readable where the end of the unknown snapshot can be found.

The tables were compared with the releases 1.9 to {NEWEST_FLINK}. "Flink 1.11" means that 1.11 is the first release series that
writes the version. Versions of later releases come from Flink's development branch.

`./dev generate` writes this page.
"""

SNAPSHOTS = f"""\
## Serializer snapshots

Other classes are read if you register them with `register_snapshot`. Your class declares the versions that it reads
in `versions`, and a composite one also in `outer_versions`. Names begin with `{FLINK_PACKAGES}`, those of flink-scala-api
are complete. The versions of other libraries follow their source.

The outer part of a composite snapshot precedes its nested snapshots and has its own version. Flink 1.7 wrote versions 1 and 2 of
composite snapshots, where both versions are the same.
"""


def page() -> str:
    versions = snapshot_versions()
    assert all(scalar.serializer.snapshot_class in versions for scalar in SCALARS.values())
    structures = table(("structure", "versions"), ((f"{s.title}", s.listed) for s in STRUCTURES))
    classes = table(
        ("class", "versions", "outer versions"),
        (
            (f"`{name.removeprefix(FLINK_PACKAGES)}`", shown(known.own), shown(known.outer) if known.outer else "")
            for name, known in sorted(versions.items())
        ),
    )
    return "\n".join([INTRODUCTION, f"## Structures\n\n{structures}", SNAPSHOTS, classes])


def shown(versions: FormatVersions) -> str:
    return versions.listed.replace(str(ADAPTER_VERSION), "a serializer in Java serialization")


def table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (heading, ["---"] * len(heading), *rows))
