"""States and their rows, for packages that build an application: descriptions, reads and schemas.

A ``StateRequest`` finds an operator and its states; its scan has the schema and the rows. The names are listed in ``states.pyi``,
and may change in a minor version.
"""

from __future__ import annotations

from state_processor import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "states.pyi")
