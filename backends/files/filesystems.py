"""File systems of URLs: pyarrow's, and fsspec's for schemes that pyarrow lacks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from state_processor.backends.files.location import Location, in_short, unknown_scheme, unknown_setting, what_to_do
from state_processor.backends.files.ordered_threads import MOST_REQUESTS
from state_processor.support.errors import OptionError, StateProcessorError, UnsupportedFormatError
from state_processor.support.redaction import without_values

BUCKET_SETTINGS: Final = "bucket."
"""Prefix of settings for one S3 bucket: ``bucket.logs.access_key``."""

_CONNECT_SECONDS: Final = 20.0
_REQUEST_SECONDS: Final = 60.0
"""Time limit of a request to S3. The client repeats a request a few times."""


def connect(location: Location, query: str, options: Mapping[str, Any]) -> pafs.FileSystem:
    """Return the file system of a location.

    Parameters
    ----------
    location
        A local path or a URL. A local path ignores the other parameters.
    query
        Settings in the query of a URL. They take precedence over ``options``.
    options
        Settings of the file system. The names are arguments of ``pyarrow.fs.S3FileSystem`` (``endpoint_override``, ``region``,
        ``scheme``, ``access_key``, ``secret_key``, ``session_token``, ``anonymous``, …) or ``GcsFileSystem``, the query of
        ``HadoopFileSystem.from_uri``, or the ``storage_options`` of the fsspec package. For S3, ``bucket.NAME.access_key`` sets
        ``access_key`` for one bucket and takes precedence there; the same holds for other settings. The environment
        (``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, …) provides the remaining settings.

    Raises
    ------
    UnsupportedFormatError
        No file system for the scheme is installed.
    OptionError
        A setting is unknown or missing.
    """
    try:
        return _connected(location, query, options)
    except StateProcessorError:
        raise
    except TypeError as e:  # arguments of a constructor
        problem = unknown_setting(without_values(str(e), options), _settings(location.scheme))
        raise OptionError(f"{location}: {problem}{what_to_do(location.scheme)}") from None
    except Exception as e:
        text = without_values(str(e), options)
        if text == str(e):
            raise
        raise OptionError(f"{location}: {type(e).__name__}: {text}") from None


def _connected(location: Location, query: str, options: Mapping[str, Any]) -> pafs.FileSystem:
    if location.is_local:
        return pafs.LocalFileSystem()
    if location.scheme == "s3":
        return _s3(location.authority, {**_of_bucket(location.authority, options), **dict(parse_qsl(query))})
    if location.scheme == "gs" and options:
        return pafs.GcsFileSystem(**{**options, **dict(parse_qsl(query))})
    if location.scheme in ("gs", "hdfs", "viewfs"):
        settings = "&".join(filter(None, (urlencode(options), query)))
        return pafs.FileSystem.from_uri(f"{location.scheme}://{location.authority}/" + (f"?{settings}" if settings else ""))[0]
    return _fsspec(location, options)


def _settings(scheme: str) -> list[str]:
    """Return the settings of a pyarrow file system, taken from its docstring; an empty list for other file systems."""
    constructor = {"s3": "S3FileSystem", "gs": "GcsFileSystem"}.get(scheme, "")
    signature = (getattr(pafs, constructor).__doc__ or "").partition("\n")[0] if hasattr(pafs, constructor) else ""
    return re.findall(r"(\w+)(?:: \w+)?[ ]?=", signature)


def _of_bucket(bucket: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that apply to a bucket."""
    settings = {name: value for name, value in options.items() if not name.startswith(BUCKET_SETTINGS)}
    for name, value in options.items():
        place, _, setting = name.rpartition(".")
        if place == BUCKET_SETTINGS + bucket.rpartition("@")[2]:
            settings[setting] = value
    return settings


def _s3(bucket: str, options: dict[str, Any]) -> pafs.FileSystem:
    user, _, _ = bucket.rpartition("@")
    if user:
        options["access_key"], _, options["secret_key"] = map(unquote, user.partition(":"))
    from_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = options.pop("endpoint_override", None) or from_environment
    arguments: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, "request_timeout": _REQUEST_SECONDS} | options
    for name in ("connect_timeout", "request_timeout"):
        arguments[name] = float(arguments[name])
    if endpoint:
        parsed = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        arguments["endpoint_override"] = parsed.netloc
        arguments.setdefault("scheme", parsed.scheme or "https")
    if "anonymous" in arguments:
        arguments["anonymous"] = str(arguments["anonymous"]).lower() == "true"
    if not endpoint and "region" not in arguments and "AWS_REGION" not in os.environ and "AWS_DEFAULT_REGION" not in os.environ:
        arguments["region"] = _region(bucket.rpartition("@")[2])
    threads = pa.io_thread_count()
    try:
        pa.set_io_thread_count(max(threads, MOST_REQUESTS))  # the new client uses this as its maximum number of connections
        return pafs.S3FileSystem(**arguments)
    finally:
        pa.set_io_thread_count(threads)


def _region(bucket: str) -> str | None:
    try:
        return str(pafs.resolve_s3_region(bucket))
    except OSError:
        return None  # S3FileSystem has a default, and the first access names the real problem


def _fsspec(location: Location, options: Mapping[str, Any]) -> pafs.FileSystem:
    import fsspec

    try:
        # only scheme and authority of the URL: fsspec would parse "::" in a path as a chain of file systems
        url = f"{location.scheme}://{location.authority.replace('::', ':')}/"
        filesystem, _ = fsspec.core.url_to_fs(url, **{"skip_instance_cache": True, **options})
    except (ImportError, ValueError) as e:
        problem = in_short(without_values(str(e), options))
        advice = what_to_do(location.scheme) or unknown_scheme(location.scheme)
        raise UnsupportedFormatError(f"{location}: no file system for {location.scheme}:// ({problem}){advice}") from None
    if isinstance(listings := getattr(filesystem, "dircache", None), fsspec.dircache.DirCache):
        listings.use_listings_cache = False  # others add, replace and remove files
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))  # type: ignore[abstract]
