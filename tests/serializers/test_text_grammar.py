"""Texts of dates, times and numbers: Python and the kernel accept and write the same, with all of Unicode and at random.

JSON of users: what Python would take in another meaning, or not at all.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import TypeSerializer
from state_processor.serializers.kernel.encode.conversion import bind
from state_processor.serializers.kernel.encode.encoder import ColumnEncoder, encode_column
from state_processor.serializers.kernel.encode.program import EncodeBuilder
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.text_grammar import parse_json
from state_processor.support.errors import UNWRITABLE, InvalidRowError
from state_processor.types.flink_types import Types
from tests.serializers.scalar_samples import SAMPLES

VALID = {name: sample.texts for name, sample in SAMPLES.items() if sample.texts}
PATTERNS = {name: sample.pattern for name, sample in SAMPLES.items() if sample.pattern is not None}
SERIALIZERS = {name: getattr(Types, name)() for name in VALID}
ASCII = [chr(point) for point in range(128)]
OTHERS = [chr(point) for point in range(128, sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF]


def can_pass_for_ascii(character: str) -> bool:
    """Return True for a character that patterns, case folding or normalization may treat like one of ASCII."""
    forms = (unicodedata.normalize("NFKC", character), character.lower(), character.upper(), character.casefold())
    return character.isnumeric() or character.isspace() or unicodedata.category(character) == "Pd" or any(map(str.isascii, forms))


@cache
def doubtful() -> list[str]:
    """Return all characters that may pass for ASCII, and a sample of the others."""
    return [c for c in OTHERS if can_pass_for_ascii(c)] + OTHERS[::499]


def in_python(serializer: TypeSerializer, text: str) -> bytes | None:
    try:
        return serializer.serialize(serializer.from_column(text))
    except UNWRITABLE:
        return None


@cache
def encoder(serializer: TypeSerializer) -> ColumnEncoder:
    """What :func:`encode_column` makes for each column of texts."""
    builder = EncodeBuilder(pa.schema([("value", bind(serializer, pa.string(), "value"))]))
    with builder.field("value"):
        serializer.emit_encode(builder, builder.column("value"))
    builder.op(Op.ENTRY_END)
    builder.op(Op.ROW_END)
    return ColumnEncoder(builder.build())


def in_kernel(serializer: TypeSerializer, texts: Sequence[str]) -> list[bytes | None]:
    """The bytes of each text; where one is refused, so that the rest of the column is not reached, one after the other."""
    written: list[bytes | None] = []
    rest = pa.record_batch([pa.array(texts, pa.string())], ["value"])
    while len(rest):
        try:
            written += list(encoder(serializer).encode(rest))
            break
        except InvalidRowError as problem:
            if problem.row:
                written += encoder(serializer).encode(rest.slice(0, problem.row))
            written.append(None)
            rest = rest.slice(problem.row + 1)
    return written


def places(text: str) -> list[int]:
    """A place of each class: the first of each kind of character, and the last character."""
    kinds = {"d" if c.isdigit() else c: i for i, c in reversed(list(enumerate(text)))}
    return sorted({*kinds.values(), len(text) - 1})


@pytest.mark.parametrize("name", ["LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "INSTANT", "BIG_DEC"])
def test_no_character_beyond_ascii_means_anything(name: str) -> None:
    """Unicode characters instead of one character of each class, before and after the text: Python refuses all of them."""
    pattern = PATTERNS[name]
    for text in VALID[name]:
        assert pattern.fullmatch(text)
        forms = [(text[:at], text[at + 1 :]) for at in places(text)] + [("", text), (text, "")]
        for before, after in forms:
            assert not any(pattern.fullmatch(f"{before}{c}{after}") for c in doubtful()), (before, after)


@pytest.mark.parametrize("name", VALID)
def test_types_go_by_the_patterns(name: str) -> None:
    before, after = VALID[name][0][:1], VALID[name][0][2:]
    assert not any(in_python(SERIALIZERS[name], f"{before}{c}{after}") for c in OTHERS[::97])


@pytest.mark.parametrize("name", VALID)
def test_the_kernel_takes_bytes_of_ascii_alone(name: str) -> None:
    """The kernel sees bytes of UTF-8: each lead and each trailing byte of all of Unicode, and each character of ASCII."""
    serializer = SERIALIZERS[name]
    digits = [c for c in OTHERS if c.isdigit() or c.isdecimal() or c.isspace()]
    signs = [c for c in OTHERS if ord(c) < 0x3100 and not c.isalnum()]
    for text in VALID[name]:
        for at in places(text):
            texts = [text[:at] + c + text[at + 1 :] for c in [*ASCII, *digits[::7], *signs[::61], *OTHERS[::40009]]]
            assert in_kernel(serializer, texts) == [in_python(serializer, t) for t in texts], (text, at)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LOCAL_DATE", "２０２４-02-29"),
        ("LOCAL_DATE", " 2024-02-29"),
        ("LOCAL_DATE", "2024-02-29\n"),
        ("LOCAL_TIME", "０８:30"),
        ("LOCAL_DATE_TIME", "2024-02-29T"),
        ("LOCAL_DATE_TIME", "2024-02-29T08:30:００"),
        ("INSTANT", "2024-02-29T08:30:00.٥Z"),
        ("BIG_INT", "１２"),
        ("BIG_INT", "1_000"),
        ("BIG_INT", " 12"),
        ("BIG_INT", "1E+10001"),
        ("BIG_DEC", "1_0.5"),
        ("BIG_DEC", "1.5\n"),
        ("BIG_DEC", "Infinity"),
        ("BIG_DEC", "NaN"),
        ("BIG_DEC", "1E00000000001"),
    ],
)
def test_texts_that_both_refuse(name: str, text: str) -> None:
    assert in_python(SERIALIZERS[name], text) is None
    assert in_kernel(SERIALIZERS[name], [text]) == [None]


CHARACTERS = st.sampled_from("0123456789+-.:TZ eE_,/") | st.characters(exclude_categories=["Cs"])


@st.composite
def mutations(draw: st.DrawFn, name: str) -> str:
    """A valid text with a few characters replaced, removed or put in."""
    text = draw(st.sampled_from(VALID[name]))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.just("") | CHARACTERS) + text[at + draw(st.integers(0, 1)) :]
    return text


@pytest.mark.parametrize("name", VALID)
@given(st.data())
def test_random_mutations(name: str, data: st.DataObject) -> None:
    texts = data.draw(st.lists(mutations(name), min_size=1, max_size=10))
    assert in_kernel(SERIALIZERS[name], texts) == [in_python(SERIALIZERS[name], t) for t in texts]


# JSON

REFUSED_JSON = {
    "a number that no double holds": ("[1.5, -1e999]", "-1e999 in JSON is too large for a double"),
    "a number of exponent alone": ('{"a": 1e400}', "1e400 in JSON is too large"),
    "lists in lists": ("[" * 100_000, "nested too deeply"),
    "a number of many digits": ("7" * 200_000, "Exceeds the limit"),
    "no JSON": ("[1", "Expecting"),
}


@pytest.mark.parametrize("case", REFUSED_JSON)
def test_refused_json(case: str) -> None:
    text, problem = REFUSED_JSON[case]
    with pytest.raises(ValueError, match=problem):
        parse_json(text)


def test_what_json_says() -> None:
    assert parse_json('{"a": [1, 1.5, 1e308, null, true, "x"]}') == {"a": [1, 1.5, 1e308, None, True, "x"]}


@pytest.mark.parametrize(
    "text", ["[1e999]", "[" * 100_000, "[" * 900 + "]" * 900, '[{"@class": "java.math.BigInteger", "@value": "1e999999999"}]']
)
def test_columns_that_kryo_writes_refuse_it(text: str) -> None:
    column = Types.KRYO("java.util.List").for_flink(2)
    with pytest.raises(InvalidRowError, match="column value of row 0 does not fit"):
        encode_column(column, pa.array([text]))
