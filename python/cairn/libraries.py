"""Loads the extension with the libraries that it was built with.

TensorFlow exports its own protobuf to the whole process, under the usual names. If TensorFlow was imported
before, the extension would call this protobuf of another version, and crash.
"""

import ctypes
import os
import re
import sys

# A function of protobuf that the extension calls.
_OF_PROTOBUF = "_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi"


class _Place(ctypes.Structure):
    """The result of dladdr for an address."""

    _fields_ = [("library", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _is_global(name):
    try:
        return getattr(ctypes.CDLL(None), name) is not None
    except (AttributeError, OSError):
        return False


class _Loaded(ctypes.Structure):
    """The beginning of the struct that dl_iterate_phdr passes for a library."""

    _fields_ = [("base", ctypes.c_void_p), ("name", ctypes.c_char_p)]


def _loaded_libraries(process):
    """The paths of loaded libraries, in the order in which names are looked up; the program has none."""
    paths = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)
    def found(library, size, given):
        paths.append((library.contents.name or b"").decode(errors="surrogateescape"))
        return 0

    process.dl_iterate_phdr(found, None)
    return [path for path in paths if path]


def _library_of(process, function):
    """The path of the library or program that has the address of a function."""
    place = _Place()
    process.dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(place))
    return (place.library or b"").decode(errors="surrogateescape")


def _has_free(process, path):
    """Whether the library has a free() of its own, instead of calling another library's."""
    free = getattr(ctypes.CDLL(path, mode=os.RTLD_NOLOAD), "free", None) if os.path.exists(path) else None
    return free is not None and _library_of(process, free) == path


def _other_allocator():
    """The library, other than the system's, from which the process allocates memory, or None."""
    try:
        process = ctypes.CDLL(None)
        library = _library_of(process, process.free)
        # In a program at a fixed address, such as Debian's Python, functions that it calls have
        # addresses of its own.
        if ".so" not in os.path.basename(library):
            library = next((path for path in _loaded_libraries(process) if _has_free(process, path)), "")
    except (AttributeError, OSError):
        return None
    library = os.path.basename(library)
    # A program may have an allocator built in, which nothing here shows.
    return library if ".so" in library and not re.match(r"libc[.-]", library) else None


def load():
    # Deep binding only if it is needed: memory checkers and preloaded libraries must be found first.
    if not hasattr(os, "RTLD_DEEPBIND") or not _is_global(_OF_PROTOBUF):
        from . import _cairn  # noqa: F401
        return
    allocator = _other_allocator()
    if allocator:  # memory of one allocator would be freed by the other
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
