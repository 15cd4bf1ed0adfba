"""Plug-ins: sources, sinks and serializers that stand on the interface for extensions alone.

A plug-in imports :mod:`state_processor.connectors`, :mod:`state_processor.serializers`,
:mod:`state_processor.serializers.extension` and :mod:`state_processor.errors`, as the package of a user does. A small plug-in is
one module. In larger ones, ``connectors.py`` has ``CONNECTORS``, ``serializers.py`` has ``SNAPSHOTS`` or ``register``. The
registries load them when they are needed.
"""
