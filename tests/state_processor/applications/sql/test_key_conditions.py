from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.applications.sql.key_conditions import ArrowCondition, both, either

KEY, VALUE = pc.field("key"), pc.field("value")


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        (KEY == "a", {"a"}),
        (pc.scalar("a") == KEY, {"a"}),
        (KEY == 3, {3}),
        (KEY.isin(["a", "b"]), {"a", "b"}),
        ((KEY == "a") | (KEY == "b"), {"a", "b"}),
        ((KEY == "a") & (VALUE > 3), {"a"}),
        ((KEY == "a") & KEY.isin(["b"]), set()),
        (pc.if_else(KEY.is_valid(), KEY.isin(["a"]), pa.scalar(None, pa.bool_())), {"a"}),
        ((KEY == "a") | (VALUE > 3), None),
        (KEY > "a", None),
        (KEY.is_null(), None),
        (~(KEY == "a"), None),
        (KEY == 1.5, None),
        (pc.field("value", "key") == "a", None),
        (pc.field("key", "id") == "a", None),
        (VALUE == "a", None),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else str(value),
)
def test_keys_of_conditions(condition: pc.Expression, keys: set[Any] | None) -> None:
    assert ArrowCondition(condition).keys == keys


def test_columns_of_conditions() -> None:
    condition = ArrowCondition((KEY == "a") & (pc.field("value", "id") > 3) | pc.field("end").is_valid())
    assert condition.columns == {"key", "value", "end"}


def test_names_of_fields_are_no_functions() -> None:
    strange = pc.field("call") == "or_kleene"
    assert ArrowCondition((KEY == "end") & strange & (pc.field("literal", "0") == "1")).keys == {"end"}


conditions = st.recursive(
    st.one_of(
        st.sampled_from(["a", "b", "c"]).map(KEY.__eq__),
        st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(lambda ks: KEY.isin(pa.array(ks, pa.string()))),
        st.integers(0, 2).map(VALUE.__eq__),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda c: ~c),
    ),
    max_leaves=6,
)


@given(conditions)
def test_no_row_of_another_key_fulfils_a_condition(condition: pc.Expression) -> None:
    rows = pa.table({"key": [k for k in "abcd" for _ in range(3)], "value": [0, 1, 2] * 4})
    allowed = ArrowCondition(condition).keys
    assert allowed is None or set(rows.filter(condition).column("key").to_pylist()) <= allowed


def test_unknown_sets() -> None:
    one, other = frozenset("a"), frozenset("ab")
    assert (both(one, None), both(None, None), both(one, other)) == (one, None, one)
    assert (either(one, None), either(one, other)) == (None, other)
