"""Apache Iceberg: its source, and the committables of its sinks."""
