"""Classes of Flink that throw exceptions on the ways of state, from the bytecode of its jars.

``python -m tests.interop.throw_sites`` writes them to ``TABLE``. ``explain`` has a place for each of them.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.interop import flink_jars

TABLE: Final = flink_jars.ROOT / "tests/state_processor/applications/explain/throw_sites.txt"
PREFIX: Final = "org.apache.flink."
_ON_THE_WAY: Final = re.compile(
    r"(?:runtime\.(?:checkpoint|state|source\.coordinator|operators\.coordination)|state|contrib\.streaming\.state|"
    r"api\.(?:common|java)\.typeutils|streaming\.runtime\.io\.(?:recovery|checkpointing))\."
)
"""Packages that read or write state."""
_THROWN: Final = re.compile(r"(?:Exception|Error|Throwable)$")
_NEW, _INVOKE_STATIC = 187, 184
_SIZES: Final = [1] * 256
"""Bytes of instructions by their code; those of three codes depend on their operands."""
for _codes, _size in (
    ((16, 18, *range(21, 26), *range(54, 59), 169, 188), 2),
    ((17, 19, 20, 132, *range(153, 169), *range(178, 185), 187, 189, 192, 193, 198, 199), 3),
    ((197,), 4),
    ((185, 186, 200, 201), 5),
):
    for _code in _codes:
        _SIZES[_code] = _size
_CONSTANTS: Final = {7: ">H", 8: ">H", 16: ">H", 19: ">H", 20: ">H", 15: ">BH", 3: ">I", 4: ">I", 5: ">Q", 6: ">Q"}


def throwing_classes(version: str) -> set[str]:
    """Return the outer classes of a version of Flink that throw, without their common prefix."""
    names: set[str] = set()
    for jar in (*flink_jars.jars(version), *flink_jars.libraries(version)):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                name = entry.removesuffix(".class").replace("/", ".").removeprefix(PREFIX)
                if entry.endswith(".class") and _ON_THE_WAY.match(name) and _throws(archive.read(entry)):
                    names.add(name.partition("$")[0])
    return names


def _throws(data: bytes) -> bool:
    """Return whether a method of a class makes an exception, or checks a condition."""
    pool, position = _pool(data)

    def class_at(index: int) -> str:
        return str(pool[pool[index][0]])

    for code in _codes_of_methods(data, position, pool):
        for offset, instruction in _instructions(code):
            if instruction == _NEW and _THROWN.search(class_at(*struct.unpack_from(">H", code, offset + 1))):
                return True
            if instruction == _INVOKE_STATIC:
                (method,) = struct.unpack_from(">H", code, offset + 1)
                if class_at(pool[method][0]).endswith("/Preconditions"):
                    return True
    return False


def _pool(data: bytes) -> tuple[list[Any], int]:
    """Return the constants of a class file, and the position behind them."""
    (count,) = struct.unpack_from(">H", data, 8)
    pool: list[Any] = [None] * count
    position, index = 10, 1
    while index < count:
        tag = data[position]
        position += 1
        if tag == 1:
            (length,) = struct.unpack_from(">H", data, position)
            pool[index] = data[position + 2 : position + 2 + length].decode("utf-8", "replace")
            position += 2 + length
        else:
            form = _CONSTANTS.get(tag, ">HH")
            pool[index] = struct.unpack_from(form, data, position)
            position += struct.calcsize(form)
        index += 2 if tag in (5, 6) else 1  # long and double take two places
    return pool, position


def _codes_of_methods(data: bytes, position: int, pool: list[Any]) -> Iterator[bytes]:
    """Yield the code of the methods of a class file, from the position behind its constants."""
    (interfaces,) = struct.unpack_from(">H", data, position + 6)
    position += 8 + 2 * interfaces
    for is_method in (False, True):
        (members,) = struct.unpack_from(">H", data, position)
        position += 2
        for _ in range(members):
            (attributes,) = struct.unpack_from(">H", data, position + 6)
            position += 8
            for _ in range(attributes):
                name, size = struct.unpack_from(">HI", data, position)
                if is_method and pool[name] == "Code":
                    (length,) = struct.unpack_from(">I", data, position + 10)
                    yield data[position + 14 : position + 14 + length]
                position += 6 + size


def _instructions(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield the offsets and the codes of instructions."""
    offset = 0
    while offset < len(code):
        instruction = code[offset]
        yield offset, instruction
        operands = (offset + 4) & ~3
        if instruction == 170:  # tableswitch
            low, high = struct.unpack_from(">ii", code, operands + 4)
            offset = operands + 12 + 4 * (high - low + 1)
        elif instruction == 171:  # lookupswitch
            (pairs,) = struct.unpack_from(">i", code, operands + 4)
            offset = operands + 8 + 8 * pairs
        elif instruction == 196:  # wide
            offset += 6 if code[offset + 1] == 132 else 4
        else:
            offset += _SIZES[instruction]


def stored_classes(table: Path = TABLE) -> set[str]:
    """Return the classes of the table."""
    return set(table.read_text("utf-8").split())


if __name__ == "__main__":
    every = {name for version in flink_jars.VERSIONS for name in throwing_classes(version)}
    TABLE.write_text("\n".join(sorted(every)) + "\n", "utf-8")
