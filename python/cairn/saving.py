"""Turns the values of a state into the tensors of a save."""

import collections.abc
import enum

import numpy as np

from . import dtypes, keys, own, strangers, texts
from ._cairn import State
from .cursor import Cursor
from .forms import ARRAYS, BY_NUMBER, MAPPINGS, NAME, PARTS, PLAIN, SEQUENCES, SETS, SHARDED, TIES, Forms
from .keys import is_name
from .leaves import Described, Parts, Resizable, _error, as_array, as_bytes, json_of

NUMBERS = {bool: "bool", int: "int", float: "float", complex: "complex"}
DTYPES = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}
NATURAL = ("bool", "int64", "uint64", "float64", "complex128")  # scalars of these are Python numbers
NOTHING = np.zeros(0, np.uint8)  # stands for a value without a tensor


def kind_of_all(values):
    """The class of the numbers or texts in a list or tuple, if it is the same for all; else None."""
    kind = type(values[0]) if values else None
    if kind in NUMBERS or kind in (str, bytes):
        return kind if all(type(one) is kind for one in values) else None
    return None


def as_numbers(values, kind):
    """An array of numbers of one class; None if one does not fit."""
    try:
        return np.array(values, DTYPES[kind])
    except OverflowError:
        return None


def require_dict(values):
    if not isinstance(values, collections.abc.Mapping):
        raise _error("state", f"it is a {type(values).__name__}", "Give a dict.")


def below(path, name):
    if not is_name(name):
        if type(name) is str:
            as_bytes(path or "state", name)
        elif type(name) is not int:
            raise _error(path or "state", f"it has the key {name!r}, a {type(name).__name__}",
                         "Keys are texts; with values of Python and whole arrays also numbers, None, dates, "
                         "members of enumerations, and tuples of these.")
    return f"{path}/{name}" if path else str(name)


def _kind_of_dict(value):
    """The kind of a dict whose keys can be the names of its tensors; None if they cannot."""
    kind = MAPPINGS.get(type(value), "mapping")
    if not all(map(is_name, value)):
        return None
    if all(type(name) is str and name != "" and "/" not in name for name in value):
        return kind
    return f"{kind} of int" if all(type(name) is int for name in value) else None


class Kinds:
    """Tells what the values of a state consist of. Subclasses know more kinds."""

    _MODULE = "cairn"

    def _holds(self, value):
        if value is None or type(value) in NUMBERS or type(value) in (str, bytes):
            return PLAIN
        if isinstance(value, (np.generic, enum.Enum)) or type(value) in texts.KINDS:
            return PLAIN
        if type(value) in SETS:
            return PLAIN if all(self._holds(one) == PLAIN for one in value) else PARTS
        if isinstance(value, collections.abc.Mapping):
            if not all(map(is_name, value)) and not all(map(keys.is_key, value)):
                return PARTS
            return max(map(self._holds, value.values()), default=PLAIN)
        if isinstance(value, list) or type(value) in SEQUENCES or own.is_named_tuple(value):
            if kind_of_all(value):
                return PLAIN
            return max(map(self._holds, value), default=PLAIN)
        if own.is_dataclass(value):
            return max(map(self._holds, own.Fields(value).values()), default=PLAIN)
        return self._holds_leaf(value)

    def _holds_leaf(self, value):
        return ARRAYS if isinstance(value, np.ndarray) else PARTS


