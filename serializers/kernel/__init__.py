"""Columnar kernels: a serializer tree becomes a flat program that one compiled loop runs over many values."""

from state_processor.serializers.kernel.cache import discard_stale_kernels

discard_stale_kernels()
