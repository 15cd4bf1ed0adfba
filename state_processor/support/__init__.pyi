"""The names of :mod:`state_processor.support`, and the module of each."""

from state_processor.support.errors import (
    is_foreign as is_foreign,
)
from state_processor.support.late import (
    pc as pc,
    require as require,
    requirement as requirement,
)
from state_processor.support.locks import (
    cached_property as cached_property,
    process_lock as process_lock,
)
from state_processor.support.mappings import (
    attributes as attributes,
    by_each_key as by_each_key,
    index_by_name as index_by_name,
    map_values as map_values,
    names_of as names_of,
    only_keys as only_keys,
    unrenamed as unrenamed,
    without_keys as without_keys,
    without_none as without_none,
)
from state_processor.support.redaction import (
    presentable as presentable,
    redacted as redacted,
    redacted_repr as redacted_repr,
)
