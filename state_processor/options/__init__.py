"""Options of reading and writing: one declaration for keyword arguments, data sources and the command line.

``access``, ``source`` and ``sink`` declare options as fields, as ``backends/read/read_options.py`` does. ``table`` collects them.
``values`` checks the given values, ``effects`` refuses options without effect. ``keywords`` gives functions the options as
keyword arguments, ``text`` parses the options of data sources, and ``flags`` adds them to the command line.
"""
