"""Ids of the operators in the graph of a job, computed as Flink does; a graph that Flink prints lacks most of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice, permutations
from typing import Final

from state_processor.applications.jobs.job_graph import FORWARD, GraphInput, GraphNode, JobGraph
from state_processor.backends.metadata.operator_id import HashedNode, graph_hashes

_MOST_ORDERS: Final = 720
"""The maximal number of orders of sources that are tried. The REST interface does not show the numbers of sources."""


def with_hashes(graph: JobGraph, ids: Collection[str]) -> JobGraph:
    """Return a graph with the ids of its operators, as far as Flink computes the same ids.

    ``graph``: the graph. An id that the graph shows is preserved. ``ids``: the ids of operators in a snapshot of the job: they
    confirm which operators are chained, and the order of sources. Uids are not in the graph: the id of such an operator stays
    unknown, and with it the ids of operators after it.
    """
    best = max(_candidates(graph), key=lambda ids_by_place: _confirmed(graph, ids_by_place, ids), default={})
    confirmed = {place: uid_hash for place, uid_hash in best.items() if uid_hash in ids}
    nodes = (replace(node, uid_hash=node.uid_hash or confirmed.get(place)) for place, node in enumerate(graph.nodes))
    return JobGraph(tuple(nodes))


def _confirmed(graph: JobGraph, ids_by_place: dict[int, str], ids: Collection[str]) -> int:
    """Return the number of computed ids that a snapshot or the graph has."""
    displayed = sum(
        node.uid_hash is not None and node.uid_hash == ids_by_place.get(place) for place, node in enumerate(graph.nodes)
    )
    return displayed + len({*ids_by_place.values()} & {*ids})


def _candidates(graph: JobGraph) -> Iterator[dict[int, str]]:
    """Yield possible ids by position: for each way to chain operators, and for each order of the sources."""
    sources = [place for place, node in enumerate(graph.nodes) if not node.inputs]
    hashes = {place: node.uid_hash for place, node in enumerate(graph.nodes) if node.uid_hash is not None}
    for chaining in (True, False):
        nodes = [_hashed(graph, node, chaining=chaining) for node in graph.nodes]
        for order in islice(permutations(sources), _MOST_ORDERS):
            yield graph_hashes(nodes, {}, order)
            if hashes:
                yield graph_hashes(nodes, hashes, order)


def _hashed(graph: JobGraph, node: GraphNode, *, chaining: bool) -> HashedNode:
    chained = tuple(_is_chained(graph, node, edge, chaining=chaining) for edge in node.inputs)
    return HashedNode(tuple(edge.source for edge in node.inputs), chained)


def _is_chained(graph: JobGraph, node: GraphNode, edge: GraphInput, *, chaining: bool) -> bool:
    """Return whether an operator is in the task of its input (Flink: ``StreamingJobGraphGenerator.isChainable``)."""
    if edge.chained is not None:
        return edge.chained
    same_size = graph.nodes[edge.source].parallelism == node.parallelism
    return chaining and edge.strategy == FORWARD and same_size and len(node.inputs) == 1
