"""The server of HTTP: routes, errors, and its description for OpenAPI."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from state_processor.applications.serving import answers
from state_processor.applications.serving.access import Permission
from state_processor.applications.serving.browser import BROWSE, browser_page, browser_policy
from state_processor.applications.serving.browsing import Browsing
from state_processor.applications.serving.following import Followed, ServedSnapshot
from state_processor.applications.serving.limits import BusyError, LimitError, Limits, TimeLimitError, Workers
from state_processor.applications.serving.openapi import document, page
from state_processor.serializers.errors import (
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
        segments = [unquote(part) for part in request.scope["raw_path"].decode("ascii").split("/")[1:]]
        match segments:
            case ["openapi.json"]:
                return _json(document(protected=permission.token is not None))
            case ["docs"] | [""]:
                return HTMLResponse(page(protected=permission.token is not None), headers=_SAFE)
        if segments[0] == BROWSE and request.headers.get("sec-fetch-site", "same-origin") not in _OWN_SITE:
            return _error(401, "Unauthorized", "pages of other sites may not ask for state")
        query = request.query_params
        read = browsing.read(segments[1:], query) if segments[0] == BROWSE else _read(segments, limits)
        if read is None:
            return _error(404, "NotFoundError", f"there is no {request.url.path}; /openapi.json describes all paths")
        try:
            return _json(await workers.run(partial(_asked, followed, read, query.get("snapshot"))))
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
    if "transfer-encoding" in request.headers or any(
        set(length) != {"0"} for length in request.headers.getlist("content-length")
    ):
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
            return answers.operators
        case ["operators", uid, "states"]:
            return lambda served: answers.states(served, uid)
        case ["operators", uid, "keys", key]:
            return lambda served: answers.contents(served, uid, key, None, limits)
        case ["operators", uid, "keys", key, state]:
            return lambda served: answers.contents(served, uid, key, state, limits)
    return None


def _unauthorized(permission: Permission) -> str:
    if permission.token is not None:
        return "expected the bearer token of the server in the header Authorization"
    return "without a token, the server answers to localhost and 127.0.0.1 only: ask by one of these names"
