"""Flink Agents: classes in the state of ``ActionExecutionOperator``, the operator of an agent, and the tree that memory is.

Kryo writes the classes field by field. Memory has had the same fields since the first release, and is described without being
asked for. Tasks, events and messages got and lost fields, and their bytes do not name the release: :func:`describe` takes it.

In memory (``MemoryObjectImpl``), each path is an entry of the map: a value, or an object that names its fields. The agent looks
up each named field, and fails if one is missing. It does not find fields that their object does not name. A change of paths
therefore changes objects too: :func:`corrected_objects`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from state_processor.errors import InvalidRowError, OptionError
from state_processor.serializers import register_kryo_class

__all__ = ["corrected_objects", "describe"]

Fields: TypeAlias = Mapping[str, str] | Sequence[str] | None
"""Fields of a class, constants of an enum, or ``None`` for a class without objects of its own."""

_AGENTS: Final = "org.apache.flink.agents."
_MEMORY: Final = "runtime.memory.MemoryObjectImpl$"
_MESSAGE: Final = f"{_AGENTS}api.chat.messages.ChatMessage"
_RESPONSE: Final = f"{_AGENTS}api.tools.ToolResponse"
_TEXT: Final = "java.lang.String"
_UUID: Final = "java.util.UUID"
_OBJECT: Final = "java.lang.Object"
_OBJECTS: Final = "java.util.Map<java.lang.String, java.lang.Object>"
_TEXTS: Final = "java.util.Map<java.lang.String, java.lang.String>"
_EVENT: Final = {"id": _UUID, "attributes": _OBJECTS, "sourceTimestamp": "java.lang.Long"}
_TASK: Final = {"key": _OBJECT, "event": f"{_AGENTS}api.Event", "action": f"{_AGENTS}plan.actions.Action"}

_FINAL: Final = frozenset({f"{_MEMORY}MemoryItem"})
_OF_MEMORY: Final[dict[str, Fields]] = {
    f"{_MEMORY}ItemType": ["OBJECT", "VALUE"],
    f"{_MEMORY}MemoryItem": {
        "type": f"{_AGENTS}{_MEMORY}ItemType",
        "value": _OBJECT,
        "subKeys": "java.util.Set<java.lang.String>",
    },
}
_OF_ALL_RELEASES: Final[dict[str, Fields]] = {
    "api.chat.messages.MessageRole": ["USER", "ASSISTANT", "SYSTEM", "TOOL"],
    "api.chat.messages.ChatMessage": {
        "role": f"{_AGENTS}api.chat.messages.MessageRole",
        "content": _TEXT,
        "toolCalls": f"java.util.List<{_OBJECTS}>",
        "extraArgs": _OBJECTS,
    },
    "api.tools.ToolResponse": {
        "result": _OBJECT,
        "success": "boolean",
        "error": _TEXT,
        "executionTimeMs": "long",
        "toolName": _TEXT,
    },
    "api.Event": None,
    "api.InputEvent": {**_EVENT, "input": _OBJECT},
    "api.OutputEvent": {**_EVENT, "output": _OBJECT},
    "api.event.ChatResponseEvent": {**_EVENT, "requestId": _UUID, "response": _MESSAGE},
    "api.event.ToolRequestEvent": {
        **_EVENT,
        "model": _TEXT,
        "toolCalls": f"java.util.List<{_OBJECTS}>",
        "timestamp": "long",
    },
    "api.event.ToolResponseEvent": {
        **_EVENT,
        "requestId": _UUID,
        "responses": f"java.util.Map<java.lang.String, {_RESPONSE}>",
        "externalIds": _TEXTS,
        "success": "java.util.Map<java.lang.String, java.lang.Boolean>",
        "error": _TEXTS,
        "timestamp": "long",
    },
    "plan.Function": None,
    "plan.JavaFunction": {"qualName": _TEXT, "methodName": _TEXT, "parameterTypes": "java.lang.Class[]"},
    "plan.PythonFunction": {"module": _TEXT, "qualName": _TEXT},
    "plan.actions.Action": {
        "name": _TEXT,
        "exec": f"{_AGENTS}plan.Function",
        "listenEventTypes": "java.util.List<java.lang.String>",
        "config": _OBJECTS,
    },
    "runtime.operator.ActionTask": None,
    "runtime.python.operator.PythonActionTask": _TASK,
}
_CHAT_REQUEST: Final = {**_EVENT, "model": _TEXT, "messages": f"java.util.List<{_MESSAGE}>"}
_PYTHON_EVENT: Final = {**_EVENT, "event": "byte[]", "eventType": _TEXT}
_OF_RELEASES: Final[dict[str, dict[str, Fields]]] = {
    "0.1.1": {
        **_OF_ALL_RELEASES,
        "api.event.ChatRequestEvent": _CHAT_REQUEST,
        "runtime.python.event.PythonEvent": {**_PYTHON_EVENT, "eventString": _TEXT},
        "runtime.python.operator.PythonGeneratorActionTask": {**_TASK, "pythonGeneratorRef": _TEXT},
    },
    "0.2.0": {
        **_OF_ALL_RELEASES,
        "api.event.ChatRequestEvent": {**_CHAT_REQUEST, "outputSchema": _OBJECT},
        "api.event.ContextRetrievalRequestEvent": {**_EVENT, "query": _TEXT, "vectorStore": _TEXT, "maxResults": "int"},
        "api.event.ContextRetrievalResponseEvent": {
            **_EVENT,
            "requestId": _UUID,
            "query": _TEXT,
            "documents": f"java.util.List<{_AGENTS}api.vectorstores.Document>",
        },
        "api.vectorstores.Document": {"id": _TEXT, "content": _TEXT, "metadata": _OBJECTS, "embedding": "float[]"},
        "runtime.operator.JavaActionTask": {**_TASK, "executionStarted": "boolean"},
        "runtime.python.event.PythonEvent": {**_PYTHON_EVENT, "eventJsonStr": _TEXT},
        "runtime.python.operator.PythonGeneratorActionTask": _TASK,
    },
}
"""Classes by release. Tasks in Java of 0.1.1 are missing: they have a class loader in a field."""


def register() -> None:
    """Describe the classes of memory, which are the same in all releases."""
    _register(_OF_MEMORY)


def describe(release: str) -> None:
    """Describe the tasks, events and messages of a release of Flink Agents.

    Subclasses of events that a job declares, and other classes of a job, still need
    :func:`~state_processor.serializers.register_kryo_class`.

    Parameters
    ----------
    release
        The release that wrote the state: ``0.1.1`` or ``0.2.0``.

    Raises
    ------
    OptionError
        If the classes of the release are not known here. Memory is read nevertheless, and tasks and events are bytes.
    """
    classes = _OF_RELEASES.get(release)
    if classes is None:
        raise OptionError(
            f"Flink Agents {release}: the fields of its tasks, events and messages are not known, those of "
            f"{' and '.join(_OF_RELEASES)} are. Leave them bytes, which are copied unchanged, or register its classes"
        )
    _register(classes)


def _register(classes: Mapping[str, Fields]) -> None:
    for name, fields in classes.items():
        register_kryo_class(f"{_AGENTS}{name}", fields, final=True if name in _FINAL else None)


# The tree of memory

_COLUMNS: Final = ("key", "map_key", "map_value")
_ROOT: Final = ""
_SEPARATOR: Final = "."


def corrected_objects(memory: pa.Table) -> pa.Table:
    """Return the objects whose fields are not the paths that memory has, with the fields corrected.

    Call it with the memory as it shall be, and write the result with ``update_keyed_state``.

    Parameters
    ----------
    memory
        All rows of ``shortTermMemory`` or ``sensoryMemory``, less those that are deleted, with those that are added: ``key``,
        ``map_key`` and ``map_value``.

    Returns
    -------
    pyarrow.Table
        The objects to write, in the same columns. Objects that are missing above a path are among them.

    Raises
    ------
    InvalidRowError
        A column is missing, or a path is below a value.
    """
    if missing := [name for name in _COLUMNS if name not in memory.column_names]:
        raise InvalidRowError(f"expected the columns {', '.join(_COLUMNS)} of memory; missing: {', '.join(missing)}")
    schema = pa.schema([memory.schema.field(name) for name in _COLUMNS])
    trees: dict[str, tuple[Any, dict[str, Any]]] = {}
    for row in memory.select(_COLUMNS).to_pylist():
        trees.setdefault(repr(row["key"]), (row["key"], {}))[1][row["map_key"]] = row["map_value"]
    changed: list[dict[str, Any]] = []
    for key, items in trees.values():
        corrected = _corrected(key, items)
        changed += ({"key": key, "map_key": path, "map_value": item} for path, item in corrected.items())
    return pa.Table.from_pylist(changed, schema=schema)


def _corrected(key: Any, items: Mapping[str, Any]) -> dict[str, Any]:
    fields = _fields(items)
    changed = {}
    for path, names in fields.items():
        item = items.get(path) or {"type": "OBJECT", "value": None, "subKeys": None}
        if item["type"] == "OBJECT" and {*(item["subKeys"] or ())} != names:
            changed[path] = {**item, "subKeys": sorted(names)}
        elif item["type"] != "OBJECT" and names:
            raise InvalidRowError(f"memory of key {key!r}: {path!r} is a value, and has the fields {', '.join(sorted(names))}")
    return changed


def _fields(items: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the names of the fields of each path, and of each path above one."""
    fields: dict[str, set[str]] = {path: set() for path in items}
    for path in items:
        below = path
        while below != _ROOT:
            above, _, name = below.rpartition(_SEPARATOR)
            fields.setdefault(above, set()).add(name)
            below = above
    return fields
