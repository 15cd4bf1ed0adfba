"""Options of reading and writing: one table for keyword arguments, data sources and the command line.

``table`` lists the options, ``effects`` the kinds of reads, ``groups`` the options that each method takes, ``data_sources`` those
that data sources alone have, ``values`` what they can hold. ``text`` parses the options of data sources, ``keywords`` gives
functions the options as keyword arguments, ``flags`` the command line. ``access``, ``source`` and ``sink`` have checked options.
"""
