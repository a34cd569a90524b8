"""Classes of the application's own: enumerations, dataclasses and named tuples.

A file has the names of classes, but nothing is imported by these names. A restore finds the class at the
object that it fills, at another object of the same state, or in `types=[…]`.
"""

import collections.abc
import dataclasses
import enum
import functools

from .leaves import Described, _error, _refused


def is_dataclass(value):
    """Whether its fields are saved: it is no container, and has no state_dict or DLPack of its own."""
    return (dataclasses.is_dataclass(value) and not isinstance(value, (type, list, tuple))
            and not isinstance(value, collections.abc.Mapping)
            and not hasattr(value, "state_dict") and not hasattr(value, "__dlpack__"))


def is_named_tuple(value):
    return isinstance(value, tuple) and hasattr(value, "_fields") and hasattr(value, "_make")


def is_frozen(value):
    return type(value).__dataclass_params__.frozen


def name_of(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


def field_names(kind):
    return [one.name for one in dataclasses.fields(kind)]


class Fields(collections.abc.MutableMapping):
    """The fields of an object of a dataclass, as a dict."""

    def __init__(self, value):
        self.value = value

    def __getitem__(self, name):
        return getattr(self.value, name)

    def __setitem__(self, name, value):
        setattr(self.value, name, value)

    def __delitem__(self, name):
        delattr(self.value, name)

    def __contains__(self, name):
        return name in field_names(self.value)

    def __iter__(self):
        return (name for name in field_names(self.value) if hasattr(self.value, name))

    def __len__(self):
        return len(list(iter(self)))


def fields_of(key, value):
    """(name, value) of each field. Refuses other attributes of the object, which would be lost."""
    names = field_names(value)
    for name in getattr(value, "__dict__", ()):
        cached = isinstance(getattr(type(value), name, None), functools.cached_property)
        if name not in names and not cached:
            raise _error(key, f"it is a {type(value).__name__} with the attribute {name!r}, which is no "
                         "field", "Make it one, or give a dict.")
    for name in names:
        if not hasattr(value, name):
            raise _error(key, f"the field {name!r} of its {type(value).__name__} has no value",
                         "Give it one.")
    return [(name, getattr(value, name)) for name in names]


def require_fields(key, kind, form, all_of_them=True):
    """Raises unless the saved fields are fields of this class or object, and all of them if required."""
    names = [name for name, _ in form.items()] if form is not None else []
    there = field_names(kind)
    gone = [name for name in names if name not in there]
    new = [name for name in there if name not in names] if all_of_them else []
    kind = name_of(kind if isinstance(kind, type) else type(kind))
    if gone:
        raise _error(key, f"{kind} has no field {_list(gone)}, which was saved",
                     "Give the class that it had in types=[…], or restore into an object of it.")
    if new:
        missing = ", ".join(f"'{key}/{name}'" for name in new)
        raise _error(key, f"{kind} has the field {_list(new)}, which was not saved",
                     f"Restore into an object of it, whose value stays, with may_be_missing=[{missing}].")


def _list(names):
    return ", ".join(map(repr, names))


def empty(key, kind):
    """An object without fields, made without running code of the application."""
    try:
        return kind.__new__(kind)
    except TypeError as error:
        raise _error(key, f"no {name_of(kind)} can be made without arguments: {error}",
                     "Restore into one.") from None


def filled(made, fields):
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def member_of(key, value):
    """The kind and text of a member of an enumeration."""
    kind = type(value)
    if isinstance(value, enum.Flag):
        word, text, make = "flag", str(value.value), lambda: kind(value.value)
    else:
        word, text, make = "enum", value.name, lambda: kind[value.name]
    try:
        back = make()
    except (KeyError, ValueError):
        back = None
    if back is not value and back != value or type(back) is not kind:
        raise _error(key, f"it is {value!r}, and would come back as {back!r}", "Give its value.")
    return f"{word} {name_of(kind)}", text


_BASES = {"enum": enum.Enum, "flag": enum.Flag}


def is_member_kind(kind):
    return kind.partition(" ")[0] in _BASES


def made_member(key, word, kind, text):
    try:
        return kind(int(text)) if word == "flag" else kind[text]
    except (KeyError, ValueError):
        raise _error(key, f"{name_of(kind)} has no member {text!r}", "Give it one.") from None


def _is_of(word, kind):
    if word in _BASES:
        return issubclass(kind, _BASES[word]) and (word == "flag" or not issubclass(kind, enum.Flag))
    if word == "dataclass":
        return dataclasses.is_dataclass(kind)
    return word == "namedtuple" and issubclass(kind, tuple) and hasattr(kind, "_fields")


class Lacking(Exception):
    """Raised if a class is not known."""


class Classes:
    """The classes that a restore knows: `types` of the call, and those in its state."""

    def __init__(self, values, types=()):
        self._values, self._given = [values], _checked(types)
        self._there = None
        self._lacking = []

    def see(self, values):
        """Adds values that the restore fills, to find classes in them."""
        self._values.append(values)
        self._there = None

    def find(self, key, kind, *present):
        """The class of this kind, a word and a name; `present` are the objects at its place. None if it
        is not known; then require_all() raises."""
        word, _, name = kind.partition(" ")
        of_value = list(dict.fromkeys(map(type, present)))
        for some in (lambda: of_value, lambda: self._given, self._in_state):
            fitting = [one for one in some() if _is_of(word, one)]
            found = [one for one in fitting if name_of(one) == name] or [
                one for one in fitting if name.endswith(f".{one.__qualname__}")]
            if len(found) > 1:
                raise _error(key, f"it was of the class {name}, and {len(found)} here are called so",
                             "Give the one in types=[…].")
            if found:
                return found[0]
        self._lacking.append((key, name))
        return None

    def require_all(self):
        """Raises if find() has not found a class."""
        lacking, self._lacking = self._lacking, []
        if not lacking:
            return
        key, name = lacking[0]
        names = list(dict.fromkeys(name for _, name in lacking))
        if len(names) == 1:
            raise _error(key, f"it was of the class {name}, and nothing here tells which one that is",
                         "Restore into a value of this class, or give types=[…] with it.")
        first = {name: key for key, name in reversed(lacking)}
        raise _refused(f"{len(names)} classes of what is stored are not known",
                       "nothing here tells which ones these are: "
                       + ", ".join(f"{name} ('{first[name]}')" for name in names),
                       "Restore into values of these classes, or give types=[…] with them.", key)

    def _in_state(self):
        if self._there is None:
            self._there, seen, left = {}, set(), list(self._values)
            while left:
                value = left.pop()
                if id(value) in seen:
                    continue
                seen.add(id(value))
                if isinstance(value, collections.abc.Mapping):
                    left += [*value, *value.values()]
                elif isinstance(value, (list, tuple, set, frozenset)):
                    left += value
                elif is_dataclass(value):
                    left += [getattr(value, name, None) for name in field_names(value)]
                elif isinstance(value, Described):
                    left.append(value.value)
                if isinstance(value, enum.Enum) or is_dataclass(value) or is_named_tuple(value):
                    self._there[type(value)] = None
        return list(self._there)


def _checked(types):
    if isinstance(types, type):
        types = [types]
    for one in types:
        if not isinstance(one, type) or not any(
                _is_of(word, one) for word in ("enum", "flag", "dataclass", "namedtuple")):
            raise _refused("types cannot be used", f"{one!r} is no class of an enumeration, no "
                           "dataclass and no named tuple", "Give classes of these.")
    return list(dict.fromkeys(types))
