"""Serializers of flink-core: basic types, collections, arrays, dates and times, POJO, tuple, row, and what others are made of."""
