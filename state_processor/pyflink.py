"""Values in the state of PyFlink jobs.

PyFlink stores every value as bytes that its Python workers wrote, in states called ``python-state-`` and the name in the job:
values, reducing and aggregating states as a list of one element, maps with bytes for keys, lists with one or more elements in
each of their entries (:func:`decode_elements`). Snapshots do not record the type; pass the type of the job's state descriptor.

Examples
--------
>>> import state_processor as sp
>>> sp.pyflink.decode(bytes.fromhex("0000000000000015"), sp.Types.LONG())
21
>>> sp.pyflink.state_name("count")
'python-state-count'
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput
from state_processor.serializers.table import python_state
from state_processor.serializers.table.python_state import python_coder

__all__ = ["decode", "decode_column", "decode_elements", "encode", "load_pickle", "state_name"]


def state_name(name: str) -> str:
    """Return the name in a snapshot of the state that a PyFlink job calls ``name``."""
    return f"python-state-{name}"


def decode(data: bytes, value_type: TypeSerializer) -> Any:
    """Decode one value.

    Parameters
    ----------
    data
        The bytes of a state: a value, an element, a map's key or value.
    value_type
        The type of the job's state descriptor, from :class:`~state_processor.Types`. ``Types.PICKLED_BYTE_ARRAY()``, which
        is PyFlink's default, returns the bytes of the pickle.

    Returns
    -------
    Any
        Rows and tuples as dictionaries, maps as lists of pairs, as in columns.

    Raises
    ------
    CorruptSnapshotError
        If the bytes are not a value of the type.
    UnsupportedFormatError
        If PyFlink does not support the type.
    """
    coder = python_coder(value_type)
    return coder.to_column(coder.deserialize(bytes(data)), DecodeOptions())


def decode_elements(data: bytes, value_type: TypeSerializer) -> list[Any]:
    """Return the elements in an entry of a list state: PyFlink adds all elements of a bundle of records in one piece.

    See Also
    --------
    decode : for the parameters and errors.
    """
    coder, source = python_coder(value_type), DataInput(bytes(data))
    elements = []
    while not source.at_end():
        elements.append(coder.to_column(coder.read(source), DecodeOptions()))
    return elements


def encode(value: Any, value_type: TypeSerializer) -> bytes:
    """Encode a value; the inverse of :func:`decode`."""
    coder = python_coder(value_type)
    return coder.serialize(coder.from_column(value))


def decode_column(column: pa.Array | pa.ChunkedArray, value_type: TypeSerializer) -> pa.Array:
    """Decode a column of bytes, such as ``list_value``; nulls stay null."""
    coder, options = python_coder(value_type), DecodeOptions()
    values = (None if data is None else coder.to_column(coder.deserialize(data), options) for data in column.to_pylist())
    return pa.array(values, coder.arrow_type(options))


def load_pickle(data: bytes) -> Any:
    """Return the Python object of a pickled value.

    .. warning:: Loading a pickle runs code in it. Apart from this function, only reads with ``unpickle`` load pickles of a
       snapshot. Use both only for savepoints that only people whom you trust could have written.

    Raises
    ------
    UndecodableValueError
        It is not a pickle, or needs modules that are not installed (``cloudpickle``, the job's own).
    """
    return python_state.load_pickle(BytesSerializer().deserialize(bytes(data)))
