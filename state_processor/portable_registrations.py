"""Serializers that users register, on their way from the driver to the tasks of Spark.

Tasks of a write are made by the driver's own code, and Spark pickles them: they carry the registrations as they are
(:class:`TaskSerializers`). Reads are described by options, which anybody who may write SQL can set, so that an option holds data
only: :func:`to_json` and :func:`from_json` bring descriptions, and the names of classes and functions that other processes can
import. Other code (of a notebook, or of ``__main__``) remains in the registrations that :func:`to_json` returns beside the text.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, cast

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import OptionError, StateProcessorError
from state_processor.serializers.evolution.resolution import PortableType
from state_processor.serializers.java.types import JavaType, KryoClass
from state_processor.serializers.kryo.nested_kryo import declare, java_types
from state_processor.serializers.user_registrations import (
    Registrations,
    SnapshotReader,
    begin_task,
    for_process,
    register,
    registrations,
    user_registrations,
)

_NOT_IMPORTABLE: Final = frozenset({"__main__", "__mp_main__"})


@dataclass(frozen=True)
class TaskSerializers:
    """Serializers of users that a task needs.

    Parameters
    ----------
    modules
        Modules to import, which register serializers.
    registrations
        What was registered in the driver.
    """

    modules: tuple[str, ...] = ()
    registrations: Registrations = field(default_factory=Registrations)

    @classmethod
    def of_driver(cls, modules: Sequence[str]) -> TaskSerializers:
        """Return those of this process."""
        return cls(tuple(modules), user_registrations())

    @classmethod
    def of_options(cls, modules: Sequence[str], text: str | None, code: Registrations) -> TaskSerializers:
        """Return those that the options ``serializers`` and ``registrations`` describe, with code that is no option."""
        import_serializers(modules)
        return cls(tuple(modules), from_json(text or "{}", code))

    def enter(self) -> None:
        """Make them known in the process of a task, until the next task.

        Raises
        ------
        OptionError
            If a module can't be imported.
        """
        import_serializers(self.modules)
        begin_task(self.registrations)


def import_serializers(modules: Sequence[str]) -> None:
    """Import modules that register serializers.

    Raises
    ------
    OptionError
        If one can't be imported.
    """
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise OptionError(f"serializers={module[:80]!r}: expected names of modules, separated by commas")
        try:
            with for_process():
                import_module(module)
        except ImportError as error:
            raise OptionError(
                f"serializers={module!r} can't be imported ({error}); it has to be importable on every worker, "
                "for instance by spark.sparkContext.addPyFile()"
            ) from error


def to_json(registered: Registrations) -> tuple[str, Registrations]:
    """Return the JSON of registrations, and those that are code which another process can't import."""
    code = Registrations()
    snapshots, kryo_classes = {}, []
    for class_name, reader in registered.snapshots.items():
        name = _importable_name(reader)
        if name is None:
            code = code.with_snapshot(class_name, reader)
        else:
            snapshots[class_name] = name
    for described in registered.kryo_classes.values():
        form = _kryo_class_to_json(described)
        if form is None:
            code = code.with_kryo_class(described)
        else:
            kryo_classes.append(form)
    subclasses: dict[str, dict[str, Any]] = {}
    for parent, classes in registered.pojo_subclasses.items():
        for name, fields in classes.items():
            try:
                subclasses.setdefault(parent, {})[name] = {field_: _type_to_json(type_) for field_, type_ in fields.items()}
            except (StateProcessorError, NotImplementedError):  # a serializer without a snapshot
                code = code.with_pojo_subclass(parent, name, fields)
    forms = {
        "snapshots": snapshots,
        "kryo_classes": kryo_classes,
        "pojo_subclasses": subclasses,
        "primitive_fields": {name: sorted(fields) for name, fields in registered.primitive_fields.items()},
    }
    return json.dumps({kind: form for kind, form in forms.items() if form}), code


