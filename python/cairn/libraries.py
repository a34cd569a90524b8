"""Loads the extension with the libraries that it was built with.

TensorFlow gives the whole process its own protobuf, under the names of everybody's. The extension
would call that one, of another version, and crash, where TensorFlow was imported before.
"""

import ctypes
import os
import sys

# A function of protobuf that the extension calls.
_OF_PROTOBUF = "_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi"


def _is_global(name):
    try:
        return getattr(ctypes.CDLL(None), name) is not None
    except (AttributeError, OSError):
        return False


def load():
    # Only where it is needed: memory checkers and preloaded libraries want to be found first.
    if not hasattr(os, "RTLD_DEEPBIND") or not _is_global(_OF_PROTOBUF):
        from . import _cairn  # noqa: F401
        return
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
    try:
        from . import _cairn  # noqa: F401
    finally:
        sys.setdlopenflags(flags)


load()
