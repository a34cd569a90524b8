"""The saved values decide what is restored: Python values, which of them are refused, and what is
kept alive."""

import collections
import copy
import datetime
import gc
import json
import os
import random
import resource
import subprocess
import sys
import types
import weakref
import zoneinfo

import cairn
import numpy as np
from case import BUILT, Case, values
from says import says

Pair = collections.namedtuple("Pair", "first second")


class Name(str):
    pass


def same(one, other):
    """Whether both have the same value, class, and order of keys."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return [*map(repr, one)] == [*map(repr, other)] and all(map(same, one.values(), other.values()))
    if isinstance(one, (set, frozenset)):
        return one == other and sorted(map(repr, one)) == sorted(map(repr, other))
    return repr(one) == repr(other)


PLAIN = [
    None, True, 0, -1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 2**700, -(2**700), 1.0,
    -0.0, float("inf"), float("nan"), 1 - 0j, "", "zwölf", "\udcff", b"", b"\0\xff", np.float64(1),
    np.int64(2), np.float32(3), np.bool_(True), np.uint64(2**63), np.complex64(1j), [], (), {}, [[]], ((),),
    [{}], [None], [1, 2], (1, 2), [1, 2**63], [2**70], [1, 2.5], (0.5, 0.25), [True, False], (1j, 2j),
    ["a", ""], ("a",), [b"a", b""], (b"a",), ["a", b"a"], [1, "a", None, (2.5, [b"x"])],
    {"a": 1, "b": {"c": [None]}}, {1: 2, 0: 3}, {"b": 1, "a": 2}, {1: "int", "p/q": "path"},
    {"a": {}, "b": [], "c": ()}, collections.OrderedDict(b=1, a=2), collections.Counter(b"abca"),
    {"deep": [{"er": ({"st": None},)}]}, np.str_("ä"), np.bytes_(b"\xff\n"), datetime.date(2026, 2, 3),
    datetime.datetime(2026, 2, 3, 4, 5, 6, 7), datetime.datetime(1, 1, 1, tzinfo=datetime.timezone.utc),
    datetime.time(1, 2, 3), datetime.timedelta(-1, 5, 7), set(), {1, 2}, {"a", None, (1, b"b")}, frozenset(),
    frozenset({2.5}), [{1}, {frozenset({datetime.date(2026, 1, 1)})}],
    np.datetime64("2026-01-01T00", "25m"), np.datetime64("NaT"), np.timedelta64(-7, "ns"),
    {1.5: 2, -0.0: [None], float("nan"): 1}, {None: 1, True: {"a": ()}, b"\xff": 3, 2**70: 4, "\udcff": 5},
    {(1, (2.5, None)): 1, (True, "a"): 2}, {frozenset({1j}): 0}, {1: "int", "1": "text"}, [{1: {"1": 1}, "1": 2}],
    {np.float32(0.1): 1, np.int64(1): 2, np.str_("a"): 3, datetime.date(2026, 1, 1): 4},
    collections.OrderedDict([((0, 1), 2), (0.5, 1)]), collections.Counter({0.5: 2, "a": 1}),
]


class Values(Case):
    def test_each_comes_back_into_each(self):
        saved = {f"{number}": value for number, value in enumerate(PLAIN)}
        for form in BUILT:
            self.directory += form
            manager = self.manager(store={"format": form})
            manager.save(1, saved)
            for into in (None, 5, 0.5, "text", b"", [], (1, "a"), ["a", 1], {}, np.float32(1), "itself"):
                state = {key: copy.copy(saved[key] if into == "itself" else into) for key in saved}
                manager.restore(1, state)
                for key, value in saved.items():
                    got = state[key]
                    if into == {} and isinstance(value, dict):
                        got, value = dict(got), dict(value)  # it is put into the dict that is there
                    self.assertTrue(same(got, value), (form, value, into, got))

    def test_as_objects_and_from_the_nodes(self):
        saved = {"l": [1, None, "a"], "n": None, "arrays": [np.ones(2), {"w": np.zeros(3)}],
                 "d": {"a": 1, "b": []}, "big": 2**70}
        for number, options in enumerate([{"store": {"object_graph": True}}, {"restore": {"verify_first": True}},
                                          {"tier": {"directory": self.directory + "-nodes",
                                                    "protection": "none"}}]):
            self.directory += f"{number}"
            manager = self.manager(**options)
            for step in (1, 2):
                manager.save(step, saved)
            state = {"l": [], "n": 3, "arrays": None, "d": {"a": 0, "b": 1}, "big": 0}
            report = manager.restore_latest(state)
            self.assertTrue(same(state, saved), (options, state))
            self.assertEqual((report["step"], report["kept_keys"]), (2, []))
            for wrong, code, words in [({"arrays": [np.zeros(2)]}, "invalid_argument", "'arrays/1/w'"),
                                       ({"d": {"a": 0, "c": 1}}, "not_found", "d/c")]:
                self.refuses(code, words, manager.restore, 2, wrong)
            kept = {"d": {"a": 0, "c": 1}}
            self.assertEqual(manager.restore(2, kept, may_be_missing={"d/c"})["kept_keys"], ["d/c"])
            self.assertEqual(kept, {"d": {"a": 1, "c": 1, "b": []}})

    def test_renamed(self):
        manager = self.manager()
        manager.save(1, {"a": None, "l": [0.5], "w": np.ones(2)})
        state = {"b": 1, "k": [], "v": None}
        manager.restore(1, state, rename={"b": "a", "k": "l", "v": "w"})
        self.assertTrue(same(state, {"b": None, "k": [0.5], "v": np.ones(2)}), state)

    def test_renamed_prefixes(self):
        manager = self.manager()
        manager.save(1, {"d": {"a": np.ones(2), "b": [1, 2], "e": {"n": "x"}}, "f1": 1.5, "f2": None})
        state = {"e": {"a": np.zeros(2), "b": [], "e": {"n": ""}}, "g1": 0, "g2": 0}
        manager.restore(1, state, rename={"e/*": "d/*", "g*": "f*"})
        expected = {"e": {"a": np.ones(2), "b": [1, 2], "e": {"n": "x"}}, "g1": 1.5, "g2": None}
        self.assertTrue(same(state, expected), state)

    def test_an_older_one_has_another_form(self):
        manager = self.manager()
        manager.save(1, {"u": np.zeros(2), "losses": [], "best": None})
        opened = cairn.open(manager.save(2, {"u": np.ones(2), "losses": [0.5, 0.25], "best": {"at": 2}}))
        _, _, file, offset, _ = opened["losses"].slices[0]
        name = next(one for one in os.listdir(self.directory) if f"ckpt-2.data-{file:05d}" in one)
        with open(f"{self.directory}/{name}", "r+b") as data:
            data.seek(offset)
            data.write(b"!")
        state = {"u": np.full(2, 9.0), "losses": [1.0], "best": 3}
        report = manager.restore_latest(state)
        self.assertEqual((report["step"], state["u"].tolist(), state["losses"], state["best"]),
                         (1, [0, 0], [], None))

    def test_any_nested_values(self):
        dice = random.Random(5)

        def made(depth):
            kind = dice.randrange(8) if depth > 0 else 7
            if kind < 2:
                return [list, tuple][kind](made(depth - 1) for _ in range(dice.randrange(4)))
            if kind < 4:
                names = dice.sample(["a", "b", "ü", "p/q", 0, 1, -7], dice.randrange(5))
                return {name: made(depth - 1) for name in names}
            return values("int32", (dice.randrange(3), 2)) if kind == 4 else dice.choice(PLAIN[:44])

        saved = {f"{number}": [made(3)] for number in range(100)}
        manager = self.manager()
        manager.save(1, saved)
        for into in (None, []):
            state = dict.fromkeys(saved, into) if into is None else {key: [] for key in saved}
            manager.restore(1, state)
            for key, value in saved.items():
                self.assertTrue(same(state[key], value), value)

    def test_containers_that_are_there_are_changed_in_place(self):
        manager = self.manager()
        manager.save(1, {"losses": [0.1, 0.2], "best": {"loss": 0.5, "at": None, "log": ["a"]},
                         "mixed": [1, None], "order": collections.OrderedDict(a=1)})
        losses, log, mixed = [], [], [3, 4, 5, 6]
        best, order = {"loss": None, "at": 7, "log": log}, collections.OrderedDict()
        state = {"losses": losses, "best": best, "mixed": mixed, "order": order}
        manager.restore(1, state)
        self.assertEqual((losses, best, log, mixed),
                         ([0.1, 0.2], {"loss": 0.5, "at": None, "log": ["a"]}, ["a"], [1, None]))
        self.assertEqual(order, {"a": 1})
        for key, one in [("losses", losses), ("best", best), ("mixed", mixed), ("order", order)]:
            self.assertIs(state[key], one)
        self.assertIs(best["log"], log)

    def test_arrays_in_lists_and_dicts(self):
        manager = self.manager()
        saved = {"layers": [{"w": np.arange(3.0), "n": 1}, {"w": np.arange(4.0), "n": None}],
                 "best": {"w": np.ones(2)},
                 "norms": [np.array(0.5), np.array(1.5)]}
        manager.save(1, saved)
        # Arrays that exist are filled.
        arrays = [np.zeros(3), np.zeros(4), np.zeros(2)]
        state = {"layers": [{"w": arrays[0], "n": 0}, {"w": arrays[1], "n": 0}], "best": {"w": arrays[2]},
                 "norms": [np.array(0.0) for _ in range(3)]}
        manager.restore(1, state)
        self.assertTrue(same(state, saved), state)
        self.assertEqual([one.sum() for one in arrays], [3, 6, 2])
        # Where the state has nothing, arrays are made.
        for empty in ({"layers": [], "best": {}, "norms": []}, {"layers": None, "best": None, "norms": ()}):
            manager.restore(1, empty)
            self.assertTrue(same(empty, saved), empty)
        # If the state has only some of them, or others, the error names these.
        for wrong, code, words in [
            ({"layers": [{"w": arrays[0], "n": 0}]}, "invalid_argument", "'layers/1/w'"),
            ({"layers": [{"n": 0}, {"w": arrays[1], "n": 0}]}, "invalid_argument", "'layers/0/w'"),
            ({"layers": [{"w": arrays[0]}, {"w": arrays[1]}, {"w": arrays[2]}]}, "not_found", "layers/2/w"),
            ({"best": {"w": arrays[2], "v": arrays[2]}}, "not_found", "best/v"),
            ({"best": {"w": arrays[0]}}, "invalid_argument", "best/w"),
            ({"best": {"v": 1}}, "not_found", "best/v"),
        ]:
            with self.subTest(words):
                self.refuses(code, words, manager.restore, 1, wrong)
        self.assertEqual([one.sum() for one in arrays], [3, 6, 2])
        # A key by itself asks for that part.
        one = np.zeros(4)
        manager.restore(1, {"layers/1/w": one})
        self.assertEqual(one.sum(), 6)

    def test_a_shorter_dict_names_what_it_lacks(self):
        manager = self.manager()
        manager.save(1, {"part": {"a": np.zeros(2), "b": np.ones(2), "n": 3},
                         "slices": [cairn.slice(np.ones(2), (2,), (0,))] * 1,
                         "pinned": cairn.private(np.ones(1)),
                         "deep": {"own": cairn.private(np.ones(1)), "n": 1}})
        error = self.refuses("invalid_argument", "'part/b'", manager.restore, 1,
                             {"part": {"a": np.zeros(2), "n": 0}})
        self.assertEqual(error.tensor, "part/b")
        part = {"a": np.zeros(2), "b": np.zeros(2)}
        manager.restore(1, {"part": part})  # numbers are no memory that somebody holds
        self.assertEqual((part["n"], part["b"].sum()), (3, 2))
        for there, name in (([], 0), ({}, "0")):  # nothing says which of the two it was
            manager.restore(1, {"slices": there})
            self.assertEqual((len(there), there[name].tolist()), (1, [1, 1]))
        self.refuses("invalid_argument", "a list or a dict", manager.restore, 1, {"slices": None})
        self.refuses("not_found", "part/c", manager.restore, 1, {"part": {**part, "c": 1}})
        kept = manager.restore(1, {"part": {**part, "c": 1}}, may_be_missing={"part/c"})
        self.assertEqual(kept["kept_keys"], ["part/c"])
        deep = {"own": cairn.private(np.zeros(1)), "n": 0}
        manager.restore(1, {"deep": deep})
        self.assertEqual((deep["own"].array[0], deep["n"]), (1, 1))
        for missing in ({"new": []}, {"new": {}}, {"new": None}, {"new": [1, 2]}, {"new": 2**70}):
            self.refuses("not_found", "new", manager.restore, 1, missing)
            before = repr(missing)
            manager.restore(1, missing, all_may_be_missing=True)
            self.assertEqual(repr(missing), before)

    def test_strict_says_what_may_differ(self):
        manager = self.manager()
        manager.save(1, {"layers": [np.ones(1), np.ones(2), np.ones(3)], "d": {"a": np.ones(1), "n": 1}, "top": 5})
        short = {"layers": [np.zeros(1), np.zeros(2)], "d": {"a": np.zeros(1), "b": np.zeros(1)}}
        self.refuses("not_found", "'d/b'", manager.restore, 1, short)
        self.refuses("invalid_argument", "layers/2", manager.restore, 1, {"layers": short["layers"]})
        self.assertEqual(short["layers"][0][0], 0)
        with self.assertLogs("cairn", "WARNING") as logs:
            manager.restore(1, short, strict=False)
        told = "\n".join(logs.output)
        for key in ("'layers/2'", "'top'", "'d/b'"):
            self.assertIn(key, told)
        self.assertEqual((short["layers"][1].sum(), len(short["layers"]), short["d"]["b"][0], short["d"]["n"]),
                         (2, 2, 0, 1))
        whole = {"layers": [np.zeros(1), np.zeros(2), np.zeros(3)], "d": {"a": np.zeros(1), "n": 0}}
        self.refuses("invalid_argument", "'top'", manager.restore, 1, whole, strict=True)
        manager.restore(1, {**whole, "top": 0}, strict=True)
        self.assertEqual(whole["layers"][2].sum(), 3)
        self.refuses("invalid_argument", "strict", manager.restore, 1, whole, strict="no")

    def test_what_would_come_back_as_another_kind_is_refused(self):
        manager = self.manager()
        circle = []
        circle.append(circle)
        for value, words in [
            (datetime.datetime(2026, 1, 1, fold=1), "fold=1"),
            (datetime.time(tzinfo=zoneinfo.ZoneInfo("UTC")), "zoneinfo"), ({object()}, "set"),
            ([object()], "object"), (bytearray(b"a"), "bytearray"), ([{object: 2}], "object"),
            ([{(1, object): 2}], "object"), ({"\ud800": 1}, "half a character"),
            ([{"a": {"\ud800": 1}}], "half a character"), ([{("\ud800",): 1}], "half a character"),
            (np.str_("\ud800"), "half a character"), (os.terminal_size((1, 2)), "terminal_size"),
            (Name("a"), "str(value)"), ([Name("a")], "str(value)"), ({Name("a"): 1.5}, "Name"),
            ([collections.defaultdict(int)], "dict(value)"), ("\ud800", "half a character"),
            ([1, "\ud800"], "half a character"),
            (range(3), "range"), (print, "function"),
        ]:
            with self.subTest(words):
                self.assertTrue(self.refuses("invalid_argument", words, manager.save, 1,
                                             {"x": value}).tensor.startswith("x"))
        self.refuses("application", "Recursion", manager.save, 1, {"x": circle})
        self.refuses("invalid_argument", "arrays of them", manager.save, 1, {"x": [[[]] * 1000] * 200})
        self.refuses("invalid_argument", "x/0/a/b", manager.save, 1, {"x": [{"a": {"b": 1}, "a/b": 2}]})
        for refused in (lambda: manager.save(1, {"\ud800": 1}), lambda: cairn.open("\ud800"),
                        lambda: manager.save(1, {"x": 1}, attributes={"\ud800": 1}),
                        lambda: manager.restore_latest({"x": 1}, may_be_missing={"\ud800"}),
                        lambda: cairn.described(1, units="\ud800"),
                        lambda: cairn.Saver("\ud800", print, print), lambda: cairn.BundleWriter("\ud800")):
            self.refuses("invalid_argument", "half a character", refused)
        for value in ("\ud800", {"a": ["\udcff"]}):
            with self.assertRaisesRegex(ValueError, says("attribute 'a' is not JSON: it has half")):
                cairn.described(1, a=value)
        cairn.described(1, a="\U0001f600")
        self.assertEqual(manager.steps(), [])
        manager.save(1, {"x": Pair(np.ones(2), np.ones(3)), "counts": collections.defaultdict(int, a=1)})
        into = Pair(np.zeros(2), np.zeros(3))
        counts = collections.defaultdict(int)
        manager.restore(1, {"x": into, "counts": counts})  # memory in a named tuple is filled in place
        self.assertEqual((into.second.sum(), counts), (3, {"a": 1}))
        self.refuses("invalid_argument", "class of its own", manager.restore, 1, {"counts": None})
        self.refuses("invalid_argument", "cannot be changed", manager.restore, 1,
                     {"counts": types.MappingProxyType({"a": 1})})

    def test_descriptions_stay_with_numbers(self):
        manager = self.manager()
        state = {"t": cairn.described(0.5, units="s", order=1), "u": cairn.described([1, None], note="x")}
        manager.save(1, state)
        new = {"t": cairn.described(0, units="s", order=1), "u": cairn.described([], note="x")}
        manager.restore(1, new)
        self.assertEqual((new["t"].value, new["u"].value), (0.5, [1, None]))
        opened = cairn.open(manager.save(2, new))
        self.assertEqual((opened["t"].units, opened["t"].attributes), ("s", {"order": 1}))
        self.assertEqual(opened.attributes, {})

    def test_of_other_programs(self):
        """Nothing tells the types: dtype, shape and the state's values decide."""
        os.mkdir(self.directory)
        with cairn.BundleWriter(os.path.join(self.directory, "ckpt-3")) as writer:
            for key, value in {"step": 5, "rate": 0.5, "name": "run", "names": ["a", "b"],
                               "list": np.arange(3.0),
                               "sub/0": 1.5, "sub/1": 2.5, "half": np.float32(0.5),
                               "gone": np.zeros(0, np.uint8)}.items():
                writer.add(key, value)
        manager = self.manager()
        state = {"step": 0, "rate": None, "name": b"", "names": ("x",), "list": [0.0], "sub": [0.0, 0.0],
                 "half": np.float32(0), "gone": None}
        manager.restore(3, state)
        self.assertTrue(same(state,
                             {"step": 5, "rate": 0.5, "name": b"run", "names": ("a", "b"),
                              "list": [0.0, 1.0, 2.0],
                                     "sub": [1.5, 2.5], "half": np.float32(0.5), "gone": None}), state)
        state = {"sub": []}
        manager.restore(3, state)
        self.assertEqual(state, {"sub": [1.5, 2.5]})
        self.refuses("invalid_argument", "'sub/1'", manager.restore, 3, {"sub": [0.0]})

    def test_forms_that_nobody_writes(self):
        doubling = ["None", *(["list", *[number] * 2] for number in range(40))]
        forms = [
            ("who", "who"), ([], "[]"), ([7], "7"), ([["list", 0]], "list"), (["int", ["list", 1]], "list"),
            (["int", ["dict", 0]], "0"),
            (["int", ["who", 0]], "who"), ([["same", 3]], "same"), ([["same", "x"]], "x"),
            (["int", ["list", 0]], "9/0"), (doubling, "10/0"),
            ([["list"], *([["list", *[i] * 10] for i in range(8)])], "more values"),
            ({"os": "system"}, "os"),
        ]
        manager = self.manager()
        manager.save(1, {f"{number}": cairn.described(np.zeros(1), **{"cairn.python": form})
                         for number, (form, _) in enumerate(forms)})
        for number, (_, words) in enumerate(forms):
            code = "invalid_argument" if words.endswith("/0") else "unsupported"
            self.refuses(code, words, manager.restore, 1, {f"{number}": None})

    def test_attributes_in_hdf5(self):
        if "hdf5" not in BUILT:
            self.skipTest("this build has no libhdf5")
        try:
            import h5py
        except ImportError:
            self.skipTest("h5py is not there")
        said = {"text": "hello", "three": 3, "large": 2**63, "half": 0.5, "yes": True, "list": [1, 2],
                "empty": "", "none": None,
                "more": {"a": [1]}, "quoted": '"', "digits": "3"}
        prefix = self.manager(store={"format": "hdf5"}).save(1, {"u": cairn.described(np.zeros(2), **said)},
                                                             attributes=said)
        self.assertEqual(cairn.open(prefix)["u"].attributes, said)
        self.assertEqual(cairn.open(prefix).attributes, said)
        with h5py.File(prefix + ".h5") as file:
            for found in (file["u"].attrs, file.attrs):
                for name in ("text", "three", "large", "half", "yes", "empty", "quoted", "digits"):
                    got = found[name]
                    self.assertEqual(got, said[name], name)
                    self.assertEqual(isinstance(got, str), isinstance(said[name], str), name)
                self.assertEqual(list(found["list"]), [1, 2])
                self.assertEqual((found["none"], json.loads(found["more"])), ("null", {"a": [1]}))

    def test_ranks_with_other_hashes_have_sets_in_one_order(self):
        program = ("from cairn import keys\n"
                   "sets = [frozenset('abcdefgh') - {one} for one in 'abcdefgh']\n"
                   "print([keys.code('', one) for one in keys.in_order({*sets, ('a', sets[0]), 'b'})])\n"
                   "print(keys.code('', frozenset(sets)))")
        told = {subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True,
                               env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in "123"}
        self.assertEqual(len(told), 1)