def from_json(text: str, code: Registrations) -> Registrations:
    """Return registrations from their JSON, together with ``code``.

    Raises
    ------
    OptionError
        If the text is not JSON of registrations, or names code that can't be imported.
    """
    try:
        forms = json.loads(text)
        found = Registrations(
            {class_name: _imported_reader(name) for class_name, name in forms.get("snapshots", {}).items()},
            {form["name"]: _kryo_class_from_json(form) for form in forms.get("kryo_classes", ())},
        ).updated(code)
        with registrations():
            register(lambda registered: registered.updated(found))  # fields of POJOs may have such serializers
            for parent, classes in forms.get("pojo_subclasses", {}).items():
                for name, fields in classes.items():
                    found = found.with_pojo_subclass(parent, name, {n: _type_from_json(form) for n, form in fields.items()})
        for name, fields in forms.get("primitive_fields", {}).items():
            found = found.with_primitive_fields(name, frozenset(fields))
    except (ValueError, TypeError, KeyError, AttributeError, StateProcessorError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"option registrations: expected JSON of registrations, found {text[:80]!r} ({error})") from error
    return found


def _kryo_class_to_json(described: KryoClass) -> dict[str, Any] | None:
    """Return the form of a class; ``None`` if its reader or writer can't be imported."""
    form: dict[str, Any] = {"name": described.name, "final": described.final}
    for role, function in (("read", described.read), ("write", described.write)):
        if function is not None:
            form[role] = _importable_name(function)
            if form[role] is None:
                return None
    if described.abstract:
        form["abstract"] = True
    if described.constants is not None:
        form["constants"] = list(described.constants)
    if described.fields:
        form["fields"] = {name: _java_type_to_json(type_) for name, type_ in described.fields}
    return form


def _kryo_class_from_json(form: Mapping[str, Any]) -> KryoClass:
    return KryoClass(
        form["name"],
        tuple((name, _java_type_from_json(type_)) for name, type_ in form.get("fields", {}).items()),
        tuple(form["constants"]) if "constants" in form else None,
        _imported(form["read"]) if "read" in form else None,
        form.get("abstract", False),
        form["final"],
        _imported(form["write"]) if "write" in form else None,
    )


def _java_type_to_json(type_: JavaType) -> Any:
    return [type_.name, *map(_java_type_to_json, type_.arguments)] if type_.arguments else type_.name


def _java_type_from_json(form: Any) -> JavaType:
    if isinstance(form, str):
        return JavaType(form)
    name, *arguments = form
    return JavaType(name, tuple(map(_java_type_from_json, arguments)))


def _type_to_json(type_: TypeSerializer) -> dict[str, Any]:
    portable = PortableType.of(type_)
    return {
        "snapshot": b64encode(portable.snapshot).decode(),
        "rows": portable.rows,
        "java_types": [_java_type_to_json(java_type) for java_type in java_types(type_)],
    }


def _type_from_json(form: Mapping[str, Any]) -> TypeSerializer:
    rows = tuple(None if names is None else tuple(names) for names in form["rows"])
    type_ = PortableType(b64decode(form["snapshot"], validate=True), rows).restore()
    return declare([_java_type_from_json(java_type) for java_type in form["java_types"]], type_)


def _importable_name(code: Any) -> str | None:
    """Return ``module:name`` of a class or function that other processes can import; else ``None``."""
    module, name = getattr(code, "__module__", None), getattr(code, "__qualname__", None)
    if not module or not name or module in _NOT_IMPORTABLE or "<" in name:
        return None
    try:
        found = _named(import_module(module), name)
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if found is code else None


def _imported(text: str) -> Any:
    module, _, name = text.partition(":")
    try:
        return _named(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise OptionError(
            f"{text} can't be imported ({error}): code of serializers has to be in a module that every worker can import, "
            "for instance by spark.sparkContext.addPyFile()"
        ) from error


def _imported_reader(text: str) -> SnapshotReader:
    reader = _imported(text)
    if not callable(getattr(reader, "read", None)):
        raise OptionError(f"option registrations: expected a snapshot class, found {text}")
    return cast("SnapshotReader", reader)


def _named(module: Any, name: str) -> Any:
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    return found
