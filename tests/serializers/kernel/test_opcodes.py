"""The instruction set: operands, both kernels' implementations, errors of unknown instructions, and their page in ``docs``.

``./dev generate`` writes the table.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_processor.serializers import DecodeOptions
from state_processor.serializers.kernel import opcodes
from state_processor.serializers.kernel.builder import ProgramBuilder
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder
from state_processor.serializers.kernel.decode.program import DecodeBuilder
from state_processor.serializers.kernel.encode.encoder import ColumnEncoder
from state_processor.serializers.kernel.encode.program import EncodeBuilder
from state_processor.serializers.kernel.opcodes import AVRO, FAMILY, Op, Operand, OperandKind, Operands

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "kernel-instructions.md"
DIRECTIONS = ("decode", "encode")
_NAMES = (
    *("AVRO", "STRINGS", "MISC", "TIME", "EPOCHS", "NUMBER", "DECIMALS"),
    *("SQL_TIMES", "SQL_TIME_TEXTS", "TABLE", "JAVA_LOCAL_TIMES", "MASKS"),
)
FAMILIES = {getattr(opcodes, name): name for name in _NAMES}
OF_BUILDERS = {"program.py", "decoder.py", "encoder.py"}
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string()), ("pair", pa.struct([("a", pa.int64()), ("b", pa.int64())]))])

each_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def _builder(direction: str) -> ProgramBuilder:
    return DecodeBuilder(SCHEMA, DecodeOptions()) if direction == "decode" else EncodeBuilder(SCHEMA)


def _operands(op: Op, direction: str) -> Operands | None:
    found: Operands | None = getattr(op, direction)
    return found


def _implemented(direction: str) -> set[str]:
    folder = Path(opcodes.__file__).parent / direction
    code = "".join(p.read_text() for p in sorted(folder.glob("*.py")) if p.name not in OF_BUILDERS)
    return set(re.findall(r"\bOp\.([A-Z0-9_]+)", code))


def _table() -> str:
    def one(operand: Operand) -> str:
        kind = operand.kind.name.lower()
        return (
            str(operand)
            if operand.kind in (OperandKind.NUMBER, OperandKind.PAIR) or kind == operand.name
            else f"{operand} ({kind})"
        )

    def shown(operands: Operands | None) -> str:
        return "–" if operands is None else ", ".join(map(one, operands.values()))

    def family(op: Op) -> str:
        return FAMILIES.get(op & FAMILY, "")

    lines = ["| instruction | bytes | operands for decoding | operands for encoding | family |", "|---|---|---|---|---|"]
    lines += [f"| `{op.name}` | {op.summary} | {shown(op.decode)} | {shown(op.encode)} | {family(op)} |" for op in Op]
    return "\n".join(lines) + "\n"


def page() -> str:
    head, found, _ = PAGE.read_text().partition("| instruction | bytes |")
    return head + _table() if found else head.rstrip() + "\n\n" + _table()


@pytest.mark.parametrize("op", Op, ids=lambda op: op.name)
def test_operands_have_positions_of_their_own(op: Op) -> None:
    for direction in DIRECTIONS:
        taken = [o.position + i for o in (_operands(op, direction) or {}).values() for i in range(o.kind.positions)]
        assert len(set(taken)) == len(taken)
        assert all(opcodes.A <= position < opcodes.WIDTH for position in taken)
    assert (op.decode, op.encode) != (None, None)


def test_numbers_of_fixed_width_are_neighbours() -> None:
    """The loop that encodes finds them by their range."""
    members = list(Op)
    numbers = members[members.index(Op.INT8) : members.index(Op.FLOAT64) + 1]
    assert numbers == [Op.INT8, Op.INT16, Op.INT32, Op.INT64, Op.FLOAT32, Op.FLOAT64]
    assert [op - Op.INT8 for op in numbers] == list(range(len(numbers)))


def test_numbers_leave_room_for_properties() -> None:
    assert len(Op) < AVRO
    assert len({int(op) for op in Op}) == len(Op)
    assert {op & FAMILY for op in Op} == {0, *FAMILIES}


@each_direction
def test_what_is_declared_is_implemented(direction: str) -> None:
    declared = {op.name for op in Op if _operands(op, direction) is not None}
    assert _implemented(direction) == declared


def test_every_instruction_is_emitted() -> None:
    kernels = Path(opcodes.__file__).parent
    modules = [p for top in ("serializers", "backends") for p in (ROOT / top).rglob("*.py")]
    emitting = [p for p in modules if kernels.name not in p.relative_to(ROOT).parts or p.name in {"program.py", "builder.py"}]
    emitted = {name for p in emitting for name in re.findall(r"\bOp\.([A-Z0-9_]+)", p.read_text())}
    assert {op.name for op in Op} == emitted


def _run(direction: str, code: int, null: bool) -> None:
    builder = _builder(direction)
    builder.op(Op.INT64, builder.columns.root("number"))
    builder.op(Op.ROW_END)
    program: Any = builder.build()  # type: ignore[attr-defined]
    program.instructions[0, opcodes.CODE] = code
    if direction == "decode":
        buffer = np.zeros(64, dtype=np.uint8)
        list(ColumnDecoder(program).rows(buffer, 0, 1, lambda *at: f"{at}"))
    else:
        number = None if null else 1
        rows = pa.RecordBatch.from_pylist([{"number": number, "text": "x", "pair": {"a": 1, "b": 2}}], schema=SCHEMA)
        ColumnEncoder(program).encode(rows)


@each_direction
@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("code", [len(Op), *(len(Op) | family for family in FAMILIES), len(Op) | FAMILY])
def test_an_unknown_instruction_is_an_error(direction: str, code: int, null: bool) -> None:
    with pytest.raises(RuntimeError, match=f"the {direction} kernel does not implement instruction {code}"):
        _run(direction, code, null)


@each_direction
def test_an_instruction_of_the_other_direction_is_an_error(direction: str) -> None:
    for op in Op:
        if _operands(op, direction) is None:
            with pytest.raises(TypeError, match=f"{op.name} is not an instruction of the {direction} kernel"):
                _builder(direction).op(op)
            with pytest.raises(RuntimeError, match=f"the {direction} kernel does not implement instruction {op.name}"):
                _run(direction, op, null=False)


def test_operands_are_checked_by_name_and_kind() -> None:
    builder = EncodeBuilder(SCHEMA)
    pair = builder.column("pair")
    sides = {"right": pair.child(1), "right_target": builder.label(), "left_byte": 0, "right_byte": 1}
    for wrong in ({"left": 3}, {"left": builder.label()}, {}, {"left": pair.child(0), "other": 1}):
        with pytest.raises(TypeError, match=r"left|other"):
            builder.op(Op.EITHER, pair, **sides, **wrong)
    with pytest.raises(TypeError, match="target of JUMP is a target, not 5"):
        builder.op(Op.JUMP, target=5)
    with pytest.raises(TypeError, match="place of SLOT_INT is a place"):
        builder.op(Op.SLOT_INT, pair.child(0), place=(1, 2), width=8)
    builder.op(Op.JUMP, target=builder.label())
    with pytest.raises(AssertionError, match="not placed"):
        builder.build()


def test_all_columns_of_a_program_are_renumbered() -> None:
    class Prepared:
        writes_null = False

    builder = EncodeBuilder(pa.schema([("first", SCHEMA.field("pair").type), *SCHEMA]))
    pair, number = builder.column("pair"), builder.column("number")
    builder.prepare(Prepared(), builder.column("first"))  # type: ignore[arg-type]
    fields = builder.aux([(child,) for child in pair.children])
    builder.op(Op.MASK, pair, fields=fields, count=2, kind_bits=0, kind=None, kinds=0)
    with builder.unless(Op.EITHER, pair, left=pair.child(0), right=number, left_byte=0, right_byte=1):
        builder.op(Op.REQUIRE, pair)
    program = builder.build()
    names = [column.name for column in program.columns.all]
    assert names == ["first", "number", "text", "pair", "a", "b"]
    _, mask, either, _ = program.instructions.tolist()
    assert (mask[1], mask[6]) == (3, -1)
    assert program.aux[fields : fields + 2, 0].tolist() == [4, 5]
    assert either[1:6] == [3, 4, 1, 0, 4]
