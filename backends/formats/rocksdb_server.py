"""Program of the process that runs RocksDB: opens stores and reads entries for the process that started it.

RocksDB checks the checksums of blocks, but not what is in them: a damaged or forged file can make it crash, or loop without end.
Here that ends this process only. It stands alone, and imports nothing of the project: it is started from its source text.

Requests and answers are JSON behind its length. The answer to ``read`` is followed by the entries in the format of Python's
``marshal``, version 2: lists of pairs of keys and values. That turns objects into bytes several times as fast as other means do.
"""

from __future__ import annotations

import json
import marshal
import os
import select
import struct
import sys
from collections import deque
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import rocksdict

LENGTH = struct.Struct("<q")
CHUNK_BYTES = 4 << 20
MOST_ROWS = 1 << 15
FIRST_ROWS = 16
MOST_STEP = 512
OPEN_FILES = 512
MOST_LEVELS = 64
MOST_CURSORS = 16
MOST_PARTS = 1024  # IOV_MAX of Linux and macOS
TABLE_FORMAT = 5
MARSHAL_VERSION = 2  # the later ones refer back to objects


class Chunk(NamedTuple):
    """Entries of a few megabytes: how many, their bytes, the last key, and whether no others follow."""

    rows: int
    data: list[bytes]
    last: bytes | None
    is_end: bool


