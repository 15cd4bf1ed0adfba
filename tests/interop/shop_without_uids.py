"""The shop of notebook 9: a savepoint of a job without uids, and the signature of the new version of the job.

``python -m tests.interop.shop_without_uids`` lets Flink 2.3 write both into ``tests/fixtures/without-uids``.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import state_processor as sp
from tests.corpus import FIXTURES
from tests.interop import flink, flink_jars

VERSION = "2.3.0"
TARGET = FIXTURES / "without-uids"
_CUSTOMERS = ("amelia", "anders", "aoife", "bjorn", "chidi", "clara")


def _state(name: str, kind: str, value_type: str, entries: list[Any], **more: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "value_type": value_type, "entries": entries, "ttl": False, **more}


def _operator(
    label: str, *states: dict[str, Any], after: tuple[int, ...] = (), name: str = "", key: str | None = "STRING"
) -> Any:
    return {"uid": label, "key_type": key, "states": list(states), "inputs": list(after), "name": name or label}


def job(points: str = "INT") -> list[dict[str, Any]]:
    """Return the operators, in the order of the old version."""
    emails = [{"key": c, "value": f"{c}@example.com"} for c in _CUSTOMERS]
    counts = [{"key": c, "value": 10 * n + 5} for n, c in enumerate(_CUSTOMERS)]
    visits = [{"key": c, "value": [["app", n + 1], ["web", 2 * n + 1]]} for n, c in enumerate(_CUSTOMERS)]
    seen = [{"key": c, "value": f"order {100 + n}"} for n, c in enumerate(_CUSTOMERS)]
    mails = [f"send receipt to {c}@example.com" for c in _CUSTOMERS[:4]]
    return [
        _operator("parse", name="parse orders", key=None),
        _operator("points", _state("points", "VALUE", points, counts), after=(0,), name="bonus points"),
        _operator(
            "customers",
            _state("email", "VALUE", "STRING", emails),
            _state("visits", "MAP", "LONG", visits, map_key_type="STRING"),
            after=(0,),
            name="customers",
        ),
        _operator("last-order", _state("last", "VALUE", "STRING", seen), after=(1,), name="KeyedProcess"),
        _operator("receipts", _state("pending", "OPERATOR_LIST", "STRING", mails), after=(3,), name="receipts", key=None),
    ]


def new_version() -> list[dict[str, Any]]:
    """Return the operators of the new version: with uids and without entries; one has another name, and points are long."""
    operators = [{**o, "states": [{**s, "entries": []} for s in o["states"]]} for o in job("LONG")]
    operators[3]["name"] = "last order of a customer"
    return operators


def main() -> None:
    """Write the savepoint and the signature."""
    with tempfile.TemporaryDirectory(dir=flink_jars.CACHE) as directory:
        common = {"filled": True, "snapshots": ["canonical"], "snapshots_to": directory}
        old = [{**operator, "anonymous": True} for operator in job()]
        answers = flink.restore(VERSION, [flink.request(o, **common) for o in (old, new_version())])  # type: ignore[arg-type]
        savepoints = [answer["snapshots"]["canonical"] for answer in answers]
        shutil.rmtree(TARGET, ignore_errors=True)
        TARGET.mkdir()
        shutil.copytree(savepoints[0], TARGET / "savepoint")
        signature = sp.signature(savepoints[1])
        (TARGET / "job.state.json").write_text(f"{signature}\n", "utf-8")
    print(
        *(f"{path.relative_to(FIXTURES)}: {path.stat().st_size}" for path in Path(TARGET).rglob("*") if path.is_file()), sep="\n"
    )


if __name__ == "__main__":
    main()
