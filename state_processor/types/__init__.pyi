"""The names of :mod:`state_processor.types`, and the module of each."""

from state_processor.backends.state.column_types import (
    DeclaredNames as DeclaredNames,
)
from state_processor.serializers.avro.records import (
    AvroSerializer as AvroSerializer,
    GENERIC_RECORD as GENERIC_RECORD,
)
from state_processor.serializers.base import (
    Verdict as Verdict,
)
from state_processor.serializers.codec import (
    Codec as Codec,
)
from state_processor.serializers.core.collections import (
    ListSerializer as ListSerializer,
    MapSerializer as MapSerializer,
    SetSerializer as SetSerializer,
)
from state_processor.serializers.core.enums import (
    EnumSerializer as EnumSerializer,
)
from state_processor.serializers.core.pojo import (
    PojoCodec as PojoCodec,
)
from state_processor.serializers.core.pojo_fields import (
    CLASS_FIELD as CLASS_FIELD,
)
from state_processor.serializers.core.rows import (
    ROW_KIND_FIELD as ROW_KIND_FIELD,
    RowSerializer as RowSerializer,
)
from state_processor.serializers.core.self_written import (
    SelfWrittenSerializer as SelfWrittenSerializer,
    UserCodeSerializer as UserCodeSerializer,
)
from state_processor.serializers.core.unread import (
    OpaqueSerializer as OpaqueSerializer,
    UnreadSerializer as UnreadSerializer,
)
from state_processor.serializers.evolution.migration import (
    is_described_by_kryo as is_described_by_kryo,
    is_same_in_kryo_2_and_5 as is_same_in_kryo_2_and_5,
    state_obstacles as state_obstacles,
)
from state_processor.serializers.hash_codes import (
    require_hash_code as require_hash_code,
)
from state_processor.serializers.java.types import (
    BOXES as BOXES,
    JavaType as JavaType,
)
from state_processor.serializers.kryo.layouts import (
    is_collection as is_collection,
    is_map as is_map,
)
from state_processor.serializers.kryo.user_classes import (
    java_type_of as java_type_of,
)
from state_processor.serializers.registry import (
    ENTRY_POINT_GROUP as ENTRY_POINT_GROUP,
    entry_points as entry_points,
    user_registrations as user_registrations,
)
from state_processor.serializers.runtime.cep import (
    NFAStateSerializer as NFAStateSerializer,
)
from state_processor.serializers.runtime.namespaces import (
    VoidNamespaceSerializer as VoidNamespaceSerializer,
)
from state_processor.serializers.runtime.wrapping import (
    AsynchronousTtlSerializer as AsynchronousTtlSerializer,
    JavaSerializer as JavaSerializer,
    TtlAwareSerializerSnapshot as TtlAwareSerializerSnapshot,
    TtlSerializer as TtlSerializer,
    WrappingSerializer as WrappingSerializer,
)
from state_processor.serializers.shared_types import (
    merged as merged,
)
from state_processor.serializers.table.logical_types import (
    ArrayType as ArrayType,
    AtomicType as AtomicType,
    BytesType as BytesType,
    DateType as DateType,
    DecimalType as DecimalType,
    IntervalType as IntervalType,
    LogicalType as LogicalType,
    MAP_VIEW as MAP_VIEW,
    MapType as MapType,
    MultisetType as MultisetType,
    RowField as RowField,
    RowType as RowType,
    TextType as TextType,
    TimeType as TimeType,
    TimestampType as TimestampType,
)
from state_processor.serializers.table.operator_records import (
    NodeSerializer as NodeSerializer,
    OrderedField as OrderedField,
    is_ordered as is_ordered,
    sorted_map as sorted_map,
)
from state_processor.serializers.table.row_names import (
    FieldName as FieldName,
    RowNames as RowNames,
    rows_in as rows_in,
)
from state_processor.serializers.table.rowdata import (
    BinaryDataSerializer as BinaryDataSerializer,
    RowDataSerializerSnapshot as RowDataSerializerSnapshot,
    external_serializer as external_serializer,
)
from state_processor.serializers.table.type_descriptors import (
    parse_logical_type as parse_logical_type,
)
from state_processor.serializers.traversal import (
    outermost_of as outermost_of,
    parts_of as parts_of,
    transform as transform,
    walk as walk,
)
from state_processor.types.declared_types import (
    parse_type as parse_type,
)
from state_processor.types.identifier import (
    MAPPING_VERSION as MAPPING_VERSION,
)
from state_processor.types.state_specs import (
    StateSpec as StateSpec,
    whole_type as whole_type,
)
