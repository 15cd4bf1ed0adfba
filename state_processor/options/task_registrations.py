"""Serializers that users register, as the driver sends them to the tasks of Spark.

The driver makes the tasks of a write, and Spark pickles them together with :class:`TaskSerializers`. For a read, the driver
registers a data source that carries them (:mod:`~state_processor.spark.data_source_registration`). Anybody who may write SQL sets
options. Options are therefore data, and name no code except the modules that the owner of the session allows
(:mod:`~state_processor.options.allowed_modules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Final

from state_processor.serializers.user_registrations import Registrations, begin_task, for_process, user_registrations
from state_processor.support import doors
from state_processor.support.doors import Door, current_door, spelled
from state_processor.support.errors import OptionError, describe


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
