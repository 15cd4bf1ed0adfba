"""Graphs of jobs, as Flink prints them: operators, their inputs, and which of them are chained."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from state_processor.errors import OptionError

FORWARD: Final = "FORWARD"
_LINE: Final = re.compile(r"((?::  |   )*)(?:([:+])- )?(.*)")


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An input of an operator."""

    source: int  # the position of the operator that sends records
    strategy: str  # the ship strategy, such as ``FORWARD`` or ``HASH``
    chained: bool | None  # whether both operators are in one task; ``None`` if the graph does not show it


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An operator in the graph of a job."""

    number: int  # the number of the node in the graph of Flink; numbers grow from sources to sinks
    name: str
    parallelism: int
    inputs: tuple[GraphInput, ...]
    max_parallelism: int | None = None
    # the hash of the operator, if the graph shows it: the first operator of each task has the id of the task
    uid_hash: str | None = None


@dataclass(frozen=True, slots=True)
class JobGraph:
    """The operators of a job, each after its inputs."""

    nodes: tuple[GraphNode, ...]


def graph_of(content: Mapping[str, Any]) -> JobGraph | None:
    """Return the graph in the JSON of Flink; ``None`` if the JSON has another form."""
    plan = content.get("plan", content)
    nodes = plan.get("nodes") if isinstance(plan, Mapping) else None
    if not isinstance(nodes, Sequence) or not all(isinstance(node, Mapping) and "id" in node for node in nodes):
        return None
    try:
        if all("type" in node and "pact" in node for node in nodes):
            return _of_execution_plan(nodes)
        vertices = {vertex["id"]: vertex for vertex in content.get("vertices", ())}
        return _of_rest(nodes, vertices)
    except (KeyError, TypeError, ValueError) as error:
        raise OptionError(
            f"graph of a job: expected nodes with id, parallelism and inputs ({type(error).__name__}: {error})"
        ) from None


def _of_execution_plan(nodes: Sequence[Mapping[str, Any]]) -> JobGraph:
    """Return the graph of ``getExecutionPlan()`` (Flink: ``JSONGenerator``): an operator per node, without hashes."""
    ordered = sorted(nodes, key=lambda node: int(node["id"]))
    places = {int(node["id"]): place for place, node in enumerate(ordered)}
    graph_nodes = []
    for node in ordered:
        predecessors = node.get("predecessors", ())
        inputs = tuple(
            GraphInput(places[int(predecessor["id"])], str(predecessor.get("ship_strategy", "")), None)
            for predecessor in predecessors
        )
        graph_nodes.append(GraphNode(int(node["id"]), str(node["type"]), int(node["parallelism"]), inputs))
    return JobGraph(tuple(graph_nodes))


def _of_rest(nodes: Sequence[Mapping[str, Any]], vertices: Mapping[str, Mapping[str, Any]]) -> JobGraph:
    """Return the graph of the REST interface (Flink: ``JsonPlanGenerator``): a task per node, whose text names its operators."""
    graph_nodes: list[GraphNode] = []
    tails: dict[str, int] = {}
    for node in _after_inputs(nodes):
        first = len(graph_nodes)
        vertex = vertices.get(node["id"], {})
        inputs = tuple(
            GraphInput(tails[source["id"]], str(source.get("ship_strategy", "")), False)
            for source in sorted(node.get("inputs", ()), key=lambda source: int(source.get("num", 0)))
        )
        size, limit = int(node["parallelism"]), vertex.get("maxParallelism")
        names = list(_chain(str(node["description"])))
        if vertex.get("name") is not None:
            short = list(_of_cascade(str(vertex["name"])))
            names = short if [at for at, _ in short] == [at for at, _ in names] else names
        for at, name in names:
            inside = inputs if at is None else (GraphInput(first + at, FORWARD, True),)
            graph_nodes.append(GraphNode(len(graph_nodes), name, size, inside, limit if limit is None else int(limit)))
        graph_nodes[first] = replace(graph_nodes[first], uid_hash=str(node["id"]))
        tails[str(node["id"])] = len(graph_nodes) - 1
    return JobGraph(tuple(graph_nodes))


def _inputs(node: Mapping[str, Any]) -> set[str]:
    return {source["id"] for source in node.get("inputs", ())}


def _after_inputs(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield each node after its inputs."""
    waiting = list(nodes)
    done: set[str] = set()
    while waiting:
        ready = [node for node in waiting if _inputs(node) <= done]
        if not ready:
            raise ValueError("nodes that are inputs of each other")
        for node in ready:
            done.add(node["id"])
            waiting.remove(node)
            yield node


def _chain(description: str) -> Iterator[tuple[int | None, str]]:
    """Yield the operators of a task: the position of the input in the task, and the name.

    Flink prints a tree of lines (``pipeline.vertex-description-mode``: ``TREE``), or names between arrows (``CASCADING``).
    """
    lines = [line for line in description.replace("&gt;", ">").split("<br/>") if line.strip()]
    if len(lines) == 1 and "->" in lines[0]:
        yield from _of_cascade(lines[0])
        return
    above: dict[int, int] = {}
    for place, line in enumerate(lines):
        match = _LINE.fullmatch(line)
        assert match is not None  # every text matches
        depth = len(match[1]) // 3 + (match[2] is not None)
        above[depth] = place
        yield above.get(depth - 1) if depth else None, match[3].strip()


def _of_cascade(text: str) -> Iterator[tuple[int | None, str]]:
    """Yield the operators of ``A -> (B, C -> D)``."""
    place = 0

    def of(part: str, parent: int | None) -> Iterator[tuple[int | None, str]]:
        nonlocal place
        for name in _split(part, "->"):
            name = name.strip()
            if name.startswith("(") and name.endswith(")"):
                for branch in _split(name[1:-1], ","):
                    yield from of(branch, parent)
                return
            yield parent, name
            parent, place = place, place + 1

    yield from of(text, None)


def _split(text: str, mark: str) -> list[str]:
    """Return the parts between marks outside of brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[at], 0)
        if not depth and text.startswith(mark, at):
            parts.append(text[start:at])
            at = start = at + len(mark)
        else:
            at += 1
    return [*parts, text[start:]]
