"""The ``hashCode`` of keys of a class: functions and rules of users are checked with the keys that are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import state_processor as sp
from state_processor.backends.state.hash_inference import HashRule
from state_processor.write.tasks import key_hashing

T = sp.Types
ID = T.POJO("com.acme.Id", {"shop": T.INT(), "number": T.INT()})
RULE = HashRule("exclusive or of the fields", ("number", "shop"))


def exclusive_or(keys: pa.Array) -> Any:
    shop, number = (pc.struct_field(keys, name).to_numpy(zero_copy_only=False) for name in ("shop", "number"))
    return (shop ^ number).astype(np.int32)


def rows(count: int) -> pa.Table:
    keys = [{"shop": 3 * i, "number": i} for i in range(count)]
    return pa.table({"key": pa.array(keys, pa.struct([("shop", pa.int32()), ("number", pa.int32())])), "value": range(count)})


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few keys, whose ``hashCode`` can't be inferred."""
    target = tmp_path_factory.mktemp("keys") / "old"
    sp.arrow.SavepointWriter.new().with_keyed_state("op", rows(3), key_type=ID, key_hash=exclusive_or).write(target)
    return target


def constant(keys: pa.Array) -> Any:
    return np.zeros(len(keys), np.int32)


@pytest.mark.parametrize("sampled", [100_000, 1])
def test_functions_are_checked_with_stored_keys(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampled: int
) -> None:
    monkeypatch.setattr(key_hashing, "SAMPLED_KEYS", sampled)
    for key_hash, name in ((constant, "the function constant"), (HashRule("Lombok", ("shop", "number")), "Lombok")):
        writer = sp.arrow.SavepointWriter.from_existing(base)
        writer.with_keyed_state("op", rows(2), states={"value": T.LONG()}, key_hash=key_hash, columns={"value": "more"})
        with pytest.raises(
            sp.UnsupportedFormatError, match=rf"operator op: .*contradict the given key_hash: .*but {name}.* gives another"
        ):
            writer.write(tmp_path / "refused")
    writer = sp.arrow.SavepointWriter.from_existing(base)
    writer.with_keyed_state("op", rows(2), states={"value": T.LONG()}, key_hash=exclusive_or, columns={"value": "more"})
    writer.write(tmp_path / "new")
    assert sp.arrow.read_state(tmp_path / "new", "op", "more").read_all().num_rows == 2


def test_every_change_can_have_a_key_hash(base: Path, tmp_path: Path) -> None:
    for key_hash in (exclusive_or, RULE):
        writer = sp.arrow.SavepointWriter.from_existing(base).with_max_parallelism(300)
        with pytest.raises(
            sp.UnsupportedFormatError, match="3 keys are too few to infer it; give it by with_key_hash of the writer"
        ):
            writer.write(tmp_path / "refused")
        writer.with_key_hash("op", key_hash).update_keyed_state("op", "value", rows(5)).write(tmp_path / "new", overwrite=True)
        assert sp.arrow.read_state(tmp_path / "new", "op", "value").read_all().num_rows == 5
    with pytest.raises(sp.UnsupportedFormatError, match="but the function constant gives another one"):
        sp.arrow.SavepointWriter.from_existing(base).with_key_hash("op", constant).delete_keys("op", rows(1)).write(
            tmp_path / "not"
        )


@pytest.mark.parametrize(
    ("key_hash", "message"),
    [
        (lambda keys: np.zeros(1, np.int32), r"the shape \(1,\) for 3 keys; expected an int32 for each key"),
        (lambda keys: np.zeros(len(keys)), "an array of float64"),
        (lambda keys: np.full(len(keys), 2**31), "returned 2147483648, which is not an int of Java"),
    ],
)
def test_results_that_are_not_hash_codes_are_refused(tmp_path: Path, key_hash: Any, message: str) -> None:
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("op", rows(3), key_type=ID, key_hash=key_hash)
    with pytest.raises(sp.OptionError, match=message):
        writer.write(tmp_path / "new")


@pytest.mark.parametrize(
    ("key_hash", "key_type", "message"),
    [
        (31, ID, "key_hash=31: expected a function or a HashRule, found a int"),
        (constant, None, "the hashCode of keys of type STRING is known; leave key_hash out"),
        (HashRule("Objects.hash", ("shop", "id")), ID, r"expected fields of the keys \(number, shop\), found \(shop, id\)"),
        (HashRule("md5", ("shop",)), ID, "expected one of the formulas Objects.hash, .*found 'md5'"),
    ],
)
def test_arguments_that_are_refused(key_hash: Any, key_type: Any, message: str) -> None:
    given = rows(1) if key_type is not None else pa.table({"key": ["a"], "value": [1]})
    with pytest.raises(sp.OptionError, match=message):
        sp.arrow.SavepointWriter.new().with_keyed_state("op", given, key_type=key_type, key_hash=key_hash)


def test_an_operator_without_keys() -> None:
    writer = sp.arrow.SavepointWriter.new().with_list_state("op", "names", pa.table({"value": ["a"]}))
    with pytest.raises(sp.OptionError, match="operator op: key_hash: the operator does not have keyed state yet"):
        writer.with_key_hash("op", constant)
