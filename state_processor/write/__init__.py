"""A write without Spark: drafts of operators, tasks, engines, migration."""
