"""Serializers of the runtime and its libraries.

``namespaces`` (windows), ``ttl``, ``timers``, ``stream_records`` and ``two_phase_commit`` belong to operators of the DataStream
API, ``cep``, ``scala``, ``gelly`` and ``pulsar`` to libraries, ``java_objects`` to Java serialization. ``wrapping`` contains
serializers around others, ``undescribed`` values of classes without a description.
"""
