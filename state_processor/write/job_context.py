"""Context of the jobs that write one operator."""

from __future__ import annotations

from state_processor.backends.write.staging import Staging
from state_processor.options.task_registrations import TaskSerializers
from state_processor.serializers.records import dataclass
from state_processor.write.engines import Engine
from state_processor.write.migration_tasks import PortableTypes, portable
from state_processor.write.outcome import OperatorOutcome


@dataclass(frozen=True)
class JobContext:
    """The operator that jobs write, and the resources of the jobs.

    Parameters
    ----------
    engine
        Runs the tasks.
    staging
        The write.
    outcome
        The operator.
    serializers
        Serializers that users register.
    time_zone
        The zone of the JVM of the job.
    """

    engine: Engine
    staging: Staging
    outcome: OperatorOutcome
    serializers: TaskSerializers
    time_zone: str

    @property
    def new_types(self) -> PortableTypes:
        """Types that a migration to Flink 2.x converts to."""
        migration = self.outcome.migration
        return portable(migration.types) if migration is not None else {}
