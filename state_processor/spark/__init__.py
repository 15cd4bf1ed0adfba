"""All that uses Spark: the data sources, the engine that runs a write as jobs, differences between versions."""
