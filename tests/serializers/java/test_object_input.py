"""Java object streams: their content, their end, and errors about damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers.io import DataInput
from state_processor.serializers.java.object_input import JavaClass, JavaEnum, JavaInstance, elements, read_java_object
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, UnsupportedFormatError
from tests.serializers import java_streams as js

INT = js.logical("IntType", nullable=False)
DEEP = js.stream(b"".join([b"\x75" + js.class_description("[Ljava.lang.Object;", {}) + b"\0\0\0\1"] * 3000) + js.NULL)


def test_fields_of_all_classes() -> None:
    found = read_java_object(
        DataInput(js.stream(js.instance("a.B", {"n": 7, "s": js.string("é\0")}, "a.A", {"flag": True})))
    ).content
    assert isinstance(found, JavaInstance)
    assert (found.class_name, found.fields, found.annotations) == ("a.B", {"flag": True, "n": 7, "s": "é\0"}, [])


@given(st.text())
def test_any_text(text: str) -> None:
    """Hangul from U+D000 on begins with the byte that surrogates begin with."""
    for value in (text, "\ud55c\uad6d \U0001f600", "\ud7ff\ue000\0"):
        stream = js.stream(js.instance("a.B", {value: 7, "s": js.string(value)}))
        content = read_java_object(DataInput(stream)).content
        assert content.fields == {value: 7, "s": value}


def test_constants_classes_lists() -> None:
    kind, of = js.enum("a.Kind", "ROWTIME"), js.java_class("a.B")
    content = read_java_object(DataInput(js.stream(js.array([kind, of, js.array_list([js.string("x")]), js.NULL])))).content
    assert content[:2] == [JavaEnum("a.Kind", "ROWTIME"), JavaClass("a.B")]
    assert elements(content[2]) == ["x"]
    assert content[3] is None


@pytest.mark.parametrize("wrap", [js.array, js.array_list, js.unmodifiable])
def test_lists(wrap: object) -> None:
    content = read_java_object(DataInput(js.stream(wrap([js.string("a"), js.string("b")])))).content  # type: ignore[operator]
    assert elements(content) == ["a", "b"]


def test_unknown_list_is_named() -> None:
    content = read_java_object(DataInput(js.stream(js.instance("a.MyList", {})))).content
    with pytest.raises(UnsupportedFormatError, match=r"a\.MyList"):
        elements(content)
    with pytest.raises(UnsupportedFormatError, match=r"a\.MyList lacks field 'size'"):
        content.get("size")


def test_reference_to_itself() -> None:
    # The object is the second thing that gets a handle, after its class and the class's field type.
    data = js.stream(js.instance("a.B", {"me": b"\x71" + (0x7E0002).to_bytes(4, "big")}))
    content = read_java_object(DataInput(data)).content
    assert content.fields["me"] is content


@given(before=st.binary(max_size=20), after=st.binary(max_size=20))
def test_ends_where_the_object_ends(before: bytes, after: bytes) -> None:
    data = js.stream(js.row(a=INT, b=js.logical("DateType")))
    source = DataInput(before + data + after, position=len(before))
    assert read_java_object(source).raw == data
    assert source.position == len(before) + len(data)


def test_streams_back_to_back() -> None:
    source = DataInput(2 * js.stream(INT))
    assert read_java_object(source) == read_java_object(source)
    assert source.at_end()


@pytest.mark.parametrize("data", [b"", b"\xac\xed\0\4\x70", js.stream(b""), js.stream(b"\x7b"), js.stream(b"\x99"), DEEP])
def test_damage(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError, match="Java object from offset 0 on"):
        read_java_object(DataInput(data))


@given(st.data())
def test_random_damage_is_an_error_or_another_object(data: st.DataObject) -> None:
    raw = bytearray(js.stream(js.row(a=INT, b=js.timestamp("TimestampType", 3))))
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] = data.draw(st.integers(0, 255))
    source = DataInput(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    try:
        found = read_java_object(source)
    except StateProcessorError:
        return
    assert found.raw == bytes(raw[: source.position])
