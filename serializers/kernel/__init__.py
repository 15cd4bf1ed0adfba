"""Columnar kernels: a serializer tree becomes a flat program that one compiled loop runs over many values."""
