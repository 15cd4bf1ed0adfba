"""The description of the server's paths: an OpenAPI document, and a page that shows it."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from state_processor import __version__

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
        "parameters": [
            {"name": name, "in": "path", "required": True, "description": meaning, "schema": {"type": "string"}}
            for name, meaning in parameters
        ],
        "responses": {"200": _response("The answer.", "Answer"), **errors},
    }


def _response(text: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": text, "content": content}


def page(*, protected: bool) -> str:
    """Return the page about the paths. It loads nothing from other hosts."""
    token = "<p>Requests need the header <code>Authorization: Bearer TOKEN</code>.</p>" if protected else ""
    parts = [
        f"<h2><code>GET {escape(path)}</code></h2><p>{escape(text)}</p>"
        + "".join(f"<p><code>{escape(name)}</code>: {escape(meaning)}</p>" for name, meaning in parameters)
        for path, text, parameters in _PATHS
    ]
    errors = "".join(f"<p><code>{code}</code>: {escape(reason)}</p>" for code, reason in _ERRORS.items())
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>state-processor</title>"
        "<style>body{font-family:sans-serif;max-width:48em;margin:2em auto;padding:0 1em}</style>"
        "<h1>state-processor</h1><p>The state of a Flink job, read from its newest complete checkpoint. "
        "<a href='openapi.json'>openapi.json</a> describes the same for programs, <a href='browse'>browse</a> shows it.</p>"
        f"{token}{''.join(parts)}"
        f"<h2>Errors</h2>{errors}</html>"
    )
