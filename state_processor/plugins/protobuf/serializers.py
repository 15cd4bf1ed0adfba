"""All snapshot classes of Stateful Functions, and the releases of Stateful Functions that first wrote their versions."""

from __future__ import annotations

from typing import Final

from state_processor.plugins.protobuf import sized_messages, statefun
from state_processor.serializers.extension import declared_versions

_ADVICE: Final = "restore it with that version of Stateful Functions, and take a new savepoint with a later one"

SNAPSHOTS: Final = {**sized_messages.SNAPSHOTS, **statefun.SNAPSHOTS}
VERSIONS: Final = {
    name: declared_versions(name, releases, None, "Stateful Functions", _ADVICE)
    for name, releases in (
        (sized_messages.STATEFUN_SNAPSHOT, {1: "2.0"}),
        (statefun.REMOTE_VALUE_SNAPSHOT, {1: "3.0"}),
        (statefun.MESSAGE_SNAPSHOT, {1: "2.0", 2: ""}),
    )
}
