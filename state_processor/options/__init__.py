"""Options of reading and writing: one declaration for keyword arguments, data sources and the command line.

``access`` and ``data_sources`` declare options as fields, as ``backends/read/read_options.py`` does. ``option`` checks the given
values, and refuses options without effect. ``keywords`` has the table of all options, and gives functions their keyword
arguments. ``data_sources`` parses the options of data sources. The command line adds them as flags (``commands/command.py``).

Packages that build an application import the names of ``__init__.pyi`` from here. They may change in a minor version.
"""

from __future__ import annotations

from state_processor import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "__init__.pyi")
