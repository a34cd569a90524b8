"""Loads the extension with the libraries that it was built with.

TensorFlow gives the whole process its own protobuf, under the names of everybody's. The extension
would call that one, of another version, and crash, where TensorFlow was imported before.
"""

import ctypes
import os
import re
import sys

# A function of protobuf that the extension calls.
_OF_PROTOBUF = "_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi"


class _Place(ctypes.Structure):
    """What dladdr tells of an address."""

    _fields_ = [("library", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _is_global(name):
    try:
        return getattr(ctypes.CDLL(None), name) is not None
    except (AttributeError, OSError):
        return False


def _other_allocator():
    """The library, not the system's, that the process has its memory from, or None."""
    place = _Place()
    try:
        process = ctypes.CDLL(None)
        process.dladdr(ctypes.cast(process.free, ctypes.c_void_p), ctypes.byref(place))
    except (AttributeError, OSError):
        return None
    library = os.path.basename((place.library or b"").decode(errors="replace"))
    # Of a program, its own path is told, also where it only calls the system's.
    return library if ".so" in library and not re.match(r"libc[.-]", library) else None


def load():
    # Only where it is needed: memory checkers and preloaded libraries want to be found first.
    if not hasattr(os, "RTLD_DEEPBIND") or not _is_global(_OF_PROTOBUF):
        from . import _cairn  # noqa: F401
        return
    allocator = _other_allocator()
    if allocator:  # memory of one would be given back to the other
        raise ImportError("cairn cannot be imported after TensorFlow in this process "
                          f"(its memory comes from {allocator}, which was preloaded). "
                          "Import cairn before tensorflow, or do not preload it.")
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
    try:
        from . import _cairn  # noqa: F401
    finally:
        sys.setdlopenflags(flags)


load()
