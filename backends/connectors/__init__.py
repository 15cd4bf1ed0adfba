"""Sources and sinks: their state as tables, and tables as their state.

``NAME.py`` has the columns of a family of connectors as :mod:`.connector` describes them, ``layouts/NAME.py`` its bytes as
compositions of codecs, and :mod:`.content_rows` puts one on the other. :mod:`.source_splits` and
:mod:`.sink_state` read tables, :mod:`.splits_writer` and :mod:`.sink_writer` write them, for each connector of :mod:`.registry`.
"""
