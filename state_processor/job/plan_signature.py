"""Signatures of jobs that have not run: from compiled plans of Flink SQL, and from graphs of jobs. Their states are unknown."""

from __future__ import annotations

from state_processor.backends.sql.meaning import has_state
from state_processor.backends.sql.plan import CompiledPlan, PlanOperator
from state_processor.job.job_graph import JobGraph
from state_processor.job.signature import JobSignature, OperatorSignature


def signature_of_plan(plan: CompiledPlan) -> JobSignature:
    """Return the operators of a plan that may have state, with the uids of the default format of Flink 1.16 and later."""
    uids: dict[str, list[PlanOperator]] = {}
    for operator in plan.operators.values():
        uids.setdefault(operator.label, []).append(operator)
    found = []
    for label, (first, *others) in uids.items():
        if has_state(first.transformation) or first.transformation in ("source", "sink"):
            other = tuple(operator.uid for operator in others)
            found.append(OperatorSignature(first.uid, first.uid_hash, label, other_uids=other))
    return JobSignature(tuple(found))


def signature_of_graph(graph: JobGraph) -> JobSignature:
    """Return the operators of a graph. Flink prints no uids; the id of a task is the hash of its first operator."""
    return JobSignature(
        tuple(
            OperatorSignature(
                uid_hash=node.uid_hash, name=node.name, parallelism=node.parallelism, max_parallelism=node.max_parallelism
            )
            for node in graph.nodes
        )
    )
