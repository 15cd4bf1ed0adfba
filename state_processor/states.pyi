"""The names of :mod:`state_processor.states`, and the module of each."""

from state_processor.backends.analysis.entry_sizes import (
    SIZE as SIZE,
)
from state_processor.backends.connectors.connector import (
    COMMITTABLE as COMMITTABLE,
    ROLE as ROLE,
)
from state_processor.backends.connectors.kafka import (
    TRANSACTION as TRANSACTION,
)
from state_processor.backends.connectors.sink_state import (
    COMMITTER_STATE as COMMITTER_STATE,
    read_sink_state as read_sink_state,
    sink_state as sink_state,
)
from state_processor.backends.formats.row_layout import (
    KEY_COLUMN as KEY_COLUMN,
)
from state_processor.backends.read.key_rows import (
    RecentResults as RecentResults,
)
from state_processor.backends.read.schema_text import (
    comments_of as comments_of,
    schema_text as schema_text,
    spark_ddl as spark_ddl,
)
from state_processor.backends.read.state_access import (
    TIMER_KIND as TIMER_KIND,
)
from state_processor.backends.read.stored_operator import (
    StoredOperator as StoredOperator,
    Survey as Survey,
    find_operator as find_operator,
    surveys as surveys,
)
from state_processor.backends.state.descriptions import (
    KeyedDescription as KeyedDescription,
)
from state_processor.backends.state.python_states import (
    shown_name as shown_name,
)
from state_processor.read.key_contents import (
    KeyLookUp as KeyLookUp,
)
from state_processor.read.scans import (
    ArrowSchema as ArrowSchema,
    StateRequest as StateRequest,
    StateScan as StateScan,
    columns_of as columns_of,
    takes_keys as takes_keys,
)
from state_processor.read.sizes import (
    SizeReport as SizeReport,
    SizesBy as SizesBy,
)
from state_processor.serializers.decode_options import (
    Nanos as Nanos,
)
from state_processor.serializers.json_text import (
    parse_json as parse_json,
)
from state_processor.serializers.kernel.decode.loop import (
    compile_reading as compile_reading,
)
from state_processor.types.python_types import (
    PythonTypeArgument as PythonTypeArgument,
)
