"""Errors in Python: each is a cairn.Error, and of the built-in class that corresponds to its code."""

import errno
import os

from ._cairn import Error, set_error_maker


class _Told:
    """An error whose text is the library's, and that can be pickled."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""

    def __reduce__(self):
        return _remade, (str(self), dict(vars(self)))


class InvalidArgument(_Told, Error, ValueError):
    """The input cannot be used as it is."""


class MissingKey(_Told, Error, KeyError):
    """A tensor is not there."""


class Unsupported(_Told, Error, NotImplementedError):
    """This build or format cannot serve the request."""


class SystemFailure(_Told, Error, OSError):
    """The operating system refused something; `errno` says what, if that is known."""


class Missing(SystemFailure, FileNotFoundError):
    """A checkpoint or a file is not there."""


class Exists(SystemFailure, FileExistsError):
    """A checkpoint or a file is there already."""


class NoAnswer(SystemFailure, TimeoutError):
    """The storage does not answer."""


class NotPermitted(SystemFailure, PermissionError):
    """The operating system does not permit it."""


class NoDirectory(SystemFailure, NotADirectoryError):
    """What should be a directory is none."""


class IsDirectory(SystemFailure, IsADirectoryError):
    """What should be a file is a directory."""


_BY_NUMBER = {errno.ENOENT: Missing, errno.EEXIST: Exists, errno.EACCES: NotPermitted,
              errno.EPERM: NotPermitted, errno.ENOTDIR: NoDirectory, errno.EISDIR: IsDirectory,
              errno.ETIMEDOUT: NoAnswer}
_BY_WORDS = {os.strerror(number): number for number in sorted(errno.errorcode, reverse=True)}
_OF_CODE = {"not_found": errno.ENOENT, "already_exists": errno.EEXIST, "no_space": errno.ENOSPC,
            "unavailable": errno.ETIMEDOUT}


def _number(code, reason):
    """The errno of a message of the system. It is found by the text, since ranks send errors as texts."""
    if code in ("io", "no_space", "unavailable"):
        said = [words for words in _BY_WORDS if words in reason]
        if said:
            return _BY_WORDS[max(said, key=len)]  # some messages begin with others
    return _OF_CODE.get(code)


def made(text, code, reason="", tensor=""):
    """An error of the class that corresponds to its code."""
    if code == "invalid_argument":
        return InvalidArgument(text)
    if code == "unsupported":
        return Unsupported(text)
    if code == "not_found" and tensor:
        return MissingKey(text)
    if code not in ("io", *_OF_CODE):
        return Error(text)
    number = _number(code, reason)
    error = _BY_NUMBER.get(number, SystemFailure)(text)
    if number is not None:
        error.errno, error.strerror = number, os.strerror(number)
    return error


def _remade(text, fields):
    error = made(text, fields.get("code"), fields.get("reason", ""), fields.get("tensor", ""))
    error.__dict__.update(fields)
    return error


set_error_maker(made)
