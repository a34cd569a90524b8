"""Rows, gaps and lengths in Python, its functions as callbacks and policies; memory of others."""

import gc
import os
import signal
import threading

import cairn
import numpy as np
from case import BUILT, Case, bits, values


class Kinds(Case):
    def both(self):
        """Yields a manager of each format, in turn."""
        for form in BUILT:
            with self.subTest(form):
                self.directory += form
                yield self.manager(store={"format": form})

    def test_names_of_any_bytes(self):
        """Names of files, and keys of other programs, that are not UTF-8 are decoded as by
        os.fsdecode."""
        self.directory = os.fsencode(self.directory) + b"-\xff"
        manager = self.manager(hooks={"savers": [cairn.Saver("s", lambda prefix: None, lambda prefix: None)]})
        prefix = manager.save(1, {"u": np.arange(3)})
        self.assertEqual(os.fsencode(prefix), self.directory + b"/ckpt-1")
        self.assertEqual(manager.restore(1, {"u": np.zeros(3, int)})["prefix"], prefix)
        for path in [prefix, os.fsencode(prefix), self.directory]:
            self.assertEqual(cairn.open(path).prefix, prefix)
        self.assertEqual(cairn.steps(self.directory), [1])
        self.assertEqual(cairn.checkpoints(self.directory), [prefix])
        error = self.refuses("not_found", "\\xff", cairn.open, prefix + "1")
        self.assertIn("\\xff", error.reason + error.problem)
        odd = os.path.join(os.environ["CAIRN_GOLDEN_DIR"], "bad/slices_key_dash_proto_explicit/ckpt")
        self.assertIn("does not list it", cairn.open(odd)["\0x\0\x01\x01\x01\udc80\x7f"].problem)
        self.refuses("invalid_argument", "NUL", cairn.open, "a\0b")
        self.refuses("invalid_argument", "int", cairn.open, 3)

    def test_shapes_are_whole_numbers(self):
        manager = self.manager()
        for shape, start in [((3.9,), (0,)), ((3,), (0.5,)), ("3", "0"), ((2**70,), (0,))]:
            part = cairn.slice(np.zeros(3), shape, start)
            self.refuses("application", "Error: ", manager.save, 1, {"u": part})
        manager.save(1, {"u": cairn.slice(np.zeros(3), 3, np.int8([0])),
                         "v": cairn.slice(np.zeros((2, 3)), np.array([2, 3]), [np.int8(0), 0])})

    def test_one_place_under_two_keys(self):
        """The restore fails before anything is touched, unless both have the same bytes."""
        manager = self.manager()
        manager.save(1, {"a": np.arange(4.0), "same": np.arange(4.0), "other": np.ones(4), "n": 1, "m": 1, "k": 2,
                         "text": "one", "text2": "two", "rows": cairn.resizable(np.arange(3)),
                         "rows2": cairn.resizable(np.arange(4)),
                         "words": cairn.resizable(["x", "y"]), "words2": cairn.resizable(["x", "z"]),
                         "folded": np.lib.stride_tricks.as_strided(np.ones(1), (3,), (0,)),
                         "d": {"x": 1.5}, "e": {"x": 1.5}, "f": {"x": 2.5}})
        new = np.zeros(4)
        manager.restore(1, {"a": new, "same": new})
        self.assertEqual(bits(new), bits(np.arange(4.0)))
        shared, words = {"x": 0.0}, ["?"]
        rows, texts = cairn.resizable(np.zeros(1, int)), cairn.resizable(words)
        manager.restore(1, {"d": shared, "e": shared})
        self.assertEqual(shared, {"x": 1.5})
        zeros = np.zeros(4)
        shared["x"] = -1.0
        for names, state in [
            ("'a' and 'other'", {"a": zeros, "other": zeros}),
            ("'a' and 'other'", {"a": zeros, "other": zeros[::-1]}),
            ("'d/x' and 'f/x'", {"d": shared, "f": shared}),
            ("'rows' and 'rows2'", {"rows": rows, "rows2": rows}),
            ("'words' and 'words2'", {"words": texts, "words2": texts}),
            ("share memory", {"folded": np.lib.stride_tricks.as_strided(zeros, (3,), (0,))}),
        ]:
            with self.subTest(names):
                self.refuses("invalid_argument", names, manager.restore, 1, state)
                self.assertEqual(bits(zeros), bits(np.zeros(4)))
                self.assertEqual((shared, words, len(rows.value)), ({"x": -1.0}, ["?"], 1))

    def test_gaps_read_as_their_fill_value(self):
        for manager in self.both():
            parts = [cairn.slice(np.full(2, 1.5), (8,), (at,)) for at in (1, 5)]
            prefix = manager.save(1, {"u": cairn.sparse(cairn.patches(parts), -1),
                                      "v": cairn.sparse(cairn.slice(np.ones(1), (3,), (2,)), np.nan)})
            wanted = np.array([-1, 1.5, 1.5, -1, -1, 1.5, 1.5, -1])
            self.assertEqual(bits(cairn.open(prefix)["u"][...]), bits(wanted))
            self.assertTrue(np.isnan(cairn.open(prefix)["v"][0]))
            for keep in [False, True]:
                new = np.full(8, 7.0)
                whole = cairn.slice(new, (8,), (0,))
                manager.restore(1, {"u": cairn.sparse(whole, -1, keep=keep)})
                self.assertEqual(bits(new), bits(np.where(wanted == -1, 7.0 if keep else -1.0, 1.5)))
        self.refuses("invalid_argument", "fill value 0.5", manager.save, 2,
                     {"n": cairn.sparse(cairn.slice(np.ones(1, int), (3,), (2,)), 0.5)})
        self.refuses("invalid_argument", "no shape", manager.save, 2,
                     {"n": cairn.sparse(np.ones(3), 0)})
        self.refuses("coverage", "n", manager.save, 2,
                     {"n": cairn.sparse(cairn.nothing("f8", (3,)), 0)})

    def test_rows_as_many_as_are_stored(self):
        for manager in self.both():
            rows = values("float32", (9, 4, 3))
            log, words = np.arange(5), ["a", "", "ü"]
            manager.save(1, {"rows": cairn.ragged(rows[::-2, 1:3]), "log": cairn.resizable(log),
                             "words": cairn.resizable(words), "none": cairn.ragged(log[:0])})
            first = np.zeros((2, 2, 3), np.float32)
            new = {"rows": cairn.ragged(first), "log": cairn.resizable(np.zeros(0, int)),
                   "words": cairn.resizable([]), "none": cairn.ragged(np.ones(3, int)),
                   "else": cairn.ragged(first)}
            manager.restore(1, new, may_be_missing={"else"})
            gc.collect()
            self.assertEqual(bits(new["rows"].array), bits(rows[::-2, 1:3]))
            self.assertEqual(new["rows"].array.shape, (5, 2, 3))
            self.assertEqual(new["log"].value.tolist(), [0, 1, 2, 3, 4])
            self.assertEqual(new["words"].value, words)
            self.assertEqual(new["none"].array.shape, (0,))
            self.assertIs(new["else"].array, first)
            self.assertFalse(first.any())  # the array that was there is left alone
            new["rows"].array[:] = 2  # and the new one is an array as any other
            manager.save(2, new)
            self.assertEqual(set(cairn.open(self.directory)["rows"][...].ravel()), {2.0})
        self.refuses("invalid_argument", "no rows", manager.save, 3, {"x": cairn.ragged(np.array(1.0))})
        self.refuses("invalid_argument", "float64", manager.restore, 2,
                     {"rows": cairn.ragged(np.zeros((0, 2, 3)))})
        self.refuses("invalid_argument", "texts", manager.save, 3, {"x": cairn.resizable(["a", 1])})

    def test_rows_by_id_and_what_is_private(self):
        for manager in self.both():
            rows, ids = values("int16", (5, 2)), np.array([3, 1, 2, 5, 4])
            prefix = manager.save(1, {"by_id": cairn.indexed(rows, ids, first=1),
                                      "gaps": cairn.indexed(rows, ids * 10, ids_key="ids"),
                                      "seed": cairn.private(np.arange(3, dtype=np.uint64))})
            self.assertEqual(bits(cairn.open(prefix)["by_id"][...]), bits(rows[np.argsort(ids)]))
            self.assertEqual(cairn.open(prefix)["ids"][...].tolist(), [10, 20, 30, 40, 50])
            new, seed = np.zeros((2, 2), np.int16), np.zeros(3, np.uint64)
            manager.restore(1, {"gaps": cairn.indexed(new, np.array([40, 30]), ids_key="ids"),
                                "seed": cairn.private(seed)})
            self.assertEqual(bits(new), bits(rows[[4, 0]]))
            self.assertEqual(seed.tolist(), [0, 1, 2])
        error = self.refuses("invalid_argument", "1", manager.save, 2,
                             {"by_id": cairn.indexed(rows, np.array([1, 1, 2, 3, 4]))})
        self.assertEqual(error.tensor, "by_id")
        self.refuses("invalid_argument", "integers", manager.save, 2,
                     {"by_id": cairn.indexed(rows, ids * 1.0)})

    def test_hdf5_of_other_programs(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("h5py is not there")
        if "hdf5" not in BUILT:
            self.skipTest("this build has no libhdf5")
        path = os.path.join(self._scratch.name, "theirs.h5")
        array = values("int32", (40, 3))
        with h5py.File(path, "w") as file:
            file.create_dataset("group/u", data=array, chunks=(7, 2), compression="gzip")
            file["number"] = 2.5
        new = {"group": {"u": np.zeros((40, 3), np.int32)}, "number": 0.0}
        report = cairn.restore_hdf5(path, new)
        self.assertTrue(report["unchecked"])
        self.assertEqual(bits(new["group"]["u"]), bits(array))
        self.assertEqual(new["number"], 2.5)
        renamed = {"ours": {"u": np.zeros((40, 3), np.int32)}}
        cairn.restore_hdf5(path, renamed, rename={"ours/*": "group/*"})
        self.assertEqual(bits(renamed["ours"]["u"]), bits(array))
        self.refuses("not_found", "v", cairn.restore_hdf5, path, {"v": np.zeros(3)})
        self.refuses("invalid_argument", "float64", cairn.restore_hdf5, path, {"number": np.float32(0)})

    def test_memory_of_others(self):
        class Speaker:
            """Memory that claims to be on this kind of device (DLPack's numbers)."""

            def __init__(self, array, kind):
                self.array, self.kind = array, kind

            def __dlpack__(self, **named):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return self.kind, 0

        manager = self.manager()
        for step, kind in enumerate([1, 3, 11]):  # host; pinned for CUDA, for ROCm
            array, new = values("float32", (4, 3)), np.zeros((3, 4), np.float32)
            prefix = manager.save(step, {"x": Speaker(array.T, kind)})
            self.assertEqual(bits(cairn.open(prefix)["x"][...]), bits(array.T))
            manager.restore(step, {"x": Speaker(new, kind)})
            self.assertEqual(bits(new), bits(array.T))
        for kind, words in [(2, "CUDA"), (10, "ROCm"), (8, "Metal"), (99, "99")]:
            error = self.refuses("invalid_argument", words, manager.save, 9,
                                 {"x": Speaker(array, kind)})
            self.assertIn("cpu()", error.way_out)


class Code(Case):
    def test_callbacks(self):
        heard, changes = [], []
        state = {"u": np.zeros(3)}

        def before(step):
            heard.append((step, threading.get_ident()))
            state["u"][:] = step

        manager = self.manager(hooks={"before_save": [before, lambda step: None]},
                               **{"async": {"on_change": lambda one: changes.append((one.step, one.stage))}})
        manager.save(1, state)
        manager.save_async(2, state)
        manager.wait()
        self.assertEqual(heard, [(1, threading.get_ident()), (2, threading.get_ident())])
        self.assertEqual(changes, [(2, "captured"), (2, "committed")])
        self.assertEqual(cairn.open(self.directory)["u"][...].tolist(), [2, 2, 2])

    def test_what_callbacks_raise(self):
        raised = ValueError("in the middle of a step")
        manager = None

        def before(step):
            if step == 1:
                raise raised
            if step == 2:
                manager.steps()

        manager = self.manager(hooks={"before_save": before})
        state = {"u": np.zeros(3)}
        self.refuses("application", "ValueError: in the middle of a step", manager.save, 1, state)
        self.refuses("application", "in a call", manager.save, 2, state)
        self.assertEqual(manager.steps(), [])
        manager.save(3, state)
        self.refuses("invalid_argument", "hooks.before_save", cairn.CheckpointManager,
                     self.directory + "2", hooks={"after_save": [before]})
        self.refuses("invalid_argument", "stop.signals", cairn.CheckpointManager,
                     self.directory + "2", stop={"signals": before})
        self.refuses("invalid_argument", "convert", manager.restore, 3, state, convert=before)

    def test_policies(self):
        state = {"u": np.arange(8.0), "v": np.ones(2)}

        def halves(tensors):
            self.assertEqual([(one.key, one.dtype, one.shape, one.start, one.extent, one.bytes)
                              for one in tensors],
                             [("u", "float64", (8,), (0,), (8,), 64), ("v", "float64", (2,), (0,), (2,), 16)])
            u, v = tensors
            return [[u.piece((4,), (4,)), v], [u.piece((0,), (4,))]]

        manager = self.manager(store={"policy": halves})
        prefix = manager.save(1, state)
        tensor = cairn.open(prefix)["u"]
        self.assertEqual([(one[0], one[1], one[2]) for one in tensor.slices],
                         [((0,), (4,), 1), ((4,), (4,), 0)])
        self.assertEqual(cairn.open(prefix).meta["policy"], "halves")
        self.assertEqual(bits(tensor[...]), bits(state["u"]))
        prefix = manager.save(2, state, policy=cairn.MaxShardSizePolicy(32))
        self.assertEqual([one[1] for one in cairn.open(prefix)["u"].slices], [(4,), (4,)])
        for policy, code, words in [
            (lambda tensors: [tensors[:1]], "sharding", "missing"),
            (lambda tensors: 1 / 0, "application", "ZeroDivisionError"),
            (lambda tensors: 7, "application", "there is a int"),
            (lambda tensors: [7], "application", "there is a int"),
            (lambda tensors: [["u"]], "application", "there is a str"),
            (lambda tensors: [[tensors[0].piece((9,), (1,))]], "sharding", "u"),
        ]:
            self.refuses(code, words, manager.save, 3, state, policy=policy)
        manager.save(3, state)

    def test_home_from_the_nodes(self):
        manager = self.manager(tier={"directory": self.directory + "-nodes", "protection": "none"})
        manager.save(1, {"u": np.zeros(3)})
        manager.save(2, {"u": np.ones(3)})
        manager.wait()
        self.assertEqual([(one["on_nodes"], one["at_home"]) for one in manager.steps()],
                         [(False, True), (True, False)])
        manager.wait(home=True)
        self.assertEqual(cairn.open(self.directory)["u"][...].tolist(), [1, 1, 1])
        self.assertTrue(manager.steps()[1]["at_home"])

    def test_an_interrupt_while_a_save_is_on_its_way(self):
        manager = self.manager()
        array = values("float64", (500_000,))
        handle = manager.save_async(1, {"x": array})
        with self.assertRaises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(10**6):
                pass
        manager.wait()
        self.assertTrue(handle.committed)
        self.assertEqual(bits(cairn.open(handle.prefix)["x"][...]), bits(array))
