"""Options of reading and writing: one declaration for keyword arguments, data sources and the command line.

``access``, ``source`` and ``sink`` declare options as fields, as ``backends/read/read_options.py`` does. ``values`` checks the
given values, ``option`` refuses options without effect. ``keywords`` has the table of all options, and gives functions their
keyword arguments. ``text`` parses the options of data sources, and ``flags`` adds them to the command line.

Packages that build an application import the names of ``__init__.pyi`` from here. They may change in a minor version.
"""

from __future__ import annotations

from state_processor.support.late import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "__init__.pyi")
