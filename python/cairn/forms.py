"""What Python's values were when they were saved, so that they come back as that.

A checkpoint says it of the tensor that holds a value, or of the group of tensors that do, in the
attribute NAME. It is a kind, such as "None", or a list of nodes, of which the last one is the value: a
node is a kind, or a list of a kind and what it consists of, by its place among the nodes.

    "None"
    ["float", ["tuple", 0, 0], "int", ["dict", ["betas", 1], [7, 2]]]

A kind by itself has one tensor, under the path of its value; entries of a dict lie under PATH/KEY, those
of a list or tuple under PATH/0, PATH/1 and so on. ["same", PLACE] is the tensor that lies under PLACE in
the same value. A dict that has other keys than texts and integers has the word BY_NUMBER in its kind: its keys are
here, as keys.py has them, and its entries lie under PATH/0 and so on. "enum", "flag", "dataclass" and "namedtuple"
are followed by the name of a class (own.py). "dict" by itself is one with arrays, whose keys are
those of the tensors; ranks may have others. "datetime" and the like (texts.py) are a text; "function NAME" is
one that an object has in its state dict, and has itself. Of the whole checkpoint the attribute is the name of
the module that saved it: then what has none is what dtype and shape say, a text, a number of Python, or
an array or tensor of that module's.

The attribute TIES of a tensor has the keys of the other places where it stood, which have no tensor of their
own. Of the whole checkpoint it is true where a tensor has it.

The attribute CLASS of an object that has a state dict has names of its class (torch/classes.py).
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
_MAPPINGS = ("mapping", *MAPPINGS.values())  # the first one: of a class that only a state has
TEXTS = ("str", "bytes")

# What a value consists of, and so who may make it anew.
PLAIN = 0  # numbers, texts, None, and dicts, lists and tuples of these
ARRAYS = 1  # whole arrays or tensors, too
SHARDED = 2  # DTensors, too
PARTS = 3  # what is restored by what the state has


def _most_values(text):
    """That a form may speak of: a node may be a part of many, and those of many again."""
    return 100_000 + 16 * len(text)


class Forms:
    """A form that is being made. Equal nodes are one."""

    def __init__(self):
        self._numbers = {}
        self._values = 0

    def number(self, node):
        """Of a kind, or a tuple of a kind and its parts, which have numbers already."""
        self._values += 1
        return self._numbers.setdefault(node, len(self._numbers))

    def text(self, key):
        """The form of the value whose node came last."""
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
        """Whether it is of a class of the application's, which the word is the kind of."""
        return not self.is_leaf and self.kind.startswith(word + " ")

    @property
    def is_by_number(self):
        """A dict whose keys are no names."""
        return not self.is_leaf and self.kind.endswith(BY_NUMBER)

    @property
    def is_open(self):
        """A dict whose keys are those of the tensors: texts, or integers ("dict of int")."""
        return self.is_leaf and self.kind.partition(" of ")[0] in _MAPPINGS

    @property
    def same(self):
        """The path of a tensor of the same value that this is, too; None: it is one of its own."""
        node = self._nodes[self._number]
        return f"{self._root}/{node[1]}" if self.kind == "same" and not self.is_leaf else None

    def items(self):
        """(key, form) of a dict."""
        return [(key, self._part(number)) for key, number in self._nodes[self._number][1:]]

    def parts(self):
        """Forms of what a list or tuple consists of."""
        parts = self._nodes[self._number][1:]
        return [self._part(one[1] if self.is_by_number else one) for one in parts]

    def codes(self):
        """Of the keys of a dict by number."""
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
    """The form that this attribute says of what is stored under the key."""
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
    """The keys that this attribute has."""
    keys = json.loads(text)
    if not isinstance(keys, list) or not all(isinstance(one, str) for one in keys):
        raise unknown(text, TIES)
    return keys


def _check(node, number):
    """Parts come before what they are parts of."""
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
