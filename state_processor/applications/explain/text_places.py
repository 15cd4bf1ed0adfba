"""Places of a snapshot whose bytes name a Java class."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from state_processor.applications.explain.scene import Scene
from state_processor.applications.jobs.contents import NO_CONTENTS
from state_processor.applications.jobs.signature import OperatorSignature, StateSignature
from state_processor.backends.analysis.needles import Needle
from state_processor.backends.analysis.state_search import StateSearch
from state_processor.serializers.errors import StateProcessorError


def places_of_text(
    scene: Scene, text: str, hashes: Collection[str | None]
) -> Iterator[tuple[OperatorSignature, StateSignature | None]]:
    """Yield operators and states whose values, or bytes, have a text. The state is ``None`` for coordinators and raw state."""
    if scene.snapshot is None or scene.old is None or scene.contents is NO_CONTENTS:
        return
    olds = {operator.uid_hash: operator for operator in scene.old.operators}
    for stored in scene.snapshot.metadata.operators:
        operator = olds.get(stored.operator_id)
        if operator is None or stored.operator_id not in hashes:
            continue
        search = StateSearch(scene.snapshot, [Needle.text(text)], [])
        try:
            search.search(stored)
        except StateProcessorError:
            continue
        names = [row["state_name"] for batch in search.hits for row in batch.to_pylist()]
        names += [row["state_name"] for row in search.undecoded if row["count"]]
        for name in dict.fromkeys(names):
            yield operator, (operator.states or {}).get(name or "")
