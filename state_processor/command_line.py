"""Parts of commands, for packages that add commands to ``state-processor``.

:func:`command` makes a command of a function with its arguments. The other names are arguments that commands share, flags of the
options of reads (:func:`flags`, :func:`flag_values`), new files, and texts and tables for terminals and pages. The names are
listed in ``command_line.pyi``, and may change in a minor version.
"""

from __future__ import annotations

from state_processor import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "command_line.pyi")
