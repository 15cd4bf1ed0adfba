"""What all rooms use: errors, the spelling of options at each door, late imports, locks, redaction, the table of plug-ins.

Packages that build an application import the names of ``__init__.pyi`` from here. They may change in a minor version.
"""

from __future__ import annotations

from state_processor import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "__init__.pyi")
