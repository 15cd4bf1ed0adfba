"""Apache Pulsar: its sources and its sink."""
