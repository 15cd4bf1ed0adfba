"""Who may ask: tokens, and names of this machine."""

from __future__ import annotations

import pytest

from state_processor.applications.serving.limits import Permission
from tests.state_processor.applications.serving.checkpoints import TOKEN


@pytest.mark.parametrize("host", ["localhost", "LocalHost:8080", "127.0.0.1:1", "[::1]", "[::1]:8080", None])
def test_names_of_this_machine(host: str | None) -> None:
    assert Permission(None).allows(None, host)


@pytest.mark.parametrize(
    "host",
    ["[::1]evil.com", "localhost:evil.com", "localhost:80@evil.com", "127.0.0.1.evil.com", "[::1", "::1", "", "localhost\n"],
)
def test_other_names(host: str) -> None:
    assert not Permission(None).allows(None, host)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_in_any_case(scheme: str) -> None:
    assert Permission(TOKEN).allows(f"{scheme} {TOKEN}", None)
    assert Permission(TOKEN).allows(f"{scheme}  {TOKEN}", "anything")


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN.lower()}X"]
)
def test_other_tokens(authorization: str | None) -> None:
    assert not Permission(TOKEN).allows(authorization, None)
