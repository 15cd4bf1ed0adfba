"""Values that Kryo writes: Flink's last resort for classes that it has no serializer for.

``serializer`` and ``snapshot`` are Flink's ``KryoSerializer``; ``reader`` and ``writer`` follow references and classes through a
value, a tree of ``values``. ``jdk`` is the table of the JDK's classes, made of ``layouts``, ``contents``, ``times`` and
``making`` on top of ``wire``; ``containers`` has collections and maps, ``classes`` the descriptions of users' classes.
``columns`` and ``building`` lead from values to columns and back. ``parts`` finds what Kryo writes inside of other types;
``drafts`` and ``adoption`` bring it back into a state as it was, or in the classes that it had.
"""

from state_processor.serializers.kryo.classes import register_kryo_class
from state_processor.serializers.kryo.declared import java_type_of
from state_processor.serializers.kryo.serializer import KryoSerializer, KryoValue, convert, with_first_id
from state_processor.serializers.kryo.snapshot import KRYO_SNAPSHOT, KryoSerializerSnapshot, written_by_flink

__all__ = [
    "KRYO_SNAPSHOT",
    "KryoSerializer",
    "KryoSerializerSnapshot",
    "KryoValue",
    "convert",
    "java_type_of",
    "register_kryo_class",
    "with_first_id",
    "written_by_flink",
]
