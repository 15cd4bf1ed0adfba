"""State of Flink SQL's operators: names, descriptions, start values and migration, from the compiled plan of the query."""
