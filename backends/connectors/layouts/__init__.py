"""Layouts of the bytes of connectors, as compositions of codecs: one declaration reads and writes."""
