"""One table for all jobs below directories: ``table``, ``grouping``, ``measures``, ``findings``; ``page``, ``openmetrics``."""
