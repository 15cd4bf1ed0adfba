"""The server of HTTP: routes, errors, and its description for OpenAPI."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from functools import partial
from html import escape
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from uvicorn.protocols.http.h11_impl import H11Protocol

from state_processor import __version__
from state_processor.applications.serving import browsing
from state_processor.applications.serving.browsing import BROWSE, Browsing, browser_page, browser_policy
from state_processor.applications.serving.following import Followed, ServedSnapshot
from state_processor.applications.serving.limits import BusyError, LimitError, Limits, Permission, TimeLimitError, Workers
from state_processor.errors import (
    CorruptSnapshotError,
    InvalidRowError,
    NotFoundError,
    OptionError,
    StateProcessorError,
    UnsupportedFormatError,
)

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_UID: Final = ("uid", "The operator: its uid, or the 32 digits of the hash of its uid.")
_KEY: Final = ("key", 'The key. Keys of text are the text; other keys are JSON: 17, true, [1,"a"].')
_STATE: Final = ("state", "Name of a keyed state.")

_PATHS: Final[tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]] = (
    ("/checkpoint", "The number of the checkpoint that is served.", ()),
    ("/operators", "The operators of the checkpoint.", ()),
    ("/operators/{uid}/states", "The states of an operator: kinds, types, columns.", (_UID,)),
    ("/operators/{uid}/keys/{key}", "The values of a key in all keyed states, and its timers.", (_UID, _KEY)),
    ("/operators/{uid}/keys/{key}/{state}", "The value of a key in one state.", (_UID, _KEY, _STATE)),
)
_ERRORS: Final = {
    "400": "The key is not of the operator's key type.",
    "401": "The bearer token is missing or wrong.",
    "404": "The operator, the state or the key does not exist.",
    "413": "The answer has more rows than the server allows.",
    "500": "A file of the checkpoint is damaged, or the server failed.",
    "501": "The checkpoint has a format or a value that is not supported.",
    "503": "All workers are busy, or the checkpoint can't be read.",
    "504": "The request took too long.",
}


def document(*, protected: bool) -> dict[str, Any]:
    """Return the OpenAPI document; ``protected`` if requests need a bearer token."""
    security: dict[str, Any] = {"security": [{"token": []}]} if protected else {}
    schemes = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if protected else {}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "state-processor",
            "version": __version__,
            "description": "The state of a Flink job, read from its newest complete checkpoint. All answers name the checkpoint.",
        },
        "paths": {path: {"get": _operation(text, parameters)} for path, text, parameters in _PATHS},
        "components": {"schemas": {"Answer": _ANSWER, "Error": _ERROR}, **schemes},
        **security,
    }


_ANSWER: Final = {
    "type": "object",
    "required": ["checkpoint_id"],
    "properties": {"checkpoint_id": {"type": "integer", "description": "The checkpoint that the answer is from."}},
}
_ERROR: Final = {
    "type": "object",
    "properties": {
        "error": {"type": "object", "properties": {"type": {"type": "string"}, "message": {"type": "string"}}},
    },
}


def _operation(text: str, parameters: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    errors = {code: _response(reason, "Error") for code, reason in _ERRORS.items()}
    return {
        "summary": text,
        "parameters": list(starmap(_parameter, parameters)),
        "responses": {"200": _response("The answer.", "Answer"), **errors},
    }


def _parameter(name: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": meaning, "schema": {"type": "string"}}


def _response(text: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": text, "content": content}


def _defined(term: object, meaning: str) -> str:
    return f"<p><code>{escape(str(term))}</code>: {escape(meaning)}</p>"


def page(*, protected: bool) -> str:
    """Return the page about the paths. It loads nothing from other hosts."""
    token = "<p>Requests need the header <code>Authorization: Bearer TOKEN</code>.</p>" if protected else ""
    parts: list[str] = []
    for path, text, parameters in _PATHS:
        parts.append(f"<h2><code>GET {escape(path)}</code></h2><p>{escape(text)}</p>")
        parts += starmap(_defined, parameters)
    errors = "".join(starmap(_defined, _ERRORS.items()))
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>state-processor</title>"
        "<style>body{font-family:sans-serif;max-width:48em;margin:2em auto;padding:0 1em}</style>"
        "<h1>state-processor</h1><p>The state of a Flink job, read from its newest complete checkpoint. "
        "<a href='openapi.json'>openapi.json</a> describes the same for programs, <a href='browse'>browse</a> shows it.</p>"
        f"{token}{''.join(parts)}"
        f"<h2>Errors</h2>{errors}</html>"
    )


_LOG: Final = logging.getLogger("state_processor")
_STATUS: Final[dict[type[StateProcessorError], int]] = {
    NotFoundError: 404,
    OptionError: 400,
    InvalidRowError: 400,
    BusyError: 503,
    TimeLimitError: 504,
    LimitError: 413,
    UnsupportedFormatError: 501,
    CorruptSnapshotError: 500,
}
"""Statuses of errors; other errors of the library are 503: a newer checkpoint may be readable."""

Read = Callable[[ServedSnapshot], dict[str, Any]]


def application(followed: Followed, permission: Permission, limits: Limits) -> Starlette:
    """Return the application.

    ``followed``: the snapshots. ``permission``: who may ask. ``limits``: limits of requests.
    """
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import Route

    workers = Workers(limits)
    browsing = Browsing(followed, limits)

    async def answer(request: Request) -> Response:
        if request.url.path.rstrip("/") == f"/{BROWSE}":  # without state: the page sends the token with its requests
            return HTMLResponse(browser_page(), headers=_SAFE | {"Content-Security-Policy": browser_policy()})
        if refusal := _refusal(request, permission):
            return _error(*refusal)
        segments = list(map(unquote, request.scope["raw_path"].decode("ascii").split("/")[1:]))
        match segments:
            case ["openapi.json"]:
                return _json(document(protected=permission.token is not None))
            case ["docs"] | [""]:
                return HTMLResponse(page(protected=permission.token is not None), headers=_SAFE)
        if segments[0] == BROWSE and request.headers.get("sec-fetch-site", "same-origin") not in _OWN_SITE:
            return _error(401, "Unauthorized", "pages of other sites may not ask for state")
        query = request.query_params
        listed = browsing.read_listed(segments[1:]) if segments[0] == BROWSE else None
        read = browsing.read(segments[1:], query) if segments[0] == BROWSE else _read(segments, limits)
        path = query.get("snapshot")
        work = partial(listed, path) if listed else partial(_asked, followed, read, path) if read else None
        if work is None:
            return _error(404, "NotFoundError", f"there is no {request.url.path}; /openapi.json describes all paths")
        try:
            return _json(followed.presentable(await workers.run(work)))
        except StateProcessorError as problem:
            status = next((code for kind, code in _STATUS.items() if isinstance(problem, kind)), 503)
            return _error(status, type(problem).__name__, str(problem))
        except Exception:
            _LOG.exception("a request failed: %s", request.url.path)
            return _error(500, "InternalError", "the server failed; its log has the reason")

    def _error(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> Response:
        return _json({"error": {"type": kind, "message": message}}, status, headers)

    def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return Response(text.encode("utf-8", "replace"), status, {**_SAFE, **(headers or {})}, "application/json")

    return Starlette(routes=[Route("/{rest:path}", answer, methods=["GET"])])


def _refusal(request: Request, permission: Permission) -> tuple[int, str, str, dict[str, str]] | None:
    """Return status, kind, message and headers of the answer to a request that is refused; ``None`` if it is not."""
    if not permission.allows(request.headers.get("authorization"), request.headers.get("host")):
        return 401, "Unauthorized", _unauthorized(permission), {"WWW-Authenticate": "Bearer"}
    problem = _malformed(request)
    return (400, "BadRequest", problem, {"Connection": "close"}) if problem else None


def _malformed(request: Request) -> str:
    """Return why a request is refused; empty if it is not.

    Whether a body ends where a proxy takes it to end is uncertain: no request has one (RFC 9112, 6.3 and 11.2).
    """
    if request.scope["http_version"] not in ("1.0", "1.1"):
        return f"expected HTTP/1.0 or HTTP/1.1, found HTTP/{request.scope['http_version']}"
    lengths = request.headers.getlist("content-length")
    if "transfer-encoding" in request.headers or any(set(length) != {"0"} for length in lengths):
        return "expected a request without a body"
    if len(request.headers.getlist("authorization")) > 1:
        return "expected one header Authorization"
    try:
        for part in (request.scope["raw_path"], request.scope["query_string"]):
            unquote(part.decode("ascii"), errors="strict")
    except UnicodeDecodeError:
        return "expected percent-encoded UTF-8"
    return ""


def _asked(followed: Followed, read: Read, snapshot: str | None) -> dict[str, Any]:
    return followed.ask(read) if snapshot is None else read(followed.at(snapshot))


_OWN_SITE: Final = ("same-origin", "none")
_SAFE: Final = {
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}


def _read(segments: list[str], limits: Limits) -> Read | None:
    """Return the function that reads the answer of a path; ``None`` if the path is unknown."""
    match segments:
        case ["checkpoint"]:
            return lambda served: {"checkpoint_id": served.checkpoint_id}
        case ["operators"]:
            return browsing.operators
        case ["operators", uid, "states"]:
            return lambda served: browsing.states(served, uid)
        case ["operators", uid, "keys", key]:
            return lambda served: browsing.contents(served, uid, key, None, limits)
        case ["operators", uid, "keys", key, state]:
            return lambda served: browsing.contents(served, uid, key, state, limits)
    return None


def _unauthorized(permission: Permission) -> str:
    if permission.token is not None:
        return "expected the bearer token of the server in the header Authorization"
    return "without a token, the server answers to localhost and 127.0.0.1 only: ask by one of these names"


REQUEST_SECONDS: Final = 10.0
"""Time in seconds for a whole request to come, from the start of a connection or from the first byte of a further request."""


class WatchedProtocol(H11Protocol):
    """HTTP on one connection. uvicorn itself limits only the time between two requests."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and go on waiting until a request is complete."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if not self._is_waiting():
            self._stop()
        elif self._limit is None:
            self._limit = self.loop.call_later(REQUEST_SECONDS, self._end)

    def _is_waiting(self) -> bool:
        """Return whether the head or the body of a request is not complete."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _end(self) -> None:
        if self._is_waiting():
            self.transport.abort()
