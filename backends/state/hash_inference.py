"""Inference of a class's ``hashCode`` from the key groups of its keys in a snapshot.

If the user's code computes ``hashCode`` (POJOs, case classes, other objects), a snapshot does not contain the formula. But each
key is in a key group, and the key group reveals some bits of the hash. This module tries the usual formulas over the fields in
every order, and keeps the formulas that fit every key. If several formulas fit, they have to agree for each new key too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.hash_codes import column_hashes, polynomial
from state_processor.serializers.kernel.encode.conversion import conform
from state_processor.support.doors import code_or_text
from state_processor.support.errors import InvalidRowError, OptionError, UnsupportedFormatError
from state_processor.support.late import pc
from state_processor.support.mappings import names_of

Hashes = npt.NDArray[np.int32]

_CERTAINTY_BITS: Final = 30
"""Bits that keys have to reveal in addition to the bits that select one of all rules: a wrong rule fits with a probability of
1e-9."""
_MOST_PERMUTED: Final = 7
_SAMPLE: Final = 256
_LOMBOK_PRIME: Final = 59
_LOMBOK_NULL: Final = 43
_PRODUCT_SEED: Final = np.int32(-889275714)  # 0xcafebabe


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of all keys: its hashes (0 for null), its nulls, and its hashes by Scala's ``##``."""

    hashes: Hashes
    nulls: npt.NDArray[np.bool_]
    scala: Hashes


def _hashes(fields: Sequence[_Field]) -> list[Hashes]:
    return [f.hashes for f in fields]


def _objects_hash(fields: Sequence[_Field]) -> Hashes:
    return polynomial(_hashes(fields), 1)


def _polynomial_from_zero(fields: Sequence[_Field]) -> Hashes:
    return polynomial(_hashes(fields), 0)


def _polynomial_from_17(fields: Sequence[_Field]) -> Hashes:
    return polynomial(_hashes(fields), 17)


def _builder_17_37(fields: Sequence[_Field]) -> Hashes:
    return polynomial(_hashes(fields), 17, 37)


def _lombok(fields: Sequence[_Field]) -> Hashes:
    parts = [np.where(f.nulls, np.int32(_LOMBOK_NULL), f.hashes).astype(np.int32) for f in fields]
    return polynomial(parts, 1, _LOMBOK_PRIME)


def _exclusive_or(fields: Sequence[_Field]) -> Hashes:
    code: Hashes = np.bitwise_xor.reduce(_hashes(fields))
    return code


def _rotated(h: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return h << np.uint32(bits) | h >> np.uint32(32 - bits)


def _product_hash(fields: Sequence[_Field]) -> Hashes:
    """Return ``MurmurHash3.productHash`` of Scala 2.11 and 2.12."""
    h = np.full(len(fields[0].hashes), _PRODUCT_SEED, dtype=np.int32).view(np.uint32)
    with np.errstate(over="ignore"):
        for f in fields:
            k = f.scala.view(np.uint32) * np.uint32(0xCC9E2D51)
            h = _rotated(h ^ _rotated(k, 15) * np.uint32(0x1B873593), 13) * np.uint32(5) + np.uint32(0xE6546B64)
        h = h ^ np.uint32(len(fields))
        h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
        h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
        h = h ^ h >> np.uint32(16)
    return h.view(np.int32)


_Combine = Callable[[Sequence[_Field]], Hashes]

_ORDERED: Final[dict[str, _Combine]] = {
    "Objects.hash": _objects_hash,
    "a record, or 31 * hash + field from 0 on": _polynomial_from_zero,
    "31 * hash + field from 17 on": _polynomial_from_17,
    "Lombok": _lombok,
    "HashCodeBuilder(17, 37)": _builder_17_37,
    "Scala's product hash": _product_hash,
}
"""Rules that depend on the order of the fields."""

_UNORDERED: Final[dict[str, _Combine]] = {"exclusive or of the fields": _exclusive_or}


@dataclass(frozen=True, slots=True)
class HashRule:
    """A possible ``hashCode``: a formula over ordered fields."""

    formula: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.formula} ({', '.join(self.fields)})"

    def check_fields(self, names: Sequence[str]) -> None:
        """Refuse a formula that is not known, or fields that keys don't have."""
        formulas = {**_ORDERED, **_UNORDERED}
        if self.formula not in formulas:
            raise OptionError(f"HashRule: expected one of the formulas {', '.join(formulas)}, found {self.formula!r}")
        unknown = [name for name in self.fields if name not in names]
        if unknown or not self.fields:
            raise OptionError(f"{self}: expected fields of the keys ({', '.join(names)}), found ({', '.join(self.fields)})")

    def apply(self, columns: dict[str, _Field]) -> Hashes:
        """Return the hash codes of keys from their fields."""
        return {**_ORDERED, **_UNORDERED}[self.formula]([columns[name] for name in self.fields])


