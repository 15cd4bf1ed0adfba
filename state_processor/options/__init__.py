"""Options of reading and writing: one table for keyword arguments, data sources and the command line.

``table`` lists the options, ``values`` what they can hold, ``text`` parses those of data sources, ``keywords`` gives
functions the options as keyword arguments, ``flags`` the command line. ``access``, ``source`` and ``sink`` have checked options.
"""
