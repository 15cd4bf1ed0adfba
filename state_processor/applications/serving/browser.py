"""The page in the browser: one HTML file, and the policy that permits its script, its style and requests to its server alone."""

from __future__ import annotations

import pkgutil
import re
from base64 import b64encode
from hashlib import sha256
from typing import Final

BROWSE: Final = "browse"
"""The path of the page, and the beginning of the paths of its answers."""
_PART: Final = re.compile(r"<(?P<name>script|style)>(?P<text>.*?)</(?P=name)>", re.DOTALL)


def browser_page() -> str:
    """Return the page. It contains no state."""
    return (pkgutil.get_data(__package__, "browser.html") or b"").decode()


def browser_policy() -> str:
    """Return the content security policy of the page."""
    digests = {
        part["name"]: b64encode(sha256(part["text"].encode()).digest()).decode() for part in _PART.finditer(browser_page())
    }
    return (
        f"default-src 'none'; script-src 'sha256-{digests['script']}'; style-src 'sha256-{digests['style']}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
