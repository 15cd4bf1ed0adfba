"""An object store with a latency of some milliseconds: enough of S3's protocol to read the files of a directory.

It runs in a separate process; its CPU time does not count. When its input ends, it prints the number of requests for each object.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
_DATE = "Mon, 01 Jan 2024 00:00:00 GMT"
_END = b"\r\n\r\n"


@dataclass
class RunningStore:
    """A store that serves a directory.

    Attributes
    ----------
    url
        URL of the root, with settings.
    most, requests, sent
        After the end: the maximum number of concurrent requests, the number of requests by method and object, and the bytes of
        objects in answers.
    """

    url: str
    most: int = 0
    requests: dict[str, Counter[str]] = field(default_factory=dict)
    sent: int = 0

    @property
    def count(self) -> int:
        """The number of all requests."""
        return sum(map(Counter.total, self.requests.values()))


@contextmanager
def object_store(directory: Path, latency: float) -> Iterator[RunningStore]:
    """Serve a directory until the block ends."""
    command = [sys.executable, __file__, str(directory), str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        endpoint = f"127.0.0.1:{server.stdout.readline().strip()}"
        options = f"endpoint_override={endpoint}&scheme=http&region=us-east-1&access_key=k&secret_key=s"
        store = RunningStore(f"s3://{BUCKET}?{options}")
        try:
            yield store
        finally:
            server.stdin.close()
            found = json.loads(server.stdout.read())
            store.most, store.sent = found["most"], found["sent"]
            store.requests = {method: Counter(counts) for method, counts in found["requests"].items()}


class _Store:
    def __init__(self, directory: Path, latency: float) -> None:
        self._directory = directory
        self._latency = latency
        self._running = 0
        self.most = self.sent = 0
        self.requests: dict[str, Counter[str]] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = (await reader.readuntil(_END)).decode()
                self._running += 1
                self.most = max(self.most, self._running)
                await asyncio.sleep(self._latency)
                self._running -= 1
                writer.write(self._answer(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    def _answer(self, head: str) -> bytes:
        method, target, _ = head.split(" ", 2)
        url = urlsplit(target)
        key = unquote(url.path).strip("/").partition("/")[2]
        query = parse_qs(url.query)
        if "list-type" in query:
            self._count("LIST", query.get("prefix", [""])[0])
            return _with_body("200 OK", self._listing(query.get("prefix", [""])[0]), "Content-Type: application/xml\r\n")
        self._count(method, key)
        file = self._directory / key
        if not key or not file.is_file():
            return _with_body("404 Not Found", b"")
        wanted = re.search(r"(?mi)^range: bytes=(\d+)-(\d+)", head)
        described = f'ETag: "1"\r\nLast-Modified: {_DATE}\r\n'
        if method == "HEAD":
            size = file.stat().st_size
            return f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n{described}\r\n".encode()
        size = file.stat().st_size
        begin, end = (0, size - 1) if wanted is None else (int(wanted[1]), min(int(wanted[2]), size - 1))
        with file.open("rb") as opened:
            opened.seek(begin)
            data = opened.read(end + 1 - begin)
        self.sent += len(data)
        if wanted is None:
            return _with_body("200 OK", data, described)
        ranged = f"Content-Range: bytes {begin}-{end}/{size}\r\n"
        return _with_body("206 Partial Content", data, described + ranged)

    def _count(self, method: str, key: str) -> None:
        self.requests.setdefault(method, Counter())[key] += 1

    def _listing(self, prefix: str) -> bytes:
        keys = [p.relative_to(self._directory).as_posix() for p in self._directory.rglob("*") if p.is_file()]
        found = sorted(key for key in keys if key.startswith(prefix))[:1]  # clients check whether the prefix exists
        contents = "".join(f"<Contents><Key>{escape(key)}</Key><Size>1</Size></Contents>" for key in found)
        return (
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        ).encode()


def _with_body(status: str, body: bytes, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


async def _run(directory: Path, latency: float) -> None:
    store = _Store(directory, latency)
    server = await asyncio.start_server(store.serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps({"most": store.most, "requests": store.requests, "sent": store.sent}), flush=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1]), float(sys.argv[2])))
