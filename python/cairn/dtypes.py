"""Dtypes that checkpoints lack: elements are stored as bytes, with the name in an attribute of the tensor.

The tensor has the dtype uint8. It has the same shape if an element has one byte, else one more dimension at
the end for the bytes of an element.
"""

import json

import numpy as np

NAME = "cairn.dtype"

# Bytes of an element of each dtype, also of those that no package here has.
_SIZES = {"float128": 16, "float128_x87": 16, "complex256": 32, "complex256_x87": 32,
          "complex32": 4, "bcomplex32": 4, "float8_e3m4": 1, "float8_e4m3": 1, "float8_e8m0fnu": 1,
          "float6_e2m3fn": 1, "float6_e3m2fn": 1, "float4_e2m1fn_x2": 1,
          **{f"{kind}{bits}": 1 for kind in ("int", "uint") for bits in (1, 3, 5, 6, 7)}}
_X87 = np.dtype(np.longdouble).itemsize == 16 and np.finfo(np.longdouble).nmant == 63
_LONG = {}  # NumPy's. On x86 it is no float128: an element has 6 unused bytes
if np.dtype(np.longdouble).itemsize == 16:
    _LONG = {np.dtype(np.longdouble): "float128", np.dtype(np.clongdouble): "complex256"}
    if _X87:
        _LONG = {dtype: f"{name}_x87" for dtype, name in _LONG.items()}
_OF_NAME = {name: dtype for dtype, name in _LONG.items()}


def lacking(dtype):
    """The name of a dtype that checkpoints lack; None if they have it, or if it is unknown here."""
    if dtype.num < 256:
        return _LONG.get(dtype)
    return dtype.name if dtype.type.__module__ == "ml_dtypes" and dtype.name in _SIZES else None


def all_names():
    return list(_SIZES)


def more_of(name):
    """The dimension that its bytes add to the shape."""
    return () if _SIZES[name] == 1 else (_SIZES[name],)


def read(text, dtype, shape):
    """The name in the attribute, if there is one, of a tensor with this stored dtype and shape.
    ValueError if there is no such dtype."""
    if text is None:
        return None
    name = json.loads(text)
    if not isinstance(name, str) or name not in _SIZES or dtype != "uint8" or (
            _SIZES[name] > 1 and tuple(shape[-1:]) != (_SIZES[name],)):
        raise ValueError(text)
    return name


def of_name(name):
    """NumPy's dtype of this name; TypeError if it has none here."""
    if name in _OF_NAME:
        return _OF_NAME[name]
    if _SIZES.get(name, 0) > 4:
        raise TypeError(name)  # only another kind of machine has it
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        raise TypeError(name) from None


def bytes_of(array):
    """The bytes of an array, as a view of its memory."""
    return array.view(np.uint8) if array.itemsize == 1 else array[..., None].view(np.uint8)


def clean_bytes_of(array):
    """The same, but with zeros in the unused bytes of elements."""
    raw = bytes_of(array)
    if not _X87 or array.dtype not in _LONG:
        return raw
    raw = raw.copy()
    raw.reshape(-1, 16)[:, 10:] = 0
    return raw


def of_bytes(raw, dtype):
    """The array of these bytes, which lie one after the other."""
    array = raw.view(dtype)
    return array if dtype.itemsize == 1 else array[..., 0]