class Alive(Case):
    """Nothing of the application's is kept between calls. The collector sleeps, unless it is called."""

    def setUp(self):
        super().setUp()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)

    def test_arrays_beside_texts(self):
        class Array(np.ndarray):
            pass

        manager = self.manager(max_to_keep=1)
        gone = []

        def new(length):
            array = np.zeros(length).view(Array)
            gone.append(weakref.ref(array))
            return array

        def state():
            array = new(1000)
            return {"u": array, "t": "text", "l": [1, "a"], "n": {"v": array[1:]},
                    "r": cairn.resizable(["x"])}

        def apart():  # memory that is shared is not restored into
            return {**state(), "n": {"v": new(999)}}

        for step in range(1, 4):
            manager.save(step, state())
            manager.save_async(step + 10, state())
            manager.wait()
            manager.restore(step + 10, apart())
            self.assertEqual([one() for one in gone], [None] * len(gone))
        manager.restore_latest(apart())
        with self.assertRaises(cairn.Error):
            manager.restore(13, {**apart(), "else": 1})
        self.assertEqual([one() for one in gone], [None] * len(gone))

    def test_memory_of_restores(self):
        manager = self.manager()
        manager.save(1, {"u": np.ones(1 << 20), "t": "text", "l": [1, None]})

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10  # MiB

        for number in range(12):
            manager.restore(1, {"u": np.zeros(1 << 20), "t": "", "l": []})
            if number == 2:
                before = peak()
        self.assertLess(peak() - before, 16)  # two of 8 MiB

    def test_a_manager_whose_functions_belong_to_its_owner(self):
        directory = self.directory

        class Owner:
            def __init__(self, which):
                options = {
                    "before_save": {"hooks": {"before_save": [self.f]}},
                    "saver": {"hooks": {"savers": [cairn.Saver("s", self.f, self.f)]}},
                    "policy": {"store": {"policy": self.p}},
                    "per_device": {"store": {"policy": cairn.PerDevicePolicy(self.p)}},
                    "clock": {"when": {"clock": self.c}}, "device_of": {"store": {"device_of": self.d}},
                    "on_change": {"async": {"on_change": self.f}},
                }[which]
                self.heard = []
                self.manager = cairn.CheckpointManager(directory + which, **options)

            def f(self, *given):
                self.heard.append(given)

            def p(self, tensors):
                self.heard.append(len(tensors))
                return [tensors]

            def c(self):
                return 5.0

            def d(self, rank, tensor):
                return "/job:worker/replica:0/task:0/device:CPU:0"

        for which in ("before_save", "saver", "policy", "per_device", "clock", "device_of", "on_change"):
            owner = Owner(which)
            owner.manager.save(1, {"u": np.zeros(3)}, policy=owner.p)
            owner.manager.save_async(2, {"u": np.zeros(3)})
            owner.manager.wait()
            self.assertGreater(len(owner.heard), 0, which)
            gone = weakref.ref(owner)
            del owner
            gc.collect()
            self.assertIsNone(gone(), which)
            cairn.CheckpointManager(directory + which).close()  # it was given up

    def test_a_manager_ends_with_its_last_name(self):
        heard = []
        manager = self.manager_of_its_own(**{"async": {"on_change": lambda one: heard.append(one.stage)}})
        manager.save_async(1, {"u": np.zeros(3)})
        del manager
        with cairn.CheckpointManager(self.directory) as other:
            self.assertEqual(other.restore_latest({"u": np.zeros(3)})["step"], 1)

    def manager_of_its_own(self, **options):
        return cairn.CheckpointManager(self.directory, **options)
