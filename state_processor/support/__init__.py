"""What all rooms use: errors, spelling of options, late imports, locks, redaction, plug-ins, dictionaries, Arrow types.

Packages that build an application import the names of ``__init__.pyi`` from here. They may change in a minor version.
"""

from __future__ import annotations

from state_processor import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "__init__.pyi")
