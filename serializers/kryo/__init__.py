"""Values that Kryo writes: the fallback of Flink for classes without a serializer of its own.

Lowest first, above the Java types of ``serializers/java/types.py``: ``wire`` (numbers and text); ``classes`` (trees of objects,
descriptions of user classes, class numbers); ``layouts`` and the JDK's classes (``jdk_layouts``, ``java_time``, ``converters``,
all in the table ``jdk``); ``reader`` and ``writer``, which handle classes and references; ``columns``, ``plain_values`` and
``object_builder``, between trees and columns; ``serializer``, Flink's ``KryoSerializer`` and its snapshot; ``user_classes``,
``nested_kryo`` and ``pending_values`` on top.
"""