@dataclass(frozen=True)
class LearnedHash:
    """The ``hashCode`` of a class, as far as its keys determine it. ``KeyedStateEncoder`` accepts it as ``key_hash``."""

    serializer: PojoSerializer
    rules: tuple[HashRule, ...]  # all rules that fit every key of the snapshot
    max_parallelism: int  # max parallelism of the written operator. Rules may differ in a hash if the key group is the same.

    def __str__(self) -> str:
        return " or ".join(map(str, self.rules))

    def __call__(self, keys: pa.Array) -> Hashes:
        """Return ``hashCode`` of keys."""
        array = conform(self.serializer, keys, "key")
        columns = _columns(self.serializer, array)
        first = self.rules[0].apply(columns)
        groups = key_group(first, self.max_parallelism)
        for rule in self.rules[1:]:
            differs = np.flatnonzero(key_group(rule.apply(columns), self.max_parallelism) != groups)
            if len(differs):
                row = int(differs[0])
                problem = InvalidRowError(
                    f"the key group of {array[row].as_py()!r} is ambiguous: the keys of the snapshot fit both {self.rules[0]} "
                    f"and {rule}, but these disagree here"
                )
                problem.row = row
                raise problem
        return first


@dataclass(frozen=True)
class UserHash:
    """A function of a user from keys to their ``hashCode``. Results that are not ``hashCode``s are refused."""

    function: Callable[[pa.Array], Hashes]

    def __str__(self) -> str:
        return f"the function {getattr(self.function, '__name__', self.function)}"

    def __call__(self, keys: pa.Array) -> Hashes:
        """Return ``hashCode`` of keys."""
        hashes = np.asarray(self.function(keys))
        if hashes.shape != (len(keys),) or hashes.dtype.kind not in "iu":
            raise OptionError(
                f"key_hash: {self} returned an array of {hashes.dtype} and the shape {hashes.shape} for {len(keys)} keys; "
                "expected an int32 for each key"
            )
        codes = hashes.astype(np.int32)
        if not np.array_equal(codes, hashes):
            raise OptionError(f"key_hash: {self} returned {hashes[codes != hashes][0]}, which is not an int of Java (32 bits)")
        return codes


@dataclass(frozen=True, slots=True)
class Misfit:
    """A key that contradicts a rule: the key as text, and its key group."""

    key: str
    key_group: int


def misfits(
    serializer: TypeSerializer,
    rules: Sequence[HashRule | UserHash],
    keys: pa.Array,
    key_groups: npt.NDArray[np.int32],
    max_parallelism: int,
) -> dict[int, Misfit]:
    """Return the rules that some of the keys contradict by their positions, each with the first such key.

    ``serializer``: the serializer of the keys; of a POJO, if there is a :class:`HashRule`. ``rules``: the rules to check.
    ``keys``, ``key_groups`` and ``max_parallelism``: as for :func:`learn_hash_rule`.
    """
    contradicted = {}
    columns: dict[str, _Field] = {}
    for position, rule in enumerate(rules):
        if isinstance(rule, UserHash):
            hashes = rule(keys)
        else:
            assert isinstance(serializer, PojoSerializer)
            columns = columns or _columns(serializer, conform(serializer, keys, "key"))
            hashes = rule.apply(columns)
        differs = np.flatnonzero(key_group(hashes, max_parallelism) != key_groups)
        if len(differs):
            row = int(differs[0])
            contradicted[position] = Misfit(repr(keys[row].as_py()), int(key_groups[row]))
    return contradicted


Rule = TypeVar("Rule", HashRule, UserHash)


