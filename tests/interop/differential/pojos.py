"""A pool of random POJO classes: their forms, and their sources in Java."""

from __future__ import annotations

from collections.abc import Sequence

from differential.draw import Draw
from differential.forms import BY_LABEL, Enum, Pojo, Tuple, array_of, parse
from differential.scalars import Form

PACKAGE = "random"
_SEED = "classes 1"  # another pool has other class names, so that regressions keep their classes
_COUNT = 30

TIER = Enum("fixtures.Tier", ("BRONZE", "SILVER", "GOLD"))
USER_KEY = Pojo("fixtures.UserKey", ("id", "tenant"), (BY_LABEL["INT"], BY_LABEL["STRING"]), frozenset({"id"}), is_key=True)

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
    table = draw.weighted(((4, _PRIMITIVES), (6, _VALUES), (2, _ARRAYS)))
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


def _pool() -> tuple[dict[str, Pojo], dict[str, str]]:
    """The classes' forms and sources, by class name."""
    draw = Draw(_SEED)
    forms: dict[str, Pojo] = {}
    sources: dict[str, str] = {}
    for number in range(_COUNT):
        simple = f"P{number}"
        hashed = number % 5 == 0
        names = draw.sample(("a", "b", "id", "name", "value", "zZ", "_x", "ü", "x1", "Upper", "a1", "serial"), draw.randint(1, 7))
        fields: dict[str, tuple[str, Form]] = {}
        for name in names:
            java = draw.choice(_HASHED)
            fields[name] = (java, parse((_PRIMITIVES | _VALUES)[java])) if hashed else _field(draw, list(forms.values()))
        primitives = frozenset(name for name, (java, _) in fields.items() if java in _PRIMITIVES)
        parts = tuple(form for _, form in fields.values())
        forms[f"{PACKAGE}.{simple}"] = Pojo(f"{PACKAGE}.{simple}", tuple(fields), parts, primitives, is_key=hashed)
        sources[simple] = _source(simple, {name: java for name, (java, _) in fields.items()}, hashed)
    return forms, sources


def _source(simple: str, fields: dict[str, str], hashed: bool) -> str:
    lines = [f"package {PACKAGE};", f"public class {simple} {{", *(f"    public {java} {name};" for name, java in fields.items())]
    if hashed:
        equal = " && ".join(f"java.util.Objects.equals({name}, o.{name})" for name in fields)
        lines += [
            f"    @Override public int hashCode() {{ return java.util.Objects.hash({', '.join(fields)}); }}",
            f"    @Override public boolean equals(Object other) {{ return other instanceof {simple} o && {equal}; }}",
        ]
    return "\n".join([*lines, "}", ""])


POOL, SOURCES = _pool()
"""The forms of the classes, and their Java sources by simple name."""

POJOS = (USER_KEY, *POOL.values())
BY_LABEL |= {form.label: form for form in (*POJOS, TIER)}
