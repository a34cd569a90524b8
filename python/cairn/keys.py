"""Keys of dicts that are neither texts nor integers of 64 bits: they become JSON in the form of the dict."""

import enum

import numpy as np

from . import own, texts
from ._cairn import Error
from .leaves import _error, as_bytes


def is_name(key):
    """Whether the key can be a part of a path."""
    if type(key) is str:
        return key.isascii() or _is_whole(key)
    return type(key) is int and -(2**63) <= key < 2**63


def _is_whole(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_key(key):
    """Whether the key has a code."""
    if key is None or isinstance(key, enum.Enum):
        return True
    if type(key) in (tuple, frozenset):
        return all(map(is_key, key))
    return type(key) in (bool, int, float, complex, str, bytes, *texts.KINDS) or (
        isinstance(key, np.generic) and key.dtype.kind in "biufc" and type(key).__module__ == "numpy")


def in_order(values):
    """The elements of a set in an order that is the same on all ranks, whose hashes may differ."""
    return sorted(values, key=_order)


def _order(value):
    if type(value) in (tuple, frozenset):
        parts = list(map(_order, value))
        return type(value).__name__, repr(parts if type(value) is tuple else sorted(parts))
    return type(value).__name__, repr(value)


def code(path, key):
    """The code of a key, for JSON. Keys that are equal but of different classes have different codes."""
    kind = type(key)
    if key is None or is_name(key):
        return key
    if kind is bool:
        return ("bool", int(key))
    if isinstance(key, enum.Enum):
        return own.member_of(path, key)
    if kind is tuple:
        return ("tuple", *(code(path, one) for one in key))
    if kind is frozenset:
        return ("frozenset", *(code(path, one) for one in in_order(key)))
    if kind is int:
        return "big int", hex(key)
    if kind is float:
        return "float", key.hex()
    if kind is complex:
        return "complex", key.real.hex(), key.imag.hex()
    if kind is str:
        return "str", as_bytes(path, key).decode("latin-1")
    if kind is bytes:
        return "bytes", key.decode("latin-1")
    if kind in texts.KINDS:
        return texts.text_of(path, key)
    return "numpy", key.dtype.name, key.tobytes().hex()


def made(path, code, class_of):
    """The key of this code. `class_of` finds a class of the application's own by its kind."""
    if not isinstance(code, list):
        if code is None or type(code) in (str, int):
            return code
        raise _unknown(path, code)
    try:
        return _made(path, code[0], code[1:], class_of)
    except Error:
        raise
    except (IndexError, TypeError, ValueError, AttributeError):
        raise _unknown(path, code) from None


def _made(path, kind, parts, class_of):
    if kind in ("tuple", "frozenset"):
        each = [made(path, one, class_of) for one in parts]
        return tuple(each) if kind == "tuple" else frozenset(each)
    if kind == "bool":
        return bool(parts[0])
    if kind == "float":
        return float.fromhex(parts[0])
    if kind == "complex":
        return complex(*map(float.fromhex, parts))
    if kind in ("str", "bytes"):
        raw = parts[0].encode("latin-1")
        return raw if kind == "bytes" else raw.decode("utf-8", "surrogateescape")
    if kind == "numpy":
        dtype = np.dtype(parts[0])
        if dtype.kind in "biufc":
            return np.frombuffer(bytes.fromhex(parts[1]), dtype)[0]
    elif own.is_member_kind(kind):
        return own.made_member(path, kind.partition(" ")[0], class_of(kind), parts[0])
    elif texts.is_kind(kind):
        return texts.made_of(path, kind, parts[0])
    raise ValueError


def _unknown(path, code):
    return _error(path, f"its key {code!r} is not understood", "Read it by cairn.open.")
