"""What RocksDB writes with options that Flink does not use: it is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from state_processor.support.errors import UnsupportedFormatError
from tests.backends.formats.sst import stores
from tests.backends.formats.sst import table_writer as w

Setting = Callable[[Any, Any], None]


def blobs(options: Any, _: Any) -> None:
    options.set_enable_blob_files(True)
    options.set_min_blob_size(10)


def dictionary(options: Any, _: Any) -> None:
    options.set_compression_type(rocksdict.DBCompressionType.zstd())
    options.set_compression_options(-14, 3, 0, 4096)


REFUSED: list[tuple[Setting, str]] = [
    (blobs, "the store has blob files"),
    (dictionary, "its blocks are compressed with a dictionary"),
    (lambda options, _: options.set_compression_type(rocksdict.DBCompressionType.bz2()), "blocks are compressed by bzip2"),
    (lambda _, table: table.set_format_version(1), "its format version is 1; supported are versions 2 to 6"),
    (lambda options, _: options.set_plain_table_factory(rocksdict.PlainTableFactoryOptions()), "it is a plain table"),
    (lambda options, _: options.set_cuckoo_table_factory(rocksdict.CuckooTableOptions()), "it is a cuckoo table"),
]


def made(directory: Path, setting: Setting, put: Callable[[Any, int], None]) -> None:
    options, table = rocksdict.Options(raw_mode=True), rocksdict.BlockBasedOptions()
    options.set_prefix_extractor(rocksdict.SliceTransform.create_fixed_prefix(2))
    options.set_allow_mmap_reads(True)  # plain tables need it
    options.set_compression_type(rocksdict.DBCompressionType.none())
    setting(options, table)
    options.set_block_based_table_factory(table)
    setting(options, table)  # a factory of other tables
    store = rocksdict.Rdict(str(directory), options)
    for i in range(200):
        put(store, i)
    store.flush()
    store.close()


@pytest.mark.parametrize(("setting", "told"), REFUSED)
def test_options_that_flink_does_not_use(setting: Setting, told: str, tmp_path: Path) -> None:
    made(tmp_path / "store", setting, lambda store, i: store.put(b"%08d" % i, b"value" * 20))
    with pytest.raises(UnsupportedFormatError, match=f"{told}.*[Ww]rite a canonical savepoint|{told}; expected"):
        stores.read_by_kernels(tmp_path / "store", "default")


def test_wide_columns(tmp_path: Path) -> None:
    made(tmp_path / "store", lambda *_: None, lambda store, i: store.put_entity(b"%08d" % i, [b"a"], [b"b"]))
    with pytest.raises(UnsupportedFormatError, match=r"it has a wide column\. Flink does not write this"):
        stores.read_by_kernels(tmp_path / "store", "default")


def test_tables_of_format_version_0(tmp_path: Path) -> None:
    """Their footer has 48 bytes: the places of blocks, and another magic number."""
    entries = [w.Entry(b"a", 1, w.VALUE, b"value" * 20)]
    data = w.TableWriter(w.Layout(version=2)).write(entries)
    data = data[:-53] + data[-52:-12] + (0xDB4775248B80FB57).to_bytes(8, "little")
    file = w.table_file(10, 0, entries, len(data))
    (tmp_path / file.name).write_bytes(data)
    with pytest.raises(UnsupportedFormatError, match=r"it is a block-based table of format version 0; supported are .* 2 to 6"):
        stores.tables_of(tmp_path)(file)
