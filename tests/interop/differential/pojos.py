"""A pool of random POJO classes: their forms, and their sources in Java."""

from __future__ import annotations

from collections.abc import Sequence

from tests.interop.differential.draw import Draw
from tests.interop.differential.forms import BY_LABEL, Enum, Members, Pojo, Tuple, array_of, parse
from tests.interop.differential.scalars import Form

PACKAGE = "random2"
_SEED = "classes 2"  # another pool has other class names, so that regressions keep their classes
_COUNT = 30

TIER = Enum("fixtures.Tier", ("BRONZE", "SILVER", "GOLD"))
_TENANT = Members(("id", "tenant"), (BY_LABEL["INT"], BY_LABEL["STRING"]), frozenset({"id"}))
USER_KEY = Pojo("fixtures.UserKey", _TENANT, is_key=True)

_PRIMITIVES = {
    "boolean": "BOOLEAN",
    "byte": "BYTE",
    "short": "SHORT",
    "int": "INT",
    "long": "LONG",
    "float": "FLOAT",
    "double": "DOUBLE",
    "char": "CHAR",
}
_VALUES = {
    "Boolean": "BOOLEAN",
    "Byte": "BYTE",
    "Short": "SHORT",
    "Integer": "INT",
    "Long": "LONG",
    "Float": "FLOAT",
    "Double": "DOUBLE",
    "Character": "CHAR",
    "String": "STRING",
    "java.math.BigDecimal": "BIG_DEC",
    "java.math.BigInteger": "BIG_INT",
    "java.util.Date": "DATE",
    "java.sql.Date": "SQL_DATE",
    "java.sql.Time": "SQL_TIME",
    "java.sql.Timestamp": "SQL_TIMESTAMP",
    "java.time.Instant": "INSTANT",
}
_BY_KRYO = {
    "java.time.LocalDate": "LOCAL_DATE",
    "java.time.LocalTime": "LOCAL_TIME",
    "java.time.LocalDateTime": "LOCAL_DATE_TIME",
    "java.time.Duration": "KRYO<java.time.Duration>",
    "java.util.UUID": "KRYO<java.util.UUID>",
}
_ARRAYS = {
    "byte[]": "BYTES",
    "boolean[]": "BOOLEAN_ARRAY",
    "short[]": "SHORT_ARRAY",
    "int[]": "INT_ARRAY",
    "long[]": "LONG_ARRAY",
    "float[]": "FLOAT_ARRAY",
    "double[]": "DOUBLE_ARRAY",
    "char[]": "CHAR_ARRAY",
    "String[]": "STRING_ARRAY",
    "Long[]": "BOXED_LONG_ARRAY",
}
_HASHED = ("int", "long", "boolean", "double", "String", "Integer", "Long", "Double", "java.math.BigInteger")


def _field(draw: Draw, known: Sequence[Pojo]) -> tuple[str, Form]:
    """A field's type in Java, and its form."""
    table = draw.weighted(((4, _PRIMITIVES), (6, _VALUES), (2, _BY_KRYO), (2, _ARRAYS)))
    java = draw.choice(list(table))
    plain = java, parse(table[java])
    if not known or draw.one_in(2):
        return plain
    other = draw.choice(known)
    name = other.class_name.removeprefix(f"{PACKAGE}.")
    boxed = draw.choice([(j, parse(label)) for j, label in _VALUES.items()])
    return draw.choice(
        (
            plain,
            (name, other),
            (f"{name}[]", array_of(other)),
            ("fixtures.Tier", TIER),
            (f"org.apache.flink.api.java.tuple.Tuple2<{boxed[0]},String>", Tuple((boxed[1], BY_LABEL["STRING"]))),
        )
    )


_Declared = dict[str, tuple[str, Form]]
"""Fields by name: types in Java, and forms."""


def _members(fields: _Declared) -> Members:
    primitives = frozenset(name for name, (java, _) in fields.items() if java in _PRIMITIVES)
    return Members(tuple(fields), tuple(form for _, form in fields.values()), primitives)


def _pool() -> tuple[dict[str, Pojo], dict[str, str]]:
    """The classes' forms and sources, by class name; every fifth can be a key, every seventh has subclasses."""
    draw = Draw(_SEED)
    forms: dict[str, Pojo] = {}
    sources: dict[str, str] = {}
    for number in range(_COUNT):
        simple, hashed = f"P{number}", number % 5 == 0
        names = draw.sample(("a", "b", "id", "name", "value", "zZ", "_x", "ü", "x1", "Upper", "a1", "serial"), draw.randint(1, 7))
        fields: _Declared = {}
        for name in names:
            java = draw.choice(_HASHED)
            fields[name] = (java, parse((_PRIMITIVES | _VALUES)[java])) if hashed else _field(draw, list(forms.values()))
        sources[simple] = _source(simple, fields, hashed)
        subclasses = []
        for sub in (f"{simple}A", f"{simple}B") if number % 7 == 1 and not hashed else ():
            added = {f"{sub.lower()}{i}": _field(draw, list(forms.values())) for i in range(draw.randint(0, 3))}
            sources[sub] = _source(sub, added, False, simple)
            subclasses.append((f"{PACKAGE}.{sub}", _members(added)))
        form = Pojo(f"{PACKAGE}.{simple}", _members(fields), is_key=hashed, subclasses=tuple(subclasses))
        forms[form.class_name] = form
    return forms, sources


def _source(simple: str, fields: _Declared, hashed: bool, parent: str | None = None) -> str:
    extending = f" extends {parent}" if parent else ""
    declared = [f"    public {java} {name};" for name, (java, _) in fields.items()]
    lines = [f"package {PACKAGE};", f"public class {simple}{extending} {{", *declared]
    if hashed:
        equal = " && ".join(f"java.util.Objects.equals({name}, o.{name})" for name in fields)
        lines += [
            f"    @Override public int hashCode() {{ return java.util.Objects.hash({', '.join(fields)}); }}",
            f"    @Override public boolean equals(Object other) {{ return other instanceof {simple} o && {equal}; }}",
        ]
    return "\n".join([*lines, "}", ""])


POOL, SOURCES = _pool()
"""The forms of the classes, and their Java sources by simple name."""

_REGISTERED = [name for pojo in POOL.values() for name, _ in pojo.subclasses]
REGISTRATION = {
    "1": {"pipeline.registered-pojo-types": ";".join(_REGISTERED)},
    "2": {"pipeline.serialization-config": f"[{', '.join(f'{name}: {{type: pojo}}' for name in _REGISTERED)}]"},
}
"""The configuration of jobs that know the subclasses, by Flink's major version."""

POJOS = (USER_KEY, *POOL.values())
BY_LABEL |= {form.label: form for form in (*POJOS, TIER)}
