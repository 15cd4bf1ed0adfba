"""Removal of secrets in URLs from messages, ``repr`` and plans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

_HIDDEN: Final = "***"
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>[^\s'\"<>]*)")
_S3: Final = re.compile(r"s3[anp]?", re.IGNORECASE)
_S3_USER: Final = re.compile(r"[^/?#@]*:[^?#@]*@")
"""A secret key may contain unescaped slashes."""
_USER: Final = re.compile(r"[^/?#]*@")
CONTAINER_SCHEMES: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""In URLs of these schemes, a container name precedes the ``@``, not a user."""
_SETTING: Final = re.compile(r"(?P<before>[?&;#])(?P<name>[^=&;#]*)=(?P<value>[^&;#]*)")
_HARMLESS: Final = frozenset(
    {"endpoint_override", "region", "scheme", "anonymous", "connect_timeout", "request_timeout", "force_virtual_addressing"}
)


def redacted(text: str) -> str:
    """Return a text without user names, passwords and values of possibly secret settings in its URLs."""
    return _URL.sub(_redacted_url, text) if "://" in text else text


def presentable(message: str) -> str:
    """Return a message without secrets of URLs. Lone surrogates are escaped, because outputs can't encode them."""
    return redacted(message).encode("utf-8", "backslashreplace").decode()


def without_values(text: str, settings: Mapping[str, Any]) -> str:
    """Return a text without the values of possibly secret settings."""
    for name, value in settings.items():
        if name.rpartition(".")[2] not in _HARMLESS and len(str(value)) > 1:
            text = text.replace(str(value), _HIDDEN)
    return text


def redacted_repr(instance: Any) -> str:
    """Return the ``repr`` of a dataclass without secrets of URLs; assign this function to ``__repr__``."""
    settings = ", ".join(f"{field.name}={getattr(instance, field.name)!r}" for field in fields(instance) if field.repr)
    return redacted(f"{type(instance).__qualname__}({settings})")


def _redacted_url(url: re.Match[str]) -> str:
    scheme, rest = url["scheme"], url["rest"]
    if scheme.lower() == "file":
        return url[0]
    if scheme.lower() not in CONTAINER_SCHEMES:
        user = (_S3_USER.match(rest) if _S3.fullmatch(scheme) else None) or _USER.match(rest)
        if user:
            rest = f"{_HIDDEN}@{rest[user.end() :]}"
    return f"{scheme}://{_SETTING.sub(_redacted_setting, rest)}"


def _redacted_setting(setting: re.Match[str]) -> str:
    text = setting["value"] if setting["name"] in _HARMLESS or not setting["value"] else _HIDDEN
    return f"{setting['before']}{setting['name']}={text}"
