"""Values that Kryo writes: Flink's last resort for classes that it has no serializer for.

From the bottom: ``types`` (Java types), ``values`` (trees of objects), ``wire`` (numbers and text); ``classes`` (descriptions of
users' classes, class numbers); ``layouts`` and the JDK's classes (``jdk_layouts``, ``java_time``, ``converters``, ``containers``,
all in the table ``jdk``); ``reader`` and ``writer``, which follow classes and references; ``columns``, ``plain_values`` and
``object_builder``, between trees and columns; ``serializer``, Flink's ``KryoSerializer`` and its snapshot; ``user_classes``,
``nested_kryo`` and ``pending_values`` on top.
"""
