"""Spelling of options and methods by door, and that no message is spelled for one door alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from state_processor.options.keywords import EFFECTIVE_OPTIONS, PUSHDOWN
from state_processor.serializers.kernel.outcomes import LOST_NANOS, OUT_OF_RANGE, decoding_problem
from state_processor.support.doors import (
    Door,
    changing,
    checked_choice,
    code_or_text,
    entered,
    read_with,
    reading_as_bytes,
    registering,
    spelled,
)
from state_processor.support.errors import OptionError

ROOT: Final = Path(__file__).parents[3]
IN_CODE_ONLY: Final = {
    "serializers/table/python_state.py": "pickles are loaded by code only",
    "state_processor/types/declared_types.py": "a value that is not a mapping comes from code only",
    "state_processor/options/user_serializers.py": "advice to the owner of the session",
    "state_processor/reader.py": "methods of SavepointReader",
    "state_processor/spark/data_source_registration.py": "advice to the owner of the session",
    "state_processor/write/plan/draft.py": "methods of SavepointWriter",
    "state_processor/write/plan/keyed_changes.py": "methods of SavepointWriter",
    "state_processor/write/tasks/migration.py": "migrations are made by code only",
    "state_processor/applications/flink_sql/query_migration.py": "a value that is not a list comes from code only",
}
"""Modules whose messages Python code alone can cause, and why."""
_OPTIONS: Final = sorted({o.argument for o in EFFECTIVE_OPTIONS if o is not PUSHDOWN} | {"connector", "share_files"})
SPELLED_FOR_CODE: Final = re.compile(
    rf"\b(?:{'|'.join(_OPTIONS)})=|(?<!\{{)\b(?:{'|'.join(o for o in _OPTIONS if '_' in o)})\b|\bundescribed='|\bflattened\b"
)
CALLS: Final = re.compile(r"\b(?:register_(?:kryo_class|pojo_class|snapshot|primitive_fields)|read_(?:keyed|list|union)_state)\b")


def messages(module: Path) -> Iterator[tuple[int, str]]:
    """The text of each message: literals with spaces that are neither docstrings nor within a call that spells them."""
    tree = ast.parse(module.read_text("utf-8"))
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(id(node.value))
        spelling = ("spelled", "registering", "code_or_text", "Option", "option")
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in spelling:
            left_out.update(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out and " " in node.value:
            yield node.lineno, node.value


def test_no_message_is_spelled_for_code_alone() -> None:
    found = [
        f"{module.relative_to(ROOT)}:{line}: {text}"
        for package in ("serializers", "backends", "state_processor")
        for module in sorted((ROOT / package).rglob("*.py"))
        if not module.is_relative_to(ROOT / "state_processor" / "serializers")
        and not module.is_relative_to(ROOT / "state_processor" / "backends")
        and str(module.relative_to(ROOT)) not in IN_CODE_ONLY
        and module.name not in ("demo.py", "doors.py")
        for line, text in messages(module)
        if SPELLED_FOR_CODE.search(text) or CALLS.search(text)
    ]
    assert not found


def test_exceptions_are_modules() -> None:
    assert all((ROOT / name).is_file() for name in IN_CODE_ONLY)


@pytest.mark.parametrize(
    ("door", "texts"),
    [
        (Door.METHODS, ("read_list_state", "remove_state", "f()", "Types.LONG()", "undescribed='bytes'", "nanos='truncate'")),
        (
            Door.FUNCTIONS,
            ("kind='OPERATOR_LIST'", "remove_state", "f()", "Types.LONG()", "undescribed='bytes'", "nanos='truncate'"),
        ),
        (
            Door.DATA_SOURCE,
            ("kind=OPERATOR_LIST", "remove_state", "f() in a module that serializers names", "LONG", "undescribed=bytes",
             "nanos=truncate"),
        ),
        (
            Door.COMMAND_LINE,
            ("--kind OPERATOR_LIST", "the command drop-state", "f() in a module that --serializers names", "LONG",
             "--undescribed bytes", "--nanos truncate"),
        ),
    ],
)  # fmt: skip
def test_each_door_has_its_words(door: Door, texts: tuple[str, ...]) -> None:
    with entered(door):
        found = (read_with("OPERATOR_LIST"), changing("remove_state"), registering("f()"), code_or_text("Types.LONG()", "LONG"))
        assert found == texts[:4]
        assert reading_as_bytes() == f"read such values with {texts[4]} where the format has their length"
        message = decoding_problem(LOST_NANOS, "value.at")
        assert f"column 'value.at': a time has nanoseconds that microseconds can't hold; read with {texts[5]}" in message
        assert message.endswith(f"or other columns with {spelled('columns')}")
        assert spelled("nanos", "string") in decoding_problem(OUT_OF_RANGE)


@pytest.mark.parametrize("value", ["key_group", "key-group", "KEY_GROUP", "keyGroup", "key group"])
def test_a_choice_has_several_spellings(value: str) -> None:
    assert checked_choice("by", value, ("key", "key_group")) == "key_group"


@pytest.mark.parametrize("value", ["keys", "", None, 1, ["key"]])
def test_other_values_are_no_choice(value: object) -> None:
    with pytest.raises(OptionError, match=r"expected one of key, key_group"):
        checked_choice("by", value, ("key", "key_group"))
