"""Values that are stored as a text and come back as what they were."""

import datetime
import re
import types

import numpy as np

from .leaves import _error

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def _timedelta(text):
    days, seconds, microseconds = map(int, text.split())
    return datetime.timedelta(days, seconds, microseconds)


def _of_numpy_time(value):
    return f"{value.dtype.str[1:]} {value.astype(np.int64)}"


def _numpy_time(text):
    found = re.fullmatch(r"([Mm]8(?:\[\d*[a-zA-Zμ]{1,2}\])?) (-?\d+)", text)
    if found is None:
        raise ValueError("it is no time of NumPy")
    try:
        return np.array(int(found[2]), np.int64).view(found[1])[()]
    except (OverflowError, TypeError) as error:
        raise ValueError(error) from None


# For each class: its name in a form, a function that gives its text, and one that makes it from the text.
KINDS = {
    datetime.datetime: ("datetime", datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    datetime.date: ("date", datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.isoformat, datetime.time.fromisoformat),
    datetime.timedelta: ("timedelta", lambda one: f"{one.days} {one.seconds} {one.microseconds}",
                         _timedelta),
    np.str_: ("numpy.str_", str, np.str_),
    np.bytes_: ("numpy.bytes_", lambda one: bytes(one).decode("latin-1"),
                lambda text: np.bytes_(text.encode("latin-1"))),
    np.datetime64: ("numpy.datetime64", _of_numpy_time, _numpy_time),
    np.timedelta64: ("numpy.timedelta64", _of_numpy_time, _numpy_time),
}
_OF_NAME = {"big int": lambda text: int(text, 16)}


def text_of(key, value):
    """The kind and text of a value of one of these classes. A value that would come back as another
    one, such as a time in a zone with a name, is refused."""
    kind, text, make = KINDS[type(value)]
    said = text(value)
    try:
        back = make(said)
    except ValueError:
        back = None
    if type(back) is not type(value) or repr(back) != repr(value):
        raise _error(key, f"it is {value!r}, and would come back as {back!r}", "Give a text of it.")
    return kind, said


def made_of(key, kind, text):
    """The value of this kind and text."""
    try:
        return _of_name()[kind](text)
    except ValueError as error:
        raise _error(key, f"its text {text!r} is no {kind}: {error}", "Read it by cairn.open.") from None


def is_kind(kind):
    return kind in _of_name()


def _of_name():
    if len(_OF_NAME) <= len(KINDS):
        _OF_NAME.update({name: make for name, _, make in KINDS.values()})
    return _OF_NAME


def name_of(function):
    """The name of a function of a module or class; None if it has none, such as a lambda."""
    name = f"{getattr(function, '__module__', None)}.{function.__qualname__}"
    return None if "<" in name or name.startswith("None.") else name
