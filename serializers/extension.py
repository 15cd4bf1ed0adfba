"""Parts for serializers of other packages, beside the names of :mod:`state_processor.serializers`.

Plug-ins and packages of users import from here what the serializers of this package are made of: codecs of nested values,
instructions of the kernel, Java's and Scala's hash codes. These names may change in a minor version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state_processor.serializers.base import DescribedSerializer, LeafSerializer, write_versioned_snapshot
from state_processor.serializers.codec import VARIABLE, Codec, default_names
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.core.collections import ListCodec, MapCodec
from state_processor.serializers.core.fixed_width import FixedWidthCodec, big_endian, characters, text
from state_processor.serializers.core.nullable import EitherValue, NullMarking
from state_processor.serializers.core.pojo_fields import CLASS_FIELD, ClassLimit
from state_processor.serializers.core.rows import FieldsSerializer, fields_text
from state_processor.serializers.core.templates import (
    DelegatingCodec,
    DelegatingSerializer,
    FieldsCodec,
    SimpleDelegatingSerializer,
    emit_choice,
    nested_snapshots,
)
from state_processor.serializers.core.temporal import LocalDateTimeSerializer
from state_processor.serializers.decode_options import optional_field
from state_processor.serializers.format_versions import SnapshotVersions, declared_versions
from state_processor.serializers.java.hashing import EncodedValues, Hashes, fold_long, signed
from state_processor.serializers.java.hashing import of_string as string_hash
from state_processor.serializers.kernel.columns import DISCARD, Column
from state_processor.serializers.kernel.encode.conversion import fields_in_order, match_fields
from state_processor.serializers.kernel.encode.distinct_keys import distinct_values
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import description, register_description
from state_processor.serializers.runtime.scala import (
    NothingSerializer,
    OptionSerializer,
    ScalaEitherSerializer,
    Some,
    fields_without_names,
    product_hash,
    scala_hash,
)
from state_processor.serializers.traversal import ELEMENT, KEY, VALUE, field_names
from state_processor.support.doors import registering
from state_processor.support.late import pc, require

if TYPE_CHECKING:
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

__all__ = [
    "CLASS_FIELD",
    "DISCARD",
    "ELEMENT",
    "KEY",
    "VALUE",
    "VARIABLE",
    "BytesSerializer",
    "ClassLimit",
    "Codec",
    "Column",
    "DecodeBuilder",
    "DelegatingCodec",
    "DelegatingSerializer",
    "DescribedSerializer",
    "EitherValue",
    "EncodeBuilder",
    "EncodedValues",
    "FieldsCodec",
    "FieldsSerializer",
    "FixedWidthCodec",
    "Hashes",
    "LeafSerializer",
    "ListCodec",
    "LocalDateTimeSerializer",
    "MapCodec",
    "NothingSerializer",
    "NullMarking",
    "Op",
    "OptionSerializer",
    "ScalaEitherSerializer",
    "SimpleDelegatingSerializer",
    "SnapshotVersions",
    "Some",
    "big_endian",
    "characters",
    "declared_versions",
    "default_names",
    "description",
    "distinct_values",
    "emit_choice",
    "field_names",
    "fields_in_order",
    "fields_text",
    "fields_without_names",
    "fold_long",
    "match_fields",
    "nested_snapshots",
    "optional_field",
    "pc",
    "product_hash",
    "register_description",
    "registering",
    "require",
    "scala_hash",
    "signed",
    "string_hash",
    "text",
    "write_versioned_snapshot",
]