class Cursor:
    """A position in a column family, and the entries behind it that were read ahead."""

    def __init__(self, family: Any, lower: bytes, upper: bytes) -> None:
        self.family = family
        self.upper = upper
        self.lower = lower
        self.items = family.items(from_key=lower, read_opt=read_options(upper))
        self.ready: Chunk | None = None

    def chunk(self) -> Chunk:
        """Return the next entries."""
        chunk, self.ready = self.ready or self.read(), None
        if chunk.last is not None:
            self.lower = chunk.last + b"\0"
        return chunk

    def read(self) -> Chunk:
        """Read the next entries."""
        data: list[bytes] = []
        rows, size, step = 0, 0, FIRST_ROWS
        last: bytes | None = None
        while size < CHUNK_BYTES and rows < MOST_ROWS:
            part = list(islice(self.items, step))
            if part:
                data.append(marshal.dumps(part, MARSHAL_VERSION))
                rows, size, last = rows + len(part), size + len(data[-1]), part[-1][0]
            if len(part) < step:
                self.check_end(last)
                return Chunk(rows, data, last, True)
            step = max(1, min(MOST_STEP, CHUNK_BYTES * rows // size))
        return Chunk(rows, data, last, False)

    def check_end(self, last: bytes | None) -> None:
        """Raise if entries follow the last one: iterating ends at a damaged block as it does at the end."""
        check = self.family.iter(read_options(self.upper))
        check.seek(self.lower if last is None else last)
        if last is not None and check.valid():
            check.next()
        check.status()
        if check.valid():
            raise ValueError(f"reading ended before entry {check.key().hex()}")


class Server:
    """The stores that are open, by directory."""

    def __init__(self) -> None:
        self.stores: dict[str, Any] = {}
        self.families: dict[str, list[str]] = {}
        self.cursors: dict[tuple[str, str, bytes], Cursor] = {}

    def open(self, directory: str) -> dict[str, Any]:
        """Open a store, and return the names of its column families and of the files that it consists of."""
        files = self.store(directory).live_files()
        return {"families": self.families[directory], "files": [os.path.basename(file["name"]) for file in files]}

    def store(self, directory: str) -> Any:
        """Return the store of a directory, which is opened at its first use."""
        store = self.stores.get(directory)
        if store is None:
            family_options = rocksdict.Options.load_latest(os.path.join(directory, "options"))[1]["default"]
            family_options.set_num_levels(MOST_LEVELS)
            names = rocksdict.Rdict.list_cf(directory)
            options = rocksdict.Options(raw_mode=True)
            options.set_max_open_files(OPEN_FILES)
            families = dict.fromkeys(names, family_options)
            store = rocksdict.Rdict(directory, options, families, rocksdict.AccessType.read_only(False))
            self.stores[directory], self.families[directory] = store, names
        return store

    def close(self, directory: str) -> dict[str, Any]:
        """Close a store."""
        self.cursors = {place: cursor for place, cursor in self.cursors.items() if place[0] != directory}
        self.stores.pop(directory, None)
        self.families.pop(directory, None)
        return {}

    def read(self, directory: str, family: str, lower: str, upper: str) -> tuple[dict[str, Any], list[bytes], Cursor | None]:
        """Return entries from ``lower`` to before ``upper``, and a cursor behind them where there may be more."""
        begin, end = bytes.fromhex(lower), bytes.fromhex(upper)
        cursor = self.cursors.pop((directory, family, begin), None)
        if cursor is None or cursor.upper != end:
            cursor = Cursor(self.store(directory).get_column_family(family), begin, end)
        chunk = cursor.chunk()
        if chunk.is_end:
            return {"end": True, "next": "", "rows": chunk.rows}, chunk.data, None
        self.cursors[directory, family, cursor.lower] = cursor
        while len(self.cursors) > MOST_CURSORS:
            del self.cursors[next(iter(self.cursors))]
        return {"end": False, "next": cursor.lower.hex(), "rows": chunk.rows}, chunk.data, cursor


def table_options() -> Any:
    """Return options of column families that are written, whose tables each RocksDB since 6.20 reads."""
    table = rocksdict.BlockBasedOptions()
    table.set_format_version(TABLE_FORMAT)
    table.set_checksum_type(rocksdict.ChecksumType.crc32c())
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_disable_auto_compactions(True)
    options.set_compression_type(rocksdict.DBCompressionType.snappy())
    return options


def read_options(upper: bytes) -> Any:
    """Return options of reading to a bound, each block once."""
    options = rocksdict.ReadOptions()
    options.set_iterate_upper_bound(upper)
    options.fill_cache(False)  # type: ignore[call-arg]
    return options


def limit_time(seconds: int) -> None:
    """Let the system end this process when it computes for so long from now on; waiting for files does not count."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def send(answers: int, parts: list[bytes]) -> None:
    """Write bytes one behind the other to a file descriptor, without a copy that joins them."""
    rest: deque[bytes | memoryview] = deque(parts)
    while rest:
        written = os.writev(answers, list(islice(rest, MOST_PARTS)))
        while rest and written >= len(rest[0]):
            written -= len(rest.popleft())
        if written:
            rest[0] = memoryview(rest[0])[written:]


def serve(requests: BinaryIO, answers: int, seconds: int) -> None:
    """Answer requests until there are no more; none may compute for longer than some seconds."""
    server = Server()
    while len(head := requests.read(LENGTH.size)) == LENGTH.size:
        request = json.loads(requests.read(LENGTH.unpack(head)[0]))
        limit_time(seconds)
        data: list[bytes] = []
        cursor: Cursor | None = None
        do = request.pop("do")
        try:
            if do == "read":
                answer, data, cursor = server.read(**request)
            else:
                actions: dict[str, Any] = {"open": server.open, "close": server.close}
                answer = actions[do](**request)
        except Exception as error:
            answer, data = {"error": str(error)}, []
        text = json.dumps({**answer, "bytes": sum(map(len, data))}).encode()
        send(answers, [LENGTH.pack(len(text)) + text, *data])
        data = []
        if cursor is not None and not select.select([requests], [], [], 0)[0]:
            limit_time(seconds)
            try:
                cursor.ready = cursor.read()  # while the others decode
            except Exception:
                server.cursors = {place: other for place, other in server.cursors.items() if other is not cursor}


if __name__ == "__main__":
    serve(os.fdopen(sys.stdin.fileno(), "rb", buffering=0, closefd=False), sys.stdout.fileno(), int(sys.argv[1]))
