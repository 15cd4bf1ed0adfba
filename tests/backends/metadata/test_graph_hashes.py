"""Ids of operators without uids, as in logs of jobs with these shapes; tests/interop/test_graph_hashes.py asks real Flink."""

from __future__ import annotations

from state_processor.backends.metadata.operator_id import HashedNode, graph_hashes, operator_id

SOURCE = HashedNode((), ())


def test_a_source_and_a_task_after_it() -> None:
    assert graph_hashes([SOURCE, HashedNode((0,), (False,))], {}) == {
        0: "bc764cd8ddf7a0cff126f51c16239658",
        1: "0a448493b4782967b150582570326227",
    }


def test_a_chain_changes_the_ids() -> None:
    found = graph_hashes([SOURCE, HashedNode((0,), (True,)), HashedNode((1,), (False,))], {})
    assert (found[0], found[1]) == ("cbc357ccb763df2852fee8c4fc7d55f2", "7df19f87deec5680128845fd9a6ca18d")


def test_a_uid_changes_the_ids_of_the_operators_after_it() -> None:
    nodes = [SOURCE, HashedNode((0,), (False,)), HashedNode((1,), (False,))]
    plain, named = graph_hashes(nodes, {}), graph_hashes(nodes, {1: operator_id("orders")})
    assert plain[0] == named[0]
    assert named[1] == operator_id("orders")
    assert plain[2] != named[2]


def test_a_node_waits_for_all_its_inputs() -> None:
    """The second source is visited after the join was found by the first."""
    nodes = [SOURCE, SOURCE, HashedNode((1,), (False,)), HashedNode((0, 2), (False, False))]
    assert len(set(graph_hashes(nodes, {}).values())) == 4
