"""Found by Spark's auto-discovery of ``pyspark_*`` modules: registers the format ``flink-savepoint``."""
