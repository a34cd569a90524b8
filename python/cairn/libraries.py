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


class _Loaded(ctypes.Structure):
    """The beginning of what dl_iterate_phdr tells of a library."""

    _fields_ = [("base", ctypes.c_void_p), ("name", ctypes.c_char_p)]


def _loaded_libraries(process):
    """Their paths, in the order in which names are looked up; the program has none."""
    paths = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)
    def found(library, size, given):
        paths.append((library.contents.name or b"").decode(errors="surrogateescape"))
        return 0

    process.dl_iterate_phdr(found, None)
    return [path for path in paths if path]


def _library_of(process, function):
    """The path of the library, or of the program, that an address of a function leads to."""
    place = _Place()
    process.dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(place))
    return (place.library or b"").decode(errors="surrogateescape")


def _has_free(process, path):
    """Whether it is the library's own, and not one that it calls."""
    free = getattr(ctypes.CDLL(path, mode=os.RTLD_NOLOAD), "free", None) if os.path.exists(path) else None
    return free is not None and _library_of(process, free) == path


def _other_allocator():
    """The library, not the system's, that the process has its memory from, or None."""
    try:
        process = ctypes.CDLL(None)
        library = _library_of(process, process.free)
        # A program at a fixed place, as Debian's Python is, stands for the functions that it calls.
        if ".so" not in os.path.basename(library):
            library = next((path for path in _loaded_libraries(process) if _has_free(process, path)), "")
    except (AttributeError, OSError):
        return None
    library = os.path.basename(library)
    # A program may have an allocator built in, which is told nowhere.
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
