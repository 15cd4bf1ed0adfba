"""Serializers of flink-scala-api (``org.apache.flinkx.api``), the Scala API of Flink 1.15 and later outside of Flink."""
