"""Values that Kryo writes: the fallback of Flink for classes without a serializer of its own.

Lowest first, above the Java types of ``serializers/java/types.py``: ``wire`` (numbers and text); ``classes`` (trees of objects,
descriptions of user classes, class numbers); ``layouts`` and the JDK's classes (``jdk_layouts``, ``java_time``, ``converters``,
all in the table ``jdk``); ``columns``, between trees and columns; ``objects``, the reader and the writer, for classes and
references; ``serializer``, Flink's ``KryoSerializer`` and its snapshot; ``user_classes``, ``nested_kryo`` and ``pending_values``
on top.
"""
