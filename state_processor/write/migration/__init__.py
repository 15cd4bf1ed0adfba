"""Migration of state: ``migration_decisions`` for Flink 2.x."""
