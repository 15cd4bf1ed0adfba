"""Collections and maps of the JDK, by their format in Kryo."""

from __future__ import annotations

from typing import Final

_UTIL: Final = "java.util."


def _of_util(*names: str) -> frozenset[str]:
    return frozenset(_UTIL + name for name in names)


AS_LIST: Final = "java.util.Arrays$ArrayList"
OPTIONAL: Final = "java.util.Optional"
IMMUTABLE: Final = _of_util(*(f"ImmutableCollections${name}" for name in ("List12", "ListN", "Set12", "SetN", "SubList")))
"""Collections without null elements, as Kryo 5 assumes."""
ORDERED_SETS: Final = _of_util("TreeSet", "PriorityQueue")
"""Collections with a comparator."""
ORDERED_MAPS: Final = _of_util("TreeMap")
COLLECTIONS: Final = (
    _of_util(
        *("ArrayList", "LinkedList", "Vector", "Stack", "ArrayDeque", "HashSet", "LinkedHashSet", "IdentityHashMap$KeySet"),
        *(
            f"Collections$Unmodifiable{kind}"
            for kind in ("Collection", "List", "RandomAccessList", "Set", "SortedSet", "NavigableSet")
        ),
        *(f"Collections$Synchronized{kind}" for kind in ("Collection", "List", "RandomAccessList", "Set", "SortedSet")),
        *("Collections$SetFromMap", "Collections$CopiesList", "HashMap$KeySet", "HashMap$Values"),
        *("LinkedHashMap$LinkedKeySet", "LinkedHashMap$LinkedValues", "TreeMap$KeySet", "TreeMap$Values"),
        *("ArrayList$SubList", "AbstractList$SubList", "AbstractList$RandomAccessSubList", "SubList", "RandomAccessSubList"),
        *(f"concurrent.CopyOnWriteArray{kind}" for kind in ("List", "Set")),
        *(f"concurrent.{name}" for name in ("ConcurrentLinkedQueue", "ConcurrentLinkedDeque", "LinkedBlockingQueue")),
        *(f"concurrent.{name}" for name in ("LinkedBlockingDeque", "ConcurrentSkipListSet", "ConcurrentHashMap$KeySetView")),
    )
    | {"org.apache.avro.generic.GenericData$Array", AS_LIST}
    | IMMUTABLE
    | ORDERED_SETS
)
MAPS: Final = (
    _of_util(
        *("HashMap", "LinkedHashMap", "Hashtable", "Properties", "IdentityHashMap", "WeakHashMap", "EnumMap"),
        *("concurrent.ConcurrentHashMap", "ImmutableCollections$Map1", "ImmutableCollections$MapN"),
        *(f"Collections$Unmodifiable{kind}Map" for kind in ("", "Sorted", "Navigable")),
        *(f"Collections$Synchronized{kind}Map" for kind in ("", "Sorted")),
    )
    | ORDERED_MAPS
)
SINGLETONS: Final = _of_util("Collections$SingletonList", "Collections$SingletonSet")
SINGLETON_MAP: Final = "java.util.Collections$SingletonMap"

NEW_OF: Final = {
    **dict.fromkeys(_of_util("Collection", "List", "AbstractList", "AbstractCollection"), "java.util.ArrayList"),
    **dict.fromkeys(_of_util("Set", "AbstractSet"), "java.util.HashSet"),
    **dict.fromkeys(_of_util("SortedSet", "NavigableSet"), "java.util.TreeSet"),
    **dict.fromkeys(_of_util("Queue", "Deque"), "java.util.LinkedList"),
    **dict.fromkeys(_of_util("Map", "AbstractMap"), "java.util.HashMap"),
    **dict.fromkeys(_of_util("SortedMap", "NavigableMap"), "java.util.TreeMap"),
    "java.util.concurrent.ConcurrentMap": "java.util.concurrent.ConcurrentHashMap",
    "java.lang.Iterable": "java.util.ArrayList",
    "java.util.TimeZone": "sun.util.calendar.ZoneInfo",
    "java.util.Calendar": "java.util.GregorianCalendar",
    "java.util.EnumSet": "java.util.RegularEnumSet",
}
"""Classes of new values by the interface or abstract class of the declared field."""

OPEN: Final = frozenset(
    {
        *(f"java.lang.{name}" for name in ("Object", "Number", "Comparable", "CharSequence", "Iterable")),
        "java.io.Serializable",
        "java.time.ZoneId",
        *_of_util("TimeZone", "Calendar", "EnumSet"),
    }
)
"""Types whose values can be of any class of the JDK."""

_COLLECTION_TYPES: Final = _of_util(
    *("Collection", "List", "Set", "SortedSet", "NavigableSet", "Queue", "Deque", "AbstractList", "AbstractCollection"),
    "AbstractSet",
)
_MAP_TYPES: Final = _of_util("Map", "SortedMap", "NavigableMap", "AbstractMap", "concurrent.ConcurrentMap")


def is_collection(name: str) -> bool:
    """Return True for a class or interface of collections of elements."""
    return (name in COLLECTIONS and name != AS_LIST) or name in _COLLECTION_TYPES


def is_map(name: str) -> bool:
    """Return True for a class or interface of maps."""
    return name in MAPS or name in _MAP_TYPES
