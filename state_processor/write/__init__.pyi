"""The names of :mod:`state_processor.write`, and the module of each."""

from state_processor.backends.write.entry_encoder import (
    KEY as KEY,
    MAP_KEY as MAP_KEY,
    MAP_VALUE as MAP_VALUE,
    VALUE as VALUE,
)
from state_processor.serializers.kernel.encode.conversion_table import (
    spark_name as spark_name,
)
from state_processor.write.build import (
    DEFAULT_VERSION as DEFAULT_VERSION,
    SavepointBuild as SavepointBuild,
)
from state_processor.write.plan.converted_states import (
    check_rows as check_rows,
    write_as as write_as,
)
from state_processor.write.plan.draft import (
    DEFAULT_MAX_PARALLELISM as DEFAULT_MAX_PARALLELISM,
    OperatorDraft as OperatorDraft,
)
from state_processor.write.plan.keyed_changes import (
    add_entries as add_entries,
    replace_state as replace_state,
)
from state_processor.write.plan.reports import (
    CONVERTED as CONVERTED,
    IMPOSSIBLE as IMPOSSIBLE,
    LEFT_OUT as LEFT_OUT,
    NEW as NEW,
    UNCHANGED as UNCHANGED,
)
from state_processor.write.rows.row_columns import (
    check_columns as check_columns,
    check_exact as check_exact,
    naming as naming,
)
from state_processor.write.rows.row_protocol import (
    GivenRows as GivenRows,
    Rows as Rows,
    key_numbers as key_numbers,
)
from state_processor.write.savepoint_writer import (
    QueryWriter as QueryWriter,
)
from state_processor.write.tasks.passes import (
    WriterEngine as WriterEngine,
)
