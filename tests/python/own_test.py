"""Classes of the application's own in a state: enumerations, dataclasses, named tuples."""

import collections
import copy
import dataclasses
import enum
import os
import subprocess
import sys

import cairn
import numpy as np
from case import BUILT, Case

Pair = collections.namedtuple("Pair", "first second")


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Word(str, enum.Enum):
    A = "a"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


@dataclasses.dataclass
class Config:
    rate: float = 0.1
    name: str = "x"
    more: object = None
    w: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object = 1

    def __post_init__(self):
        made.append(self.a)


@dataclasses.dataclass(slots=True)
class Slots:
    a: int
    later: int = dataclasses.field(init=False, default=3)


class Outer:
    class Color(enum.Enum):
        RED = object()


made = []  # by the application
TYPES = [Color, Word, Rights, Pair, Config, Frozen, Slots, Outer.Color]
VALUES = [
    Color.RED, Word.A, Rights.READ | Rights.RUN, ~Rights.READ, Rights(0), Outer.Color.RED, [Color.BLUE] * 3,
    Pair(1, "x"), [Pair(1, 2), Pair([None], (Pair(1, 2),))], Config(0.5, "y", Config(1, None), [1, 2]),
    Config(more=Color.RED, w=np.arange(3.0)), Frozen({"x": Word.A}), [Slots(7)], {Color.RED: 1, Word.A: [2]},
    {Frozen(1), Frozen(2)}, {Color.RED, Rights.READ}, {(0, Color.RED): np.ones(2), 1.5: np.zeros(3)},
    {"deep": [{"er": (Config(more=Frozen(a=[Color.RED])),)}]}, collections.OrderedDict([(Color.RED, Color.BLUE)]),
]


