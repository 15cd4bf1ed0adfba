"""Access to the server: bearer tokens, and host names of this machine."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from state_processor.errors import OptionError

_SCHEME: Final = "bearer"
"""The scheme of the header ``Authorization``, in any case (RFC 9110, 11.1)."""
_HOST: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_LEAST: Final = 16
"""Characters of a token."""


@dataclass(frozen=True, repr=False)
class Permission:
    """The rule for requests."""

    token: str | None  # the bearer token of each request; ``None`` if only this machine reaches the server

    @classmethod
    def of(cls, host: str, token: str | None) -> Permission:
        """Return the rule for a server at an address."""
        if token is None and not is_local(host):
            raise OptionError(f"other machines reach {host}: give a bearer token, in a file or in STATE_PROCESSOR_TOKEN")
        if token is not None and (len(token) < _LEAST or not token.isascii() or not token.isprintable() or " " in token):
            raise OptionError(f"expected a token of at least {_LEAST} printable characters of ASCII without spaces")
        return cls(token)

    def allows(self, authorization: str | None, host: str | None) -> bool:
        """Return whether a request may be answered.

        ``authorization`` and ``host``: the headers of the request. Without a token, only names of this machine are accepted as
        ``Host``. This refuses pages of other hosts that use a name which resolves to this machine.
        """
        if self.token is None:
            return host is None or _HOST.fullmatch(host) is not None
        scheme, _, token = (authorization or "").partition(" ")
        is_token = hmac.compare_digest(token.strip(" ").encode(), self.token.encode())
        return is_token and scheme.lower() == _SCHEME


def is_local(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
