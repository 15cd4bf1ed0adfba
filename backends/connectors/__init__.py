"""Sources and sinks: their state as tables, and tables as their state.

``NAME.py`` has the columns of a family of connectors as :mod:`.connector` describes them, and its bytes as compositions of codecs
(:mod:`.codecs`, :mod:`.choices`, :mod:`.java_values`): one declaration reads and writes. :mod:`.content_rows` puts one on the
other. :mod:`.source_splits` reads and writes tables of splits, :mod:`.sink_state` reads and :mod:`.sink_writer` writes tables of
sinks, for each connector of :mod:`.registry`.
"""
