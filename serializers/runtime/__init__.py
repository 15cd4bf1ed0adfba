"""Serializers of the runtime and its libraries.

``namespaces`` (windows, timers) and ``stream_records`` belong to operators of the DataStream API, ``cep``, ``scala`` and ``beam``
to libraries. ``wrapping`` contains serializers around others, such as time-to-live, and values in Java serialization.
"""
