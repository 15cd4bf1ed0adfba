"""The names of :mod:`state_processor.write`, and the module of each."""

from state_processor.write.build import (
    SavepointBuild as SavepointBuild,
)
from state_processor.write.plan.converted_states import (
    check_rows as check_rows,
    write_as as write_as,
)
