"""Descriptions of the operators of Flink SQL, by family; ``registry`` is the table of all.

``aggregates``; ``over``; ``timed``: windows, joins and sorts by time, patterns; ``kept_rows``: deduplication, normalization and
ranks; ``joins``; ``sinks``; ``stateless``: sources, projections, exchanges, unions.
"""
