"""All jobs below directories.

One table: ``table``, ``grouping``, ``measures``, ``findings``; ``page``, ``openmetrics``. Their state: ``finding``, ``erasing``.
"""