def rules_left(
    serializer: TypeSerializer, rules: Sequence[Rule], contradicted: Mapping[int, Misfit], *, inferred: bool = True
) -> tuple[Rule, ...]:
    """Return the rules that fit all keys.

    ``rules`` and ``contradicted``: the rules, and the result of :func:`misfits`. ``inferred``: whether the rules are inferred
    from keys, and not from the user.
    """
    fitting = tuple(rule for position, rule in enumerate(rules) if position not in contradicted)
    if fitting:
        return fitting
    reasons = []
    for position, misfit in contradicted.items():
        reasons.append(f"{misfit.key} is in key group {misfit.key_group}, but {rules[position]} gives another one")
    problem = "; ".join(reasons)
    contradicted_rule = f"the inferred formula: {problem}; {_remedy()}" if inferred else f"the given key_hash: {problem}"
    raise UnsupportedFormatError(f"the hashCode of {serializer} is user code, and its keys contradict {contradicted_rule}")


def _remedy() -> str:
    """Return how a user gives the ``hashCode`` of keys."""
    return code_or_text(
        "give it by with_key_hash of the writer", "a program in Python can give it, by with_key_hash of SavepointWriter"
    )


def learn_hash_rule(
    serializer: TypeSerializer,
    keys: pa.Array,
    key_groups: npt.NDArray[np.int32],
    max_parallelism: int,
    new_max_parallelism: int | None = None,
) -> LearnedHash:
    """Return the rule that fits the key groups of all keys.

    ``serializer``: the serializer of the keys; of a POJO. ``keys`` and ``key_groups``: keys of a snapshot, and their key groups.
    More keys give more certainty; repeated keys don't. ``max_parallelism``: max parallelism of the operator of the keys.
    ``new_max_parallelism``: max parallelism of the written operator; the same by default.
    """
    if not isinstance(serializer, PojoSerializer):
        raise UnsupportedFormatError(f"{serializer}: a hashCode can be inferred for POJOs only")
    array = conform(serializer, keys, "key")
    columns = _columns(serializer, array)
    names = names_of(serializer.fields)
    rules = list(_candidates(names))
    distinct = len(set(zip(*(columns[n].hashes.tolist() for n in names), strict=True))) if names else 0
    bits = distinct * math.log2(max_parallelism)
    if bits < _CERTAINTY_BITS + math.log2(max(len(rules), 1)):
        raise UnsupportedFormatError(
            f"the hashCode of {serializer} is user code, and {distinct} keys are too few to infer it; {_remedy()}"
        )
    sample = {n: _first(columns[n], _SAMPLE) for n in names}
    likely = [r for r in rules if np.array_equal(key_group(r.apply(sample), max_parallelism), key_groups[:_SAMPLE])]
    fitting = tuple(r for r in likely if np.array_equal(key_group(r.apply(columns), max_parallelism), key_groups))
    if not fitting:
        tried = ", ".join([*_ORDERED, *_UNORDERED])
        raise UnsupportedFormatError(
            f"the hashCode of {serializer} is user code, and no usual formula fits the key groups of its keys "
            f"(tried: {tried}, over all fields in every order, and over each field alone); {_remedy()}"
        )
    return LearnedHash(serializer, fitting, new_max_parallelism or max_parallelism)


def _candidates(names: Sequence[str]) -> Iterator[HashRule]:
    orders = permutations(names) if len(names) <= _MOST_PERMUTED else iter([tuple(names)])
    for order in orders:
        for formula in _ORDERED:
            yield HashRule(formula, order)
    for formula in _UNORDERED:
        yield HashRule(formula, tuple(names))
    for name in names if len(names) > 1 else ():
        yield from (HashRule(formula, (name,)) for formula in _ORDERED)


def _columns(serializer: PojoSerializer, array: pa.Array) -> dict[str, _Field]:
    fields = {}
    for field in serializer.fields:
        values = pc.struct_field(array, array.type.get_field_index(field.name))
        hashes = column_hashes(field.serializer, values)
        nulls = np.asarray(pc.is_null(values).to_numpy(zero_copy_only=False), dtype=np.bool_)
        fields[field.name] = _Field(hashes, nulls, _scala_hashes(values, hashes))
    return fields


def _scala_hashes(values: pa.Array, hashes: Hashes) -> Hashes:
    """Return Scala's ``##``. Equal numbers of different types have the same hash: the hash of the equal int, if it exists."""
    if not (pa.types.is_int64(values.type) or pa.types.is_floating(values.type)):
        return hashes
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore", over="ignore"):
        whole = numbers.astype(np.int32)
    return np.where(whole == numbers, whole, hashes).astype(np.int32)


def _first(field: _Field, count: int) -> _Field:
    return _Field(field.hashes[:count], field.nulls[:count], field.scala[:count])