class Own(Case):
    def same(self, got, wanted, what):
        self.assertEqual((type(got), repr(got)), (type(wanted), repr(wanted)), what)

    def test_each_comes_back(self):
        saved = {f"{number}": value for number, value in enumerate(VALUES)}
        for form in BUILT:
            self.directory += form
            manager = self.manager(store={"format": form})
            manager.save(1, saved)
            # By the classes given to the call; then by those of the state's values, which may
            # differ.
            count = len(made)
            for into, types in ((dict.fromkeys(saved), TYPES), (copy.deepcopy(saved), ())):
                manager.restore(1, into, types=types)
                for key, value in saved.items():
                    self.same(into[key], value, form)
            self.assertEqual(len(made), count)  # a restore makes nothing by the application's code
        manager.save(2, {"all": [Color.BLUE, None, Pair(1, 2)], "key": {Color.RED: Frozen(2)}})
        state = {"all": None, "key": None, "others": [Color.RED, {"p": Pair(0, 0)}, {Frozen(1)}]}
        manager.restore(2, state, may_be_missing={"others"})
        self.assertEqual((state["all"], state["key"]), ([Color.BLUE, None, Pair(1, 2)], {Color.RED: Frozen(2)}))

    def test_objects_that_are_there_are_changed_in_place(self):
        manager = self.manager()
        manager.save(1, {"c": Config(0.5, "y", {"k": Color.RED}, np.arange(3.0)), "f": Frozen(np.ones(2)),
                         "slice": Config(w=cairn.slice(np.ones(2), (2,), (0,)))})
        config, arrays = Config(w=np.zeros(3)), [np.zeros(2), np.zeros(2)]
        inner = config.w
        frozen, sliced = Frozen(arrays[0]), Config(w=cairn.slice(arrays[1], (2,), (0,)))
        state = {"c": config, "f": frozen, "slice": sliced}
        manager.restore(1, state, types=[Color])
        self.assertIs(state["c"], config)
        self.assertIs(config.w, inner)
        self.same(config, Config(0.5, "y", {"k": Color.RED}, np.arange(3.0)), "")
        self.assertIs(state["f"], frozen)  # its array is filled
        self.assertEqual([one.tolist() for one in arrays], [[1, 1], [1, 1]])
        manager.save(2, {"f": Frozen([1])})
        state = {"f": Frozen()}
        before = state["f"]
        manager.restore(2, state)
        self.assertEqual((state["f"], before), (Frozen([1]), Frozen()))  # a frozen one stays as it is

    def test_what_is_no_field_is_refused(self):
        class Member(enum.Enum):
            @classmethod
            def _missing_(cls, value):
                return cls._made(value)

            @classmethod
            def _made(cls, value):
                made = object.__new__(cls)
                made._name_, made._value_ = None, value
                return made

            ONE = 1

        manager = self.manager()
        more, less = Config(), Slots(1)
        more.extra = 1
        del less.a
        for value, words in [(more, "'extra'"), ([more], "'extra'"), (less, "'a'"),
                             (Config(more=object()), "x/more"), (Member(7), "would come back"),
                             (Pair(1, object()), "object")]:
            self.refuses("invalid_argument", words, manager.save, 1, {"x": value})
        self.assertEqual(manager.steps(), [])

    def test_classes_that_are_others(self):
        @dataclasses.dataclass
        class Config:  # noqa: F811  another one of this name
            rate: float = 0.1

        Config.__qualname__ = "Config"
        manager = self.manager()
        manager.save(1, {"x": globals()["Config"](), "c": Color.BLUE, "p": Pair(1, 2)})
        for into, types, words in [
            (None, [], "nothing here tells"), (None, [Config], "'name'"), (Config(), [], "'name'"),
            (None, [Color], "types="), ({}, [], "nothing here tells"),
        ]:
            self.refuses("invalid_argument", words, manager.restore, 1, {"x": into}, types=types)
        for types in [[int], [os.system], ["own_test.Color"], [dict], 7]:
            self.refuses("invalid_argument" if types != 7 else "application", "", manager.restore, 1,
                         {"c": None}, types=types)
        Shorter = enum.IntEnum("Color", "RED", qualname="Color")
        self.refuses("invalid_argument", "'BLUE'", manager.restore, 1, {"c": None}, types=[Shorter])
        Three = collections.namedtuple("Pair", "a b c")
        self.refuses("invalid_argument", "fields", manager.restore, 1, {"p": None}, types=[Three])
        two = [enum.IntEnum("Color", "BLUE", qualname="Color", module=name) for name in ("a", "b")]
        self.refuses("invalid_argument", "2 here are called so", manager.restore, 1, {"c": None}, types=two)
        state = {"c": None}
        manager.restore(1, state, types=two[0])  # in another module, as where a program became a module
        self.assertIs(state["c"], two[0].BLUE)

    def test_all_classes_that_are_not_known_are_named_at_once(self):
        manager = self.manager()
        manager.save(1, {"c": Color.RED, "l": [Word.A, {Outer.Color.RED: Config(1, "a"), 2: None}], "p": Pair(1, 2)})
        error = self.refuses("invalid_argument", "5 classes", manager.restore, 1, {"c": None, "l": None, "p": None})
        for words in ("own_test.Color ('c')", "Word ('l/0')", "Outer.Color ('l/1')", "Config ('l/1/0')", "Pair ('p')"):
            self.assertIn(words, error.reason)
        self.refuses("invalid_argument", "2 classes", manager.restore, 1, {"c": None, "l": None, "p": None},
                     types=[Color, Word, Outer.Color])

    def test_fields_that_are_new_or_gone(self):
        @dataclasses.dataclass
        class More(Config):
            fresh: int = 5

        More.__qualname__, More.__module__ = Config.__qualname__, Config.__module__
        manager = self.manager()
        manager.save(1, {"c": Config(1, "a")})
        self.refuses("invalid_argument", "may_be_missing=['c/fresh']", manager.restore, 1, {"c": None}, types=[More])
        into = {"c": More(2, "b", fresh=7)}
        self.assertEqual(manager.restore(1, into, may_be_missing=["c/fresh"])["kept_keys"], ["c/fresh"])
        self.assertEqual(into["c"], More(1, "a", fresh=7))
        manager.save(2, into)
        self.refuses("invalid_argument", "has no field 'fresh', which was saved", manager.restore, 2, {"c": None},
                     types=[Config])

    def test_no_name_in_a_file_is_imported(self):
        """Forged descriptions of classes, by somebody who wants a program to run other code."""
        @dataclasses.dataclass
        class Command:
            text: str = ""

        forms = ["enum os.system", "flag os.system", ["None", ["dataclass os.system", ["command", 0]]],
                 ["None", ["namedtuple os.system", 0]], "function os.system", ["None", ["os.system", 0]],
                 ["None", ["dict by number", [["enum os.system", "echo"], 0]]],
                 ["None", ["dict by number", [["numpy", "O", "00"], 0]]],
                 ["None", ["dict by number", [["os.system", "echo"], 0]]],
                 ["None", ["dict by number", [["tuple", ["tuple", {"a": 1}]], 0]]],
                 ["None", ["os.system by number", [["float", "0x1p0"], 0]]],
                 ["None", ["dict by number", [["bool", 1], 0], [["bool", 1], 0]]],
                 "numpy.datetime64", "torch.dtype"]
        manager = self.manager()
        manager.save(1, {f"{number}": cairn.described("echo", **{"cairn.python": form})
                         for number, form in enumerate(forms)})
        manager.save(2, {f"{name}": cairn.described(1, **{"cairn.python": [
            "int", [f"dataclass {Command.__module__}.{Command.__qualname__}", [name, 0]]]})
            for name in ("__class__", "__init__", "other")})
        for number in range(len(forms)):
            error = None
            try:
                manager.restore(1, {f"{number}": None}, types=TYPES)
            except cairn.Error as one:
                error = one
            self.assertIn(getattr(error, "code", None), ("unsupported", "invalid_argument"), forms[number])
        for name in ("__class__", "__init__", "other"):
            for into in (None, Command("mine")):
                self.refuses("invalid_argument", f"'{name}'", manager.restore, 2, {name: into}, types=[Command])
                self.assertTrue(into is None or (type(into), into.text) == (Command, "mine"))
        # In a process of its own, which shows that no module was imported.
        program = ("import sys, cairn\n"
                   "manager = cairn.CheckpointManager(sys.argv[1])\n"
                   "try:\n    manager.restore(3, {'x': None})\n"
                   "except cairn.Error as error: print(error.code)\n"
                   "print('antigravity' in sys.modules)\n")
        manager.save(3, {"x": cairn.described("fly", **{"cairn.python": "enum antigravity.fly"})})
        manager.close()
        ran = subprocess.run([sys.executable, "-B", "-c", program, self.directory], capture_output=True,
                             text=True, check=False)
        self.assertEqual((ran.stdout, ran.stderr), ("invalid_argument\nFalse\n", ""))
