"""Requests over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.serving import app, browsing
from state_processor.applications.serving.limits import Limits, Permission
from state_processor.support.errors import OptionError
from tests.state_processor.applications.serving.checkpoints import TOKEN
from tests.state_processor.applications.serving.web import Web
from tests.state_processor.samples import ORDERS_PATH, TYPES_PATH
from tests.waiting import SECONDS


@pytest.fixture(scope="module")
def orders() -> Iterator[Web]:
    with Web(ORDERS_PATH) as served:
        yield served


def test_operators_and_states(orders: Web) -> None:
    found = orders.get("/operators").json()
    assert found["checkpoint_id"] == orders.get("/checkpoint").json()["checkpoint_id"] == 1
    assert "orders" in [operator["operator_uid"] for operator in found["operators"]]
    states = orders.get("/operators/orders/states").json()["states"]
    assert {"total", "items"} <= {state["state_name"] for state in states}


def test_the_contents_of_a_key(orders: Web) -> None:
    found = orders.get("/operators/orders/keys/amelia").json()
    assert found["states"]["total"] == [{"value": 3950}]
    assert (found["operator"], found["key"], found["checkpoint_id"]) == ("orders", "amelia", 1)
    assert found["timers"] == []
    one = orders.get("/operators/orders/keys/amelia/total").json()
    assert one == {"checkpoint_id": 1, "operator": "orders", "key": "amelia", "states": {"total": [{"value": 3950}]}}


@pytest.mark.parametrize(
    ("path", "status", "kind", "message"),
    [
        ("/operators/nope/states", 404, "NotFoundError", "no operator 'nope' in this snapshot"),
        ("/operators/orders/keys/amelia/nope", 404, "NotFoundError", "no state 'nope'"),
        ("/operators/orders/keys/nobody", 404, "NotFoundError", "does not have the key nobody in checkpoint 1"),
        ("/operators/catalog/keys/1", 404, "NotFoundError", "does not have keyed state"),
        ("/operators/orders", 404, "NotFoundError", "there is no /operators/orders"),
    ],
)
def test_errors_are_json(orders: Web, path: str, status: int, kind: str, message: str) -> None:
    found = orders.get(path)
    assert (found.status, found.json()["error"]["type"]) == (status, kind)
    assert message in found.json()["error"]["message"]


def test_only_get_is_answered(orders: Web) -> None:
    assert orders.get("/operators", method="POST").status == 405
    assert orders.get("/operators/orders/keys/amelia", method="DELETE").status == 405


KEYS: list[tuple[Any, Any, str]] = [
    (sp.Types.STRING(), "a/b ü?", "a%2Fb%20%C3%BC%3F"),
    (sp.Types.STRING(), "17", "17"),
    (sp.Types.LONG(), -(2**63), "-9223372036854775808"),
    (sp.Types.INT(), 5, "5"),
    (sp.Types.BOOLEAN(), True, "true"),
    (sp.Types.DOUBLE(), 0.5, "0.5"),
    (sp.Types.TUPLE([sp.Types.INT(), sp.Types.STRING()]), {"f0": 1, "f1": "a/b"}, "%5B1%2C%22a%2Fb%22%5D"),
    (sp.Types.TUPLE([sp.Types.INT(), sp.Types.STRING()]), {"f0": 1, "f1": "a"}, '{"f0":1,"f1":"a"}'),
]


@pytest.mark.parametrize(("key_type", "key", "text"), KEYS, ids=[text for _, _, text in KEYS])
def test_keys_of_all_types(tmp_path: Path, key_type: Any, key: Any, text: str) -> None:
    writer = sp.arrow.SavepointWriter.new(max_parallelism=8, flink_version="1.20")
    states = {"total": sp.ValueState(sp.Types.LONG())}
    writer.with_keyed_state("totals", [{"key": key, "total": 42}], key="key", key_type=key_type, states=states)
    writer.write(str(tmp_path / "s"))
    with Web(str(tmp_path / "s")) as served:
        found = served.get(f"/operators/totals/keys/{text}")
    assert found.json()["states"] == {"total": [{"value": 42}]}


def test_a_key_of_another_type_is_refused() -> None:
    uid = next(row["operator_uid"] for row in sp.arrow.states(TYPES_PATH).to_pylist() if row["key_type"] == "INT")
    with Web(TYPES_PATH) as served:
        found = served.get(f"/operators/{uid}/keys/text")
    assert (found.status, found.json()["error"]["type"]) == (400, "OptionError")
    assert "has keys of type INT, found 'text'" in found.json()["error"]["message"]


def test_a_token_is_required_elsewhere() -> None:
    with pytest.raises(OptionError, match=r"other machines reach 0\.0\.0\.0: give a bearer token"):
        Permission.of("0.0.0.0", None)
    with pytest.raises(OptionError, match="expected a token of at least 16"):
        Permission.of("127.0.0.1", "short")
    with Web(ORDERS_PATH, token=TOKEN, host="0.0.0.0") as served:
        assert served.get("/operators").status == 401
        assert served.get("/openapi.json", {"Authorization": "Bearer other-token-of-tests"}).status == 401
        assert served.get("/operators", {"Authorization": f"Bearer {TOKEN}"}).status == 200


def test_without_a_token_other_names_of_the_machine_are_refused(orders: Web) -> None:
    assert orders.get("/operators", {"Host": "rebound.example.com:8080"}).status == 401
    assert orders.get("/operators", {"Host": "localhost:8080"}).status == 200
    assert orders.get("/operators", {"Host": "[::1]:8080"}).status == 200


def test_openapi_has_all_paths(orders: Web) -> None:
    document = orders.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert "security" not in document
    for path in document["paths"]:
        asked = path.replace("{uid}", "orders").replace("{key}", "amelia").replace("{state}", "total")
        assert orders.get(asked).json()["checkpoint_id"] == 1
        responses = document["paths"][path]["get"]["responses"]
        assert responses.keys() == {"200", "401", *(str(status) for status in app._STATUS.values())}
    page = orders.get("/docs").text
    assert all(path in page for path in document["paths"])


def test_rows_are_limited() -> None:
    with Web(ORDERS_PATH, Limits(rows=1)) as served:
        found = served.get("/operators/orders/keys/amelia")
    assert (found.status, found.json()["error"]["type"]) == (413, "LimitError")


def test_time_and_parallel_requests_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    monkeypatch.setattr(browsing, "operators", lambda _: {"held": held.wait(SECONDS)})
    with Web(ORDERS_PATH, Limits(seconds=0.2, parallel=1)) as asked:
        late = asked.get("/operators")
        assert (late.status, late.json()["error"]["type"]) == (504, "TimeLimitError")
        busy = asked.get("/checkpoint")
        assert (busy.status, busy.json()["error"]["type"]) == (503, "BusyError")
        held.set()
