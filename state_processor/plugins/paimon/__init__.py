"""Apache Paimon: its source, and the state of its sink."""
