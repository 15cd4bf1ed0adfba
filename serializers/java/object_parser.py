"""The parser of Java object streams of the library javaobj, stopped after the first object."""

from __future__ import annotations

import io
from typing import IO, Any, cast

from javaobj.v2 import beans
from javaobj.v2.core import JavaStreamParser


class FirstObject(io.RawIOBase):
    """Bytes up to the end of the first object that the parser has read; the stream itself has no end marker."""

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

    def _read_content(self, type_code: int, block_data: bool, class_desc: Any = None) -> Any:
        self._depth += 1
        content = super()._read_content(type_code, block_data, class_desc)
        self._depth -= 1
        if not self._depth:
            if content is not None and content.is_exception:
                raise ValueError("the writer failed, and left its exception in the stream")
            self._stream.complete = True
        return content

    def _create_instance(self, class_desc: Any) -> Any:
        return Instance()  # type: ignore[no-untyped-call]


class Instance(beans.JavaInstance):
    """An object of any class."""

    def load_from_blockdata(self, parser: Any, reader: Any, indent: int = 0) -> bool:
        """Read the bytes of ``writeExternal`` as annotations."""
        return True
