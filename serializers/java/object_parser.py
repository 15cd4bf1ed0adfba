"""The parser of Java object streams of the library javaobj, stopped after the first object."""

from __future__ import annotations

import io
import struct
from typing import IO, Any, cast

from javaobj.constants import TerminalCode
from javaobj.v2 import beans
from javaobj.v2.core import JavaStreamParser
from javaobj.v2.stream import DataStreamReader

from state_processor.serializers.io import decode_modified_utf8


class FirstObject(io.RawIOBase):
    """Bytes up to the end of the first object that the parser has read; the stream itself lacks an end marker."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.position = 0
        self.complete = False

    def read(self, size: int = -1) -> bytes:
        if self.complete:
            return b""
        end = self.position + size
        if size < 0 or end > len(self._data):
            raise EOFError(f"{size} bytes announced, {len(self._data) - self.position} left")
        data = bytes(self._data[self.position : end])
        self.position = end
        return data

    def tell(self) -> int:
        return self.position

    def seekable(self) -> bool:
        return False


class FirstObjectParser(JavaStreamParser):
    """Parser of one object without any transformer, so that every class is parsed alike: into fields and annotations."""

    def __init__(self, stream: FirstObject) -> None:
        super().__init__(cast(IO[bytes], stream), [])
        self._stream = stream
        self._depth = 0
        self._JavaStreamParser__reader = _Reader(cast(IO[bytes], stream))  # type: ignore[no-untyped-call]

    def _read_content(self, type_code: int, block_data: bool, class_desc: Any = None) -> Any:
        self._depth += 1
        content = super()._read_content(type_code, block_data, class_desc)
        self._depth -= 1
        if not self._depth:
            if content is not None and content.is_exception:
                raise ValueError("the writer failed, and left its exception in the stream")
            self._stream.complete = True
        return content

    def _read_new_string(self, type_code: int) -> Any:
        """Read a string. The library's decoder takes Hangul from U+D000 on for surrogates, and fails."""
        if type_code == TerminalCode.TC_REFERENCE:
            return super()._read_new_string(type_code)  # type: ignore[no-untyped-call]
        handle = self._new_handle()  # type: ignore[no-untyped-call]
        size = ">q" if type_code == TerminalCode.TC_LONGSTRING else ">H"
        (length,) = struct.unpack(size, self._stream.read(struct.calcsize(size)))
        text = beans.JavaString(handle, b"")  # type: ignore[no-untyped-call]
        text.value = decode_modified_utf8(self._stream.read(length))
        text.length = len(text.value)
        self._set_handle(handle, text)  # type: ignore[no-untyped-call]
        return text

    def _create_instance(self, class_desc: Any) -> Any:
        return Instance()  # type: ignore[no-untyped-call]


class _Reader(DataStreamReader):
    """Reader of the names of classes and fields."""

    def read_UTF(self) -> str:  # noqa: N802
        size: int = self.read_ushort()  # type: ignore[no-untyped-call]
        return decode_modified_utf8(self.file_descriptor.read(size))


class Instance(beans.JavaInstance):
    """An object of any class."""

    def load_from_blockdata(self, parser: Any, reader: Any, indent: int = 0) -> bool:
        """Read the bytes of ``writeExternal`` as annotations."""
        return True
