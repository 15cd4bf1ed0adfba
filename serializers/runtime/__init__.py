"""Serializers of the runtime and its libraries.

``namespaces`` (windows, timers), ``ttl`` and ``stream_records`` belong to operators of the DataStream API, ``cep``, ``scala`` and
``beam`` to libraries. ``wrapping`` contains serializers around others and values in Java serialization, ``undescribed`` values of
classes without a description.
"""