class Saving(Kinds, Parts):
    """A native state that refers to the values of a dict.

    Numbers and texts are copied into it. Each value that is no dict with arrays is described by its
    form, so that a restore brings back what was saved. Values without a form are refused.
    """

    def __init__(self, values):
        require_dict(values)
        self.native = State()
        self._texts = 0
        self._ties = {}  # by the key of a tensor: keys of tensors with the same memory, which are left out
        self._in_dict = False
        self._said = {}  # descriptions of tensors and groups, as State.describe takes them
        self._add_all("", values)
        of_all = {NAME: json_of(NAME, self._MODULE)}
        for key, tied in self._ties.items():
            of_all[TIES] = json_of(TIES, True)
            self._said.setdefault(key, ("", [], [], {}))[3][TIES] = json_of(TIES, tied)
        self.native.describe_all(of_all)
        for key, said in self._said.items():
            self.native.describe(key, *said)

    def _add_all(self, path, container):
        items = list(container.items())
        self._enter(container, [name for name, _ in items])
        for name, value in items:
            self._add(below(path, name), value)
        self._leave()

    def _add(self, key, value):
        if isinstance(value, Described):
            self._never()
            self._said[key] = (value.units, list(value.dimensions), value.coordinates, dict(value.attributes))
            self._add(key, value.value)
            return
        holds = self._holds(value)
        if isinstance(value, collections.abc.Mapping) and holds > ARRAYS:
            self._add_all(key, value)
        elif isinstance(value, collections.abc.Mapping) and _kind_of_dict(value) and (
                holds == ARRAYS or len(value) == 0):
            self._add_dict(key, value)
        elif holds <= ARRAYS:
            self._close(key, value)
        elif isinstance(value, (list, tuple)):
            self._add_open(key, value)
        elif own.is_dataclass(value):
            own.fields_of(key, value)
            self._add_all(key, own.Fields(value))
        else:
            self._add_by_itself(key, value)

    def _add_dict(self, key, value):
        """Adds a dict with arrays, whose keys are the names of its tensors; ranks may have different keys."""
        kind = _kind_of_dict(value)
        before, was = len(self.native), self._in_dict
        self._in_dict = True
        self._add_all(key, value)
        self._in_dict = was
        # A plain dict in another dict needs no form.
        is_plain = was and kind == "dict" and len(value) > 0
        if not is_plain:
            self._say(key, f'"{kind}"')
            if len(self.native) == before:  # no entry, or only entries that are tied to others
                self._add_array(key, NOTHING)

    def _add_open(self, key, value):
        """Adds a list or tuple that is restored into the one of the state, as a dict with arrays is."""
        if type(value) not in SEQUENCES and not isinstance(value, list):
            if any(self._holds(one) == PLAIN for one in value):
                wrong = [type(one).__name__ for one in value if self._holds(one) > ARRAYS]
                if wrong:
                    raise _error(key, f"it is a {type(value).__name__} with plain values and a {wrong[0]}",
                                 "Give a dict of them.")
                self._refuse(key, value)
        self._enter(value)
        for number, one in enumerate(value):
            self._add(f"{key}/{number}", one)
        self._leave()

    def _add_by_itself(self, key, value):
        """Adds a value that is none of Python's own."""
        if isinstance(value, Cursor):
            self._note_same(value)
            self.native.add_cursor(key, value._native)
            return
        self._never()
        if isinstance(value, Resizable) and isinstance(value.value, list):
            if any(not isinstance(one, (str, bytes)) for one in value.value):
                raise _error(key, "it is no list of texts", "Give an array of numbers, or texts.")
            if any(isinstance(one, bytes) for one in value.value):
                self._say(key, f'"{self._kind_of_texts(key, "list", value.value)}"')
            self._add_texts(key, [as_bytes(key, one) for one in value.value], False, True)
        else:
            if isinstance(value, (int, float, complex, str, bytes)) and type(value) not in NUMBERS:
                self._refuse(key, value)
            self._add_part(key, value)

    def _close(self, key, value, made=False):
        """Adds a value that a restore makes anew as it is now."""
        forms = Forms()
        before = len(self.native)
        self._form(forms, key, value, made)
        if len(self.native) == before:
            if self._holds_leaf(value) != PARTS:
                return  # the tensor to which it is tied is saved
            self._add_array(key, NOTHING)
        text = forms.text(key)
        if made or not self._is_told(key, text, value):
            self._say(key, text)

    def _say(self, key, text, name=NAME):
        self._said.setdefault(key, ("", [], [], {}))[3][name] = text

    def _is_told(self, key, text, value):
        """Whether dtype and shape alone determine the form."""
        if text == '"numpy"':
            return value.dtype.name not in NATURAL
        if text == '"array"':
            return value.ndim > 0
        return text in ('"bool"', '"int"', '"float"', '"complex"', '"str"')

    def _form(self, forms, key, value, made):
        """Adds the value's tensors. Returns the number of its form. `made`: a restore makes it anew."""
        kind = type(value)
        if value is None:
            self._note_same(value)
            self._add_array(key, NOTHING)
            return forms.number("None")
        if kind in NUMBERS:
            return forms.number(self._form_number(key, value))
        if kind in texts.KINDS:
            return forms.number(self._form_text(key, *texts.text_of(key, value)))
        if isinstance(value, enum.Enum):
            self._note_same(value)
            word, text = own.member_of(key, value)
            self._add_texts(key, [as_bytes(key, text)], True, False)
            return forms.number(word)
        if isinstance(value, np.character):
            self._refuse(key, value)
        if isinstance(value, np.generic):
            self._add_held(key, value, np.array(value))
            return forms.number("numpy")
        if kind in (str, bytes):
            self._note_texts(value)
            self._add_texts(key, [as_bytes(key, value)], True, False)
            return forms.number(kind.__name__)
        if kind in SEQUENCES or isinstance(value, list) and not made:
            return self._form_sequence(forms, key, value)
        if own.is_named_tuple(value):
            return self._form_parts(forms, key, f"namedtuple {own.name_of(kind)}", value)
        if isinstance(value, collections.abc.Mapping):
            return self._form_mapping(forms, key, value, made)
        if own.is_dataclass(value):
            self._never()
            return self._form_entries(forms, key, f"dataclass {own.name_of(kind)}",
                                      own.fields_of(key, value), True)
        leaf = self._form_leaf(key, value, made)
        if leaf is None:
            self._refuse(key, value)
        return forms.number(leaf)

    def _form_number(self, key, value):
        if type(value) is int and not -(2**63) <= value < 2**64:
            return self._form_text(key, "big int", hex(value))
        self._add_held(key, value, as_array(key, value))
        return NUMBERS[type(value)]

    def _form_text(self, key, kind, text):
        self._never()
        self._add_texts(key, [as_bytes(key, text)], True, False)
        return kind

    def _form_sequence(self, forms, key, value):
        name = SEQUENCES.get(type(value), "list")
        if type(value) in SETS:  # in an order that is the same on all ranks
            self._never()
            value = keys.in_order(value)
        kind = kind_of_all(value)
        if kind in (str, bytes):
            self._note_texts(value)
            self._add_texts(key, [as_bytes(key, one) for one in value], False, False)
            return forms.number(self._kind_of_texts(key, name, value))
        array = None if kind is None else as_numbers(value, kind)
        if array is not None:
            self._add_held(key, value, array)
            return forms.number(name)
        return self._form_parts(forms, key, name, value)

    def _form_parts(self, forms, key, name, value):
        self._enter(value)
        parts = [self._form(forms, f"{key}/{number}", one, True) for number, one in enumerate(value)]
        self._leave()
        return forms.number((name, *parts))

    def _kind_of_texts(self, key, name, values):
        kind = kind_of_all(values)
        if kind is None:
            raise _error(key, "it has str and bytes", "Give one of them.")
        return name if kind is str else f"{name} of bytes"

    def _form_mapping(self, forms, key, value, made):
        name = MAPPINGS.get(type(value), None if made else "mapping")
        if name is None:
            raise _error(key, f"it is a {type(value).__name__}", "Give dict(value).")
        items = list(value.items())
        if not all(map(is_name, value)) or len({str(one) for one in value}) < len(items):
            return self._form_by_number(forms, key, name, items, made)
        self._enter(value, [one for one, _ in items], ordered=True)
        node = self._form_entries(forms, key, name, items, made)
        self._leave()
        return node

    def _form_entries(self, forms, key, name, items, made):
        parts = [(one, self._form(forms, below(key, one), part, made)) for one, part in items]
        return forms.number((name, *parts))

    def _form_by_number(self, forms, key, name, items, made):
        self._never()
        wrong = [one for one, _ in items if not keys.is_key(one)]
        if wrong:
            below(key, wrong[0])
        parts = [(keys.code(key, one), self._form(forms, f"{key}/{number}", part, made))
                 for number, (one, part) in enumerate(items)]
        return forms.number((name + BY_NUMBER, *parts))

    def _form_leaf(self, key, value, made):
        """Adds an array and returns its kind; None if a restore could not make it anew."""
        if not isinstance(value, np.ndarray):
            return None
        self._add_array_of_theirs(key, value)
        return "array"

    def _refuse(self, key, value):
        kind = type(value).__name__
        for known in (*NUMBERS, str, bytes):
            if isinstance(value, known):
                raise _error(key, f"it is a {kind}, and would come back as {known.__name__}",
                             f"Give {known.__name__}(value).")
        raise _error(key, *strangers.refusal(value, "Give a number, a text, an array, or a dict, a list or a tuple of "
                                             "these."))

    # -- how each is added, and noted for the next save of the same form ----------------------------

    def _add_array(self, key, array):
        self.native.add(key, [(self._raw(key, array)[0], None, None)], "automatic")

    _bytes_of = staticmethod(dtypes.clean_bytes_of)

    def _note_dtype(self, key, dtype, name):
        if name is None:
            return False
        self._never()
        _, dimensions, _, attributes = self._said.setdefault(key, ("", [], [], {}))
        attributes[dtypes.NAME] = json_of(dtypes.NAME, name)
        if dimensions and dtypes.more_of(name) and "bytes" not in dimensions:
            dimensions.append("bytes")
        return True

    def _add_array_of_theirs(self, key, array):
        self._add_array(key, array)

    def _add_held(self, key, value, array):
        """Adds a number or several numbers; `array` is a copy of them."""
        self._add_array(key, array)

    def _add_texts(self, key, texts, scalar, resizes):
        self.native.add_strings(key, texts, scalar, resizes)
        self._texts += 1

    def _enter(self, container, keys=None, ordered=False):
        pass

    def _leave(self):
        pass

    def _note_same(self, value):
        pass

    def _note_texts(self, value):
        pass

    def _never(self):
        """Called for values that the next save cannot update in place: it makes the whole state anew."""
