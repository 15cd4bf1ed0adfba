"""Signatures of jobs, from a snapshot or from a file in one of the known forms."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Final, Unpack

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage
from state_processor.backends.sql.plan import CompiledPlan
from state_processor.job.job_graph import JobGraph, graph_of
from state_processor.job.plan_signature import signature_of_graph, signature_of_plan
from state_processor.job.signature import JobSignature
from state_processor.job.signature_file import parse_signature
from state_processor.job.snapshot_signature import signature_of_snapshot
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import SnapshotOptions
from state_processor.options.keywords import takes_options
from state_processor.options.packages import require
from state_processor.serializers.errors import OptionError
from state_processor.serializers.json_text import parse_json

Described = JobSignature | CompiledPlan | JobGraph

_FORMS: Final = (
    "expected a file of `state-processor signature`, the JSON of COMPILE PLAN, of the REST paths /jobs/:id or /jobs/:id/plan, or "
    "of getExecutionPlan(), or YAML with operators"
)


@takes_options
def signature(path: str | PathLike[str] | JobSignature, **options: Unpack[SnapshotOptions]) -> JobSignature:
    """Return a description of the state of a job: operators, states and types, without values.

    Parameters
    ----------
    path
        Directory of a snapshot, or its ``_metadata``; or a file: a signature in JSON, a compiled plan of Flink SQL, the graph of
        a job as the REST interface (``/jobs/:id``, ``/jobs/:id/plan``) or ``StreamExecutionEnvironment.getExecutionPlan()``
        print it, or YAML with operators, states and types. Plans and graphs do not describe states.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    JobSignature
        Its text is JSON, with a stable order of operators and states.

    Raises
    ------
    OptionError
        If a file has another form.
    NotASnapshotError, CorruptSnapshotError
        If a directory does not have a snapshot, or its ``_metadata`` is damaged.
    """
    return path if isinstance(path, JobSignature) else signature_of(path, SnapshotAccess.of(**options))


def signature_of(path: str | PathLike[str], access: SnapshotAccess) -> JobSignature:
    """Return the signature of a job; see :func:`signature`."""
    content = described(path, access.storage())
    if content is None:
        return signature_of_snapshot(access.open(path))
    if isinstance(content, CompiledPlan):
        return signature_of_plan(content)
    return signature_of_graph(content) if isinstance(content, JobGraph) else content


def described(path: str | PathLike[str], storage: Storage) -> Described | None:
    """Return the content of a file that describes a job; ``None`` for a snapshot.

    Raises
    ------
    OptionError
        If the file has another form.
    """
    location = str(Location.given(path))
    if not storage.is_file(location) or Location.given(path).name == "_metadata":
        return None
    data = bytes(storage.read_all(location))
    where = str(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OptionError(f"{where}: {_FORMS}; found bytes that are not text") from None
    if not text.lstrip().startswith("{"):
        return parse_signature(_yaml(text, where), where)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise OptionError(f"{where}: {_FORMS}; found JSON that can't be parsed: {error}") from None
    return _of_json(content, text, where)


def _of_json(content: Mapping[str, Any], text: str, where: str) -> Described:
    if "operators" in content:
        return parse_signature(content, where)
    if "nodes" in content and "edges" in content:
        return CompiledPlan.parse(text)
    graph = graph_of(content)
    if graph is None:
        raise OptionError(f"{where}: {_FORMS}; found an object with {', '.join(map(str, list(content)[:8])) or 'no field'}")
    return graph


def _yaml(text: str, where: str) -> Any:
    yaml = require("yaml", "yaml", "jobs described in YAML")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OptionError(f"{where}: {_FORMS}; found text that is not YAML: {error}") from None
