"""Values of one type read as another: schema resolution, what Flink infers for a class, migration from Flink 1.x to 2.x."""
