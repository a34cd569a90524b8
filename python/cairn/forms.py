"""Forms describe Python's values when they were saved, so that they come back as the same values.

The attribute NAME of the tensor that holds a value, or of the group of tensors that do, has the form. It
is a kind, such as "None", or a list of nodes, of which the last one is the value. A node is a kind, or a
list of a kind and its parts, given by the numbers of earlier nodes.

    "None"
    ["float", ["tuple", 0, 0], "int", ["dict", ["betas", 1], [7, 2]]]

A kind by itself has one tensor, under the path of its value; entries of a dict lie under PATH/KEY, those
of a list or tuple under PATH/0, PATH/1 and so on. ["same", PLACE] is the tensor that lies under PLACE in
the same value. A dict that has other keys than texts and integers has the word BY_NUMBER in its kind: the
form has its keys, as codes of keys.py, and its entries lie under PATH/0 and so on. "enum", "flag",
"dataclass" and "namedtuple" are followed by the name of a class (own.py). "dict" by itself is a dict with
arrays, whose keys are in the names of the tensors; ranks may have different keys. "datetime" and the like
(texts.py) are stored as a text. "function NAME" is a function in the state dict of an object that has it
itself. The whole checkpoint has the name of the module that saved it in this attribute. Then values without
a form are what dtype and shape say: a text, a number of Python, or an array or tensor of that module.

The attribute TIES of a tensor has the keys of the other places where it was, which have no tensor of their
own. The whole checkpoint has it, with the value true, if a tensor has it.

The attribute CLASS of an object with a state dict has names of its class (torch/classes.py).
"""

import collections
import json

from .leaves import _error, _refused

NAME = "cairn.python"
TIES = "cairn.ties"
CLASS = "cairn.class"
SETS = {set: "set", frozenset: "frozenset"}
SEQUENCES = {list: "list", tuple: "tuple", **SETS}
MAPPINGS = {dict: "dict", collections.OrderedDict: "OrderedDict", collections.Counter: "Counter"}
BY_NUMBER = " by number"
_MAPPINGS = ("mapping", *MAPPINGS.values())  # the first: a class that only the state has
TEXTS = ("str", "bytes")

# What a value consists of, which decides who may make it anew.
PLAIN = 0  # numbers, texts, None, and dicts, lists and tuples of these
ARRAYS = 1  # whole arrays or tensors, too
SHARDED = 2  # DTensors, too
PARTS = 3  # values that are restored into those of the state


def _most_values(text):
    """The most values in a form: a node may be a part of many nodes, and these of many again."""
    return 100_000 + 16 * len(text)


class Forms:
    """A form that is being made. Equal nodes are one."""

    def __init__(self):
        self._numbers = {}
        self._values = 0

    def number(self, node):
        """The number of a node: a kind, or a tuple of a kind and its parts, which have numbers already."""
        self._values += 1
        return self._numbers.setdefault(node, len(self._numbers))

    def text(self, key):
        """The form of the value whose node was added last."""
        nodes = list(self._numbers)
        alone = len(nodes) == 1 and isinstance(nodes[0], str)
        text = json.dumps(nodes[0] if alone else nodes, separators=(",", ":"), ensure_ascii=False)
        if self._values > _most_values(text):
            raise _error(key, f"it consists of {self._values} lists, dicts and single values",
                         "Give arrays of them.")
        return text


class Form:
    """The form of a value that is stored."""

    def __init__(self, nodes, number, left, root):
        self._nodes, self._number, self._left, self._root = nodes, number, left, root
        node = nodes[number]
        self.is_leaf = isinstance(node, str)
        self.kind = node if self.is_leaf else node[0]

    @property
    def is_mapping(self):
        return not self.is_leaf and _is_mapping(self.kind)

    def is_of(self, word):
        """Whether it is of a class of the application, of the kind that the word says."""
        return not self.is_leaf and self.kind.startswith(word + " ")

    @property
    def is_by_number(self):
        """Whether it is a dict whose keys are no names."""
        return not self.is_leaf and self.kind.endswith(BY_NUMBER)

    @property
    def is_open(self):
        """Whether it is a dict whose keys are in the names of tensors: texts, or integers ("dict of int")."""
        return self.is_leaf and self.kind.partition(" of ")[0] in _MAPPINGS

    @property
    def same(self):
        """The path of the tensor in the same value that this is, too; None if it has one of its own."""
        node = self._nodes[self._number]
        return f"{self._root}/{node[1]}" if self.kind == "same" and not self.is_leaf else None

    def items(self):
        """(key, form) of a dict."""
        return [(key, self._part(number)) for key, number in self._nodes[self._number][1:]]

    def parts(self):
        """The forms of the elements of a list or tuple."""
        parts = self._nodes[self._number][1:]
        return [self._part(one[1] if self.is_by_number else one) for one in parts]

    def codes(self):
        """The codes of the keys of a dict by number."""
        return [one[0] for one in self._nodes[self._number][1:]]

    def is_like(self, other):
        """Whether both consist of the same kinds under the same keys."""
        if self.is_leaf or other.is_leaf:
            return self.is_leaf and other.is_leaf and self.kind == other.kind
        node, its = self._nodes[self._number], other._nodes[other._number]
        if self.kind != other.kind or len(node) != len(its):
            return False
        if self.kind == "same":
            return node == its
        if self.is_by_number and self.codes() != other.codes():
            return False
        if not self.is_mapping:
            return all(one.is_like(another) for one, another in zip(self.parts(), other.parts()))
        parts, others = dict(self.items()), dict(other.items())
        return parts.keys() == others.keys() and all(
            one.is_like(others[key]) for key, one in parts.items())

    def _part(self, number):
        self._left[0] -= 1
        if self._left[0] < 0:
            raise unknown("it speaks of more values than anybody has")
        return Form(self._nodes, number, self._left, self._root)


DICT = Form(["dict"], 0, [0], "")


def _is_mapping(kind):
    return kind in _MAPPINGS or kind.startswith("dataclass ")


def read(text, key):
    """The form in this attribute, of the value that is stored under the key."""
    nodes = json.loads(text)
    if isinstance(nodes, str):
        nodes = [nodes]
    if not isinstance(nodes, list) or not nodes:
        raise unknown(text)
    for number, node in enumerate(nodes):
        if not isinstance(node, str):
            _check(node, number)
    return Form(nodes, len(nodes) - 1, [_most_values(text)], key)


def read_ties(text):
    """The keys in this attribute."""
    keys = json.loads(text)
    if not isinstance(keys, list) or not all(isinstance(one, str) for one in keys):
        raise unknown(text, TIES)
    return keys


def _check(node, number):
    """Raises for a bad node. The parts of a node come before it."""
    if not isinstance(node, list) or not node or not isinstance(node[0], str):
        raise unknown(json.dumps(node))
    if node[0] == "same":
        if len(node) != 2 or not isinstance(node[1], str):
            raise unknown(json.dumps(node))
        return
    is_mapping, is_by_number = _is_mapping(node[0]), node[0].endswith(BY_NUMBER)
    for part in node[1:]:
        if is_mapping or is_by_number:
            if not isinstance(part, list) or len(part) != 2 or (
                    is_mapping and type(part[0]) not in (str, int)):
                raise unknown(json.dumps(part))
            part = part[1]
        if type(part) is not int or not 0 <= part < number:
            raise unknown(json.dumps(node))


def unknown(what, name=NAME):
    return _refused(f"the attribute {name} of a tensor is not understood", what,
                    "A later version of Cairn may have written it.", code="unsupported")
