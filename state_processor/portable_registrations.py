"""Registrations on their way from the driver to tasks, and modules that register serializers."""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from state_processor.serializers.errors import OptionError
from state_processor.serializers.registrations import Registrations, withdraw_applied

_REGISTERED: Final = "registered:"


def portable_registrations() -> tuple[str, ...]:
    """What was registered in this process by calls, as a member of ``serializers`` that workers understand; none if nothing was.

    It is a pickle, made by the driver for its own tasks as Spark does with functions; no snapshot's bytes go into it.
    """
    from pyspark import cloudpickle  # imported here: the Arrow surface does without pyspark

    registrations = Registrations.current()
    if not registrations:
        return ()
    return (_REGISTERED + b64encode(cloudpickle.dumps(registrations)).decode(),)  # type: ignore[no-untyped-call]


def import_serializers(modules: Sequence[str]) -> None:
    """Import modules that register serializers of the user's own, and take over :func:`portable_registrations`.

    Raises
    ------
    OptionError
        If one can't be imported.
    """
    withdraw_applied()
    for module in modules:
        if module.startswith(_REGISTERED):
            pickle.loads(b64decode(module.removeprefix(_REGISTERED))).apply()
            continue
        try:
            import_module(module)
        except ImportError as error:
            raise OptionError(
                f"serializers={module!r} can't be imported ({error}); it has to be importable on every worker, "
                "for instance by spark.sparkContext.addPyFile()"
            ) from error
