"""Serializers that users register: the modules that the option ``serializers`` may name, and what tasks of Spark get.

The driver makes the tasks of a write, and Spark pickles them together with :class:`TaskSerializers`. For a read, the driver
registers a data source that carries them (:mod:`~state_processor.spark.data_source_registration`). Anybody who may write SQL in a
session sets options of data sources, and importing a module runs it. Options are therefore data: ``serializers`` imports modules
that the owner of the session has allowed, and no others. Arguments of functions and methods are code: they need no permission.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Final

from state_processor.serializers.registry import Registrations, begin_task, for_process, user_registrations
from state_processor.support import doors
from state_processor.support.doors import Door, current_door, spelled
from state_processor.support.errors import OptionError, describe

ALLOWED_CONF: Final = "spark.stateProcessor.serializers.allowed"
"""Key in the configuration that a session's context starts with."""
_WHOLE_PACKAGE: Final = ".*"


def allowed_modules(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return checked names of modules, each once.

    ``names``: names of modules; ``acme.*`` means the package ``acme`` and all modules in it. Text has them separated by commas.
    """
    texts = names.split(",") if isinstance(names, str) else names
    modules = list(map(str.strip, texts))
    for name in modules:
        if name and not is_module_name(name.removesuffix(_WHOLE_PACKAGE)):
            raise OptionError(
                f"allowed serializers: {name!r} is not the name of a module; expected names such as acme.serializers, or acme.* "
                "for all modules of a package"
            )
    return tuple(dict.fromkeys(filter(None, modules)))


def is_module_name(text: str) -> bool:
    """Return True if a text has the form of the absolute name of a module."""
    return all(map(str.isidentifier, text.split(".")))


def check_allowed(modules: Iterable[str], allowed: Iterable[str]) -> None:
    """Check that the owner of the session allows an option to import modules."""
    for module in modules:
        if not any(_covers(name, module) for name in allowed):
            raise OptionError(
                f"option serializers: module {module!r} is not allowed in this session. Its owner allows it by starting Spark "
                f"with {ALLOWED_CONF}={module} (SET is ignored) and calling state_processor.register(spark), or by "
                f"state_processor.register(spark, allow_serializers=[{module!r}]). Python code needs no permission to pass it to "
                "SavepointReader, SavepointWriter or state_processor.arrow"
            )


def _covers(allowed: str, module: str) -> bool:
    package = allowed.removesuffix(_WHOLE_PACKAGE)
    return module == package or (package != allowed and module.startswith(package + "."))


@dataclass(frozen=True)
class TaskSerializers:
    """Serializers of users that a task needs."""

    modules: tuple[str, ...] = ()  # modules to import, which register serializers
    registrations: Registrations = field(default_factory=Registrations)  # the registrations of the driver
    # the door through which the user of the driver came, as which messages spell options; ``None`` if tasks know it
    door: Door | None = None

    @classmethod
    def of_driver(cls, modules: Sequence[str]) -> TaskSerializers:
        """Return the serializers of this process."""
        return cls(tuple(modules), user_registrations(), current_door())

    def __bool__(self) -> bool:
        return bool(self.modules or self.registrations)

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything, for comparisons."""
        return self.door, self.modules, *self.registrations.content

    def with_modules(self, modules: Iterable[str]) -> TaskSerializers:
        """Return a copy with more modules."""
        return replace(self, modules=tuple(dict.fromkeys([*self.modules, *modules])))

    def enter(self) -> None:
        """Make them known in the process of a task, until the next task."""
        import_serializers(self.modules)
        begin_task(self.registrations)
        if self.door is not None:
            doors.begin_task(self.door)


_WITHOUT_SPARK: Final = "add its directory to PYTHONPATH"
_ON_WORKERS: Final = "it has to be importable on every worker, for instance by spark.sparkContext.addPyFile()"


def import_serializers(modules: Sequence[str]) -> None:
    """Import modules that register serializers."""
    for module in modules:
        try:
            with for_process():
                import_module(module)
        except ImportError as error:
            remedy = _WITHOUT_SPARK if current_door() in (Door.COMMAND_LINE, Door.FUNCTIONS) else _ON_WORKERS
            raise OptionError(f"{spelled('serializers', module)} can't be imported ({error}); {remedy}") from error
        except Exception as error:
            raise OptionError(f"{spelled('serializers', module)}: importing the module failed with {describe(error)}") from error
