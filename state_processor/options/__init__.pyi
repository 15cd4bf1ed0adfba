"""The names of :mod:`state_processor.options`, and the module of each."""

from state_processor.backends.read.read_options import (
    Kind as Kind,
    ReadOptions as ReadOptions,
    option_values as option_values,
)
from state_processor.backends.write.keyed_formats import (
    BackendName as BackendName,
    FormatName as FormatName,
)
from state_processor.options.access import (
    SNAPSHOT_OPTIONS as SNAPSHOT_OPTIONS,
    SnapshotAccess as SnapshotAccess,
)
from state_processor.options.data_sources import (
    CHANGES_FORMAT as CHANGES_FORMAT,
    ChangesOptions as ChangesOptions,
    EARLIEST as EARLIEST,
    LATEST as LATEST,
    READ_OPTIONS as READ_OPTIONS,
    SNAPSHOT as SNAPSHOT,
)
from state_processor.options.groups import (
    ChangedSavepointOptions as ChangedSavepointOptions,
    CountSnapshotOptions as CountSnapshotOptions,
    DiffOptions as DiffOptions,
    DiffSnapshotOptions as DiffSnapshotOptions,
    DirectoryOptions as DirectoryOptions,
    LookupSnapshotOptions as LookupSnapshotOptions,
    SnapshotOptions as SnapshotOptions,
    StateSnapshotOptions as StateSnapshotOptions,
)
from state_processor.options.keywords import (
    KEYWORD_OPTIONS as KEYWORD_OPTIONS,
    READING_CHANGES as READING_CHANGES,
    check_arguments as check_arguments,
    documents as documents,
    takes_options as takes_options,
)
from state_processor.options.option import (
    Option as Option,
    WHOLE_NUMBER as WHOLE_NUMBER,
    check_given as check_given,
    values_of as values_of,
)
from state_processor.options.user_serializers import (
    TaskSerializers as TaskSerializers,
    import_serializers as import_serializers,
)
from state_processor.options.user_tables import (
    check_values as check_values,
)
from state_processor.support.doors import (
    checked_choice as checked_choice,
    choice_of as choice_of,
    spelled as spelled,
)
from state_processor.types.durations import (
    duration_ms as duration_ms,
)
