"""Options of reading and writing: one table for keyword arguments, data sources and the command line.

``table`` lists the options, ``values`` what they can hold, ``names`` finds the nearest name of a misspelt one, ``keywords`` gives
functions the options as keyword arguments, ``access``, ``source`` and ``sink`` are what the options of a call amount to.
"""
