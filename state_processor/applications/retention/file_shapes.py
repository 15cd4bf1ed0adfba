"""Names and places of the files that Flink writes for checkpoints and savepoints. No other files are removed.

Each file has a random UUID as its name. These classes of Flink 1.13 to 2.3 make them:

- ``FsCheckpointStreamFactory``: ``chk-N``, ``savepoint-…``, ``shared``; also ``taskowned``, for files that state may name
- ``FileMergingSnapshotManager`` (1.20): ``shared/job_JOB_op_OPERATOR_SUBTASK_SUBTASKS``, ``taskowned/job_JOB_tm_TASKMANAGER``
- ``StateChangeFsUploader`` (changelog): ``dstl``
- ForSt's ``FileMappingManager`` (2.0): ``shared/op_OPERATOR_attempt_N/db``
- ``LocalRecoverableWriter`` and ``HadoopRecoverableWriter``: ``._metadata.inprogress.UUID`` beside a ``_metadata`` that is being
  written, which stays if the process ends meanwhile
"""

from __future__ import annotations

import re
from typing import Final

from state_processor.snapshots import Location

_UUID: Final = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_SAVEPOINT: Final = re.compile(r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}")
_STATE_FILE: Final = re.compile(_UUID)
_UNFINISHED_METADATA: Final = re.compile(rf"\._metadata\.inprogress\.{_UUID}")
_OF_SNAPSHOT: Final = rf"chk-\d+|{_SAVEPOINT.pattern}"
_MERGED: Final = r"shared/job_[^/]+_op_[^/]+_\d+_\d+|taskowned/job_[^/]+_tm_[^/]+"
_OF_JOB: Final = rf"(?:{_MERGED}|shared/op_[^/]+_attempt_\d+/db|shared|dstl)"
_MERGED_FILE: Final = re.compile(rf"(?:.*/)?(?:{_MERGED})/{_UUID}")
_FILE: Final = re.compile(rf"(?:.*/)?(?:(?:{_OF_SNAPSHOT}|{_OF_JOB})/{_UUID}|(?:{_OF_SNAPSHOT})/{_UNFINISHED_METADATA.pattern})")
_PLACE_IN_JOB: Final = re.compile(rf"(?P<job>.*)/(?:chk-\d+|{_OF_JOB}|taskowned)/[^/]+")


def is_savepoint_name(name: str) -> bool:
    """Check if a directory has the name that Flink gives to a savepoint."""
    return bool(_SAVEPOINT.fullmatch(name))


def is_name_of_flink(name: str) -> bool:
    """Check if a file has a name that Flink gives to files in the directory of a snapshot, which users may have renamed."""
    return bool(_STATE_FILE.fullmatch(name) or _UNFINISHED_METADATA.fullmatch(name))


def is_made_by_flink(location: Location) -> bool:
    """Check if a file has the name and the place of a file of a checkpoint or savepoint.

    Files directly in ``taskowned`` belong to operators, and state may name them.
    """
    return bool(_FILE.fullmatch(location.path))


def is_merged(location: Location) -> bool:
    """Check if a file has the name and the place of a merged file."""
    return bool(_MERGED_FILE.fullmatch(location.path))


def directory_of_job(location: Location) -> str | None:
    """Return the directory of the job that has written a file; ``None`` for other places."""
    place = _PLACE_IN_JOB.fullmatch(location.path)
    return None if place is None else str(location._replace(path=place["job"]))
