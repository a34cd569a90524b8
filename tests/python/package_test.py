"""The Python package with one rank: round trips, lazy reading, and bad input."""

import doctest
import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import unittest

import cairn
import cairn.checkpoint
import cairn.leaves
import cairn.manager
import cairn.options
import numpy as np
from case import BUILT, Case, bits, stub_errors, values
from causes_test import Causes  # noqa: F401
from code_test import Bundles, Savers, Settings  # noqa: F401  run here, too
from dtypes_test import Dtypes  # noqa: F401
from face_test import Errors, Growth, Interactive, Logs, Texts  # noqa: F401
from figures_test import Figures  # noqa: F401
from intruders_test import Arguments, Intruders  # noqa: F401
from own_test import Own  # noqa: F401
from kinds_test import Code, Kinds  # noqa: F401
from released_test import Released  # noqa: F401
from values_test import Alive, Values  # noqa: F401
from versions_test import Versions  # noqa: F401
from says import says

GOLDEN = os.environ.get("CAIRN_GOLDEN_DIR")
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128"]


class RoundTrips(Case):
    def test_every_dtype_in_both_formats(self):
        for form in ["bundle"] + (["hdf5"] if "hdf5" in BUILT else []):
            with self.subTest(form):
                self.directory += form
                manager = self.manager(store={"format": form})
                state = {name: values(name, (3, 5)) for name in DTYPES}
                prefix = manager.save(1, state)
                new = {name: np.zeros((3, 5), name) for name in DTYPES}
                self.assertEqual(manager.restore(1, new)["unused_keys"], [])
                opened = cairn.open(prefix)
                self.assertEqual(opened.format, form)
                for name in DTYPES:
                    self.assertEqual(bits(new[name]), bits(state[name]), name)
                    self.assertEqual(opened[name].dtype, np.dtype(name))
                    self.assertEqual(bits(opened[name][...]), bits(state[name]), name)

    def test_small_floats(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not there")
        names = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"]
        state = {name: np.arange(7).astype(getattr(ml_dtypes, name)) for name in names}
        new = {name: np.zeros_like(value) for name, value in state.items()}
        manager = self.manager()
        prefix = manager.save(1, state)
        manager.restore_latest(new)
        for name in names:
            self.assertEqual(bits(new[name]), bits(state[name]), name)
            self.assertEqual(cairn.open(prefix)[name].dtype, state[name].dtype)

    def test_nested_dicts_lists_numbers_and_texts(self):
        manager = self.manager()
        state = {
            "model": {"layers": [{"w": np.ones(2)}, {"w": np.full(2, 2.0)}]},
            "step": 10, "rate": 0.1, "done": True, "z": 1 + 2j, "big": 2**63 + 1,
            "small": np.float32(0.5), "name": "Größe", "raw": b"\xff\0", "tags": ["a", "", "ü"],
            3: np.arange(3),
        }
        prefix = manager.save(1, state)
        self.assertIn("model/layers/1/w", cairn.open(prefix))
        new = {
            "model": {"layers": [{"w": np.zeros(2)}, {"w": np.zeros(2)}]},
            "step": 0, "rate": 0.0, "done": False, "z": 0j, "big": 2**63,
            "small": np.float32(0), "name": "", "raw": b"", "tags": ["", "", ""],
            3: np.zeros(3, np.int64),
        }
        tags = new["tags"]
        manager.restore_latest(new)
        self.assertEqual(new["model"]["layers"][1]["w"].tolist(), [2, 2])
        for key in ["step", "rate", "done", "z", "big", "small", "name", "raw", "tags"]:
            self.assertEqual(new[key], state[key], key)
            self.assertIs(type(new[key]), type(state[key]), key)
        self.assertIs(new["tags"], tags)
        self.assertEqual(new[3].tolist(), [0, 1, 2])

    def test_views_need_no_copy(self):
        field = values("float64", (6, 7, 8))
        views = {
            "halo": np.s_[1:-1, 1:-1, 1:-1], "reversed": np.s_[::-1, :, ::-2],
            "turned": None, "column": np.s_[:, 3, 2],
        }

        def state_of(array):
            return {name: array.T if cut is None else array[cut] for name, cut in views.items()}

        manager = self.manager()
        prefix = manager.save(1, state_of(field))
        for name, view in state_of(field).items():
            self.assertEqual(bits(cairn.open(prefix)[name][...]), bits(view), name)
            new = np.zeros_like(field)
            target = state_of(new)[name]
            manager.restore(1, {name: target})
            self.assertEqual(bits(target), bits(view), name)
            self.assertEqual(np.count_nonzero(new), np.count_nonzero(view), name)

    def test_slices_and_patches_of_a_global_tensor(self):
        whole = values("int32", (8, 6))
        parts = [cairn.slice(whole[:3], (8, 6), (0, 0)), cairn.slice(whole[3:], (8, 6), (3, 0))]
        manager = self.manager()
        prefix = manager.save(1, {"u": cairn.patches(parts)})
        tensor = cairn.open(prefix)["u"]
        self.assertEqual([(s[0], s[1]) for s in tensor.slices],
                         [((0, 0), (3, 6)), ((3, 0), (5, 6))])
        right = np.zeros((8, 2), np.int32)
        self.refuses("coverage", "u", manager.save, 2, {"u": cairn.slice(right, (8, 6), (0, 4))})
        left = np.zeros((8, 4), np.int32)
        manager.restore(1, {"u": cairn.patches([cairn.slice(left, (8, 6), (0, 0)),
                                                cairn.slice(right, (8, 6), (0, 4))])})
        self.assertEqual(bits(np.concatenate([left, right], 1)), bits(whole))

    def test_dlpack_and_read_only(self):
        class Speaker:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **named):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        array = values("float32", (4, 3))
        manager = self.manager()
        prefix = manager.save(1, {"x": Speaker(array.T)})
        self.assertEqual(bits(cairn.open(prefix)["x"][...]), bits(array.T))
        new = np.zeros((3, 4), np.float32)
        manager.restore(1, {"x": Speaker(new)})
        self.assertEqual(bits(new), bits(array.T))
        new.flags.writeable = False
        self.refuses("invalid_argument", "const", manager.restore, 1, {"x": new})

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not there")
        manager = self.manager()
        state = {"w": torch.nn.Parameter(torch.randn(3, 4)), "b": torch.randn(5).bfloat16()}
        manager.save(1, state)
        new = {"w": torch.nn.Parameter(torch.zeros(3, 4)), "b": torch.zeros(5).bfloat16()}
        manager.restore_latest(new)
        self.assertTrue(torch.equal(new["w"], state["w"]))
        self.assertTrue(torch.equal(new["b"], state["b"]))

    def test_asynchronous(self):
        manager = self.manager(max_to_keep=2)
        array = np.arange(1000.0)
        handle = manager.save_async(1, {"u": array, "text": "first"})
        array[:] = -1  # the copy is made
        del array
        gc.collect()
        handle.wait_written()
        manager.wait()
        self.assertTrue(handle.committed, handle.stage)
        self.assertIsNone(handle.error)
        self.assertEqual(cairn.open(handle.prefix)["u"][999], 999.0)
        self.assertEqual(manager.statistics()["committed"], 1)
        # A value whose last reference is the call lives as long as needed.
        handle = manager.save_async(2, {"u": np.full(1000, 3.0)})
        gc.collect()
        manager.wait()
        self.assertEqual(set(cairn.open(handle.prefix)["u"][...]), {3.0})

    def test_a_directory_that_is_removed(self):
        manager = self.manager()
        state = {"u": np.arange(10.0)}
        for step in (1, 2, 3):
            manager.save_async(step, state)
            manager.wait()
        shutil.rmtree(self.directory)
        handle = manager.save_async(4, state)
        self.refuses("not_found", "the checkpoint directory was removed", handle.wait_written)
        self.assertEqual(handle.error.code, "not_found")
        self.refuses("not_found", "step 5 was not saved: the save of step 4 failed: the checkpoint directory",
                     manager.save_async, 5, state)
        self.assertEqual(handle.stage, "failed")

    def test_history_pins_and_descriptions(self):
        manager = self.manager(max_to_keep=1)
        state = {"u": cairn.described(np.zeros(3), units="m/s", dimensions=["x"], order=2)}
        manager.save(1, state, attributes={"time": 0.5, "list": [1, "a"]}, metric=3.5)
        manager.pin(1)
        manager.save(2, state)
        manager.save(3, state)
        self.assertEqual(cairn.steps(self.directory), [1, 3])
        self.assertEqual([(s["step"], s["pinned"]) for s in manager.steps()],
                         [(1, True), (3, False)])
        opened = manager.open(1)
        self.assertEqual(opened.attributes, {"time": 0.5, "list": [1, "a"]})
        self.assertEqual((opened.step, opened.meta["metric"]), (1, 3.5))
        tensor = opened["u"]
        self.assertEqual((tensor.units, tensor.dimensions, tensor.attributes),
                         ("m/s", ["x"], {"order": 2}))
        self.assertEqual(cairn.open(self.directory).step, 3)

    def test_attributes_that_are_not_json(self):
        manager = self.manager()
        circle = []
        circle.append(circle)
        for wrong in (float("nan"), [1, float("-inf")], b"x", {1, 2}, circle, 1j, np.zeros(2)):
            with self.assertRaisesRegex((TypeError, ValueError), says("attribute 'a' is not JSON: ")):
                cairn.described(np.zeros(3), a=wrong)
            with self.assertRaisesRegex(cairn.Error, says("attribute 'a' is not JSON: ")):
                manager.save(1, {"u": np.zeros(3)}, attributes={"a": wrong})
        self.assertEqual(manager.steps(), [])

    def test_should_save_and_stop(self):
        manager = self.manager(stop={"time_limit": False}, when={"interval": {"steps": 10}})
        asked = [manager.should_save(step) for step in range(1, 21)]
        self.assertEqual([i + 1 for i, yes in enumerate(asked) if yes], [10, 20])
        self.assertIsNone(manager.should_stop())
        os.kill(os.getpid(), signal.SIGUSR1)
        reasons = [manager.should_stop() for _ in range(2)]  # heard at one, answered at the next
        self.assertEqual(reasons[1][1], 75)
        self.assertIn("SIGUSR1", reasons[1][0])

    def test_the_last_save_of_a_job(self):
        # Programs of their own, whose log goes to Python until the interpreter has ended.
        program = ("import sys, resource, cairn, numpy as np\n"
                   "cairn.set_log(lambda level, text: level == 'info' or print(level, text))\n"
                   "manager = cairn.CheckpointManager(sys.argv[1])\n"
                   "state = {'u': np.zeros(1 << 19)}\n"
                   "report = manager.restore_latest(state)\n"
                   "print('restored', report and report['step'])\n"
                   "if 'limit' in sys.argv: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
                   "manager.save_async(int(sys.argv[2]), state)\n"
                   "if 'close' in sys.argv: manager.close()\n")

        def run(*arguments):
            ran = subprocess.run([sys.executable, "-B", "-c", program, self.directory, *arguments],
                                 capture_output=True, text=True, check=False)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            return ran.stdout

        for ends in ("close", "leave"):
            failed = run("5", "limit", ends)
            self.assertIn("error the asynchronous save of step 5 failed on rank 0 when no call was left to throw it: ", failed)
            self.assertRegex(run("7", ends), "warning removed from .*a save.* that did not finish: (.|\n)*"
                             "error the asynchronous save of step 7 is not committed: the manager ended")
            self.assertIn("restored 7\n", run("9", "limit", ends))
            self.assertIn("restored 7\n", run("9", ends))
            shutil.rmtree(self.directory)

    def test_a_loop_that_asks_at_its_top(self):
        for number, interval in enumerate(({"steps": 5}, {"seconds": 1e-9}, {"optimal_for": 1e-9})):
            for stops in (False, True):
                directory, state, restored = f"{self.directory}-{number}-{stops}", {"step": 1}, []
                for turn in (1, 2):
                    with cairn.CheckpointManager(directory, when={"interval": interval},
                                                 stop={"time_limit": False, "signals": ""}) as manager:
                        report = manager.restore_latest(state)
                        restored.append(report and report["step"])
                        if stops:  # heard at one question, answered at the next
                            open(f"{directory}/STOP", "w").close()
                        while state["step"] < 7 * turn:
                            if manager.should_save(state["step"]):
                                self.assertNotEqual(state["step"], restored[-1])
                                manager.save(state["step"], state)
                            if manager.should_stop():
                                break
                            state["step"] += 1
                        if not manager.steps():  # nothing tells yet what a save costs
                            manager.save(state["step"], state)
                self.assertTrue(restored[0] is None and restored[1] > 1, restored)


class Reading(Case):
    def test_any_basic_index_is_numpys(self):
        array = values("int64", (7, 5, 6))
        state = {"cut": cairn.patches([cairn.slice(array[:4], (7, 5, 6), (0, 0, 0)),
                                       cairn.slice(array[4:], (7, 5, 6), (4, 0, 0))]),
                 "scalar": np.float64(2.5), "empty": np.zeros((0, 3))}
        opened = cairn.open(self.manager().save(1, state))
        dice = random.Random(7)

        def one(size):
            kind = dice.randrange(4)
            if kind == 0:
                return dice.randrange(-size, size)
            ends = [dice.choice([None, dice.randrange(-9, 9)]) for _ in range(2)]
            return slice(*ends, dice.choice([None, 1, 2, 3, -1, -2]))

        for _ in range(300):
            index = tuple(one(size) for size in array.shape[: dice.randrange(4)])
            if dice.random() < 0.3:
                index = index[: dice.randrange(3)] + (Ellipsis,)
            if dice.random() < 0.2:
                index = (None,) + index
            got, wanted = opened["cut"][index], array[index]
            self.assertEqual(np.shape(got), np.shape(wanted), index)
            self.assertEqual(bits(got), bits(wanted), index)
        self.assertEqual(opened["scalar"][()], 2.5)
        self.assertEqual(opened["empty"][...].shape, (0, 3))
        self.assertEqual(np.asarray(opened["cut"]).sum(), array.sum())
        for bad in [(7,), (0, 0, 0, 0), (..., ...), ([0, 1],), ("a",), 1.5]:
            with self.assertRaises(IndexError):
                opened["cut"][bad]
        with self.assertRaises(KeyError):
            opened["nothing"]

    def test_only_what_is_needed_is_read(self):
        array = values("float64", (64, 1024))
        parts = [cairn.slice(array[i : i + 1], array.shape, (i, 0)) for i in range(64)]
        prefix = self.manager().save(1, {"u": cairn.patches(parts)})
        tensor = cairn.open(prefix)["u"]
        start, _, file, offset, size = tensor.slices[40]
        self.assertEqual(start, (40, 0))
        data = [f for f in os.listdir(self.directory) if f".data-{file:05d}" in f][0]
        with open(os.path.join(self.directory, data), "r+b") as broken:
            broken.seek(offset + size // 2)
            byte = broken.read(1)[0]
            broken.seek(offset + size // 2)
            broken.write(bytes([byte ^ 1]))
        self.assertEqual(bits(tensor[10:20]), bits(array[10:20]))  # not looked at
        error = self.refuses("data_loss", "u", lambda: tensor[39:41])
        self.assertEqual(error.tensor, "u")

    @unittest.skipUnless(GOLDEN, "no checkpoints of TensorFlow")
    def test_tensorflows(self):
        opened = cairn.open(os.path.join(GOLDEN, "strings", "ckpt"))
        self.assertIsNone(opened.meta)
        with open(os.path.join(GOLDEN, "strings", "expected.json")) as file:
            entries = {e["key"]: e for e in json.load(file)["checkpoints"][0]["tensors"]}
        self.assertEqual(set(opened), set(entries))
        for key, entry in entries.items():
            self.assertEqual(list(opened[key].shape), entry["shape"], key)
            texts = np.ravel(np.asarray(opened[key][...], object)).tolist()
            if "strings" in entry:  # else they are too long to be listed
                self.assertEqual([text.hex() for text in texts], entry["strings"], key)


class BadInput(Case):
    def test_values_that_no_checkpoint_holds(self):
        manager = self.manager()
        fields = np.zeros(3, [("a", np.int8), ("b", np.float64)])
        for value, words in [
            (np.zeros(3, ">f8"), "newbyteorder"),
            (np.array([None, 1]), "objects"),
            (np.array(["a"]), "list of str"),
            (np.array(["2026-01-01"], "datetime64[D]"), "view('int64')"),
            (fields, "fields"),
            (fields["b"], "multiples"),
            (np.void(b"abc"), "void24"),
            (object(), "object"), ({object: 2}, "class 'object'"), (cairn.patches([]), "no patch"),
        ]:
            with self.subTest(words):
                error = self.refuses("invalid_argument", words, manager.save, 1, {"x": value})
                self.assertTrue(error.tensor.startswith("x"), error.tensor)
        self.refuses("invalid_argument", "dict", manager.save, 1, [1])
        self.refuses("invalid_argument", "belong together", cairn.slice, np.zeros(2), (4,))
        self.assertEqual(manager.steps(), [])

    def test_restores_into_something_else(self):
        manager = self.manager()
        manager.save(1, {"x": np.arange(3.0)})
        error = self.refuses("invalid_argument", "float32", manager.restore, 1,
                             {"x": np.zeros(3, np.float32)})
        self.assertEqual(error.tensor, "x")
        new = np.zeros(3, np.float32)
        manager.restore(1, {"x": new}, convert="exact")
        self.assertEqual(new.tolist(), [0, 1, 2])
        self.refuses("not_found", "y", manager.restore, 1, {"x": np.zeros(3), "y": 1})
        for missing in (["y"], ("y",), "y"):
            self.assertEqual(manager.restore(1, {"x": np.zeros(3), "y": 1}, may_be_missing=missing)["kept_keys"], ["y"])
        kept = manager.restore(1, {"x": np.zeros(3), "y": 1}, may_be_missing={"y"})
        self.assertEqual(kept["kept_keys"], ["y"])
        self.refuses("not_found", "7", manager.restore, 7, {"x": np.zeros(3)})

    def test_options_by_their_names(self):
        error = self.refuses("invalid_argument", "max_to_keep", cairn.CheckpointManager,
                             self.directory, max_to_kep=3)
        self.assertEqual((error.rank, error.way_out), (0, "Did you mean 'max_to_keep'?"))
        self.refuses("invalid_argument", "bundle", cairn.CheckpointManager, self.directory,
                     store={"format": "zip"})
        code, words = ("invalid_argument", "communicator") if cairn.has_mpi else ("unsupported", "no MPI")
        self.refuses(code, words, cairn.CheckpointManager, self.directory, comm=7)
        self.assertIn("store.format", cairn.option_names())

    def test_frozen_tensors_are_written_once(self):
        state = {"model": {"w": np.arange(5000.0)}, "step": 0}
        with cairn.CheckpointManager(self.directory, frozen={"keys": ["model/*"]}) as manager:
            for state["step"] in range(1, 4):
                manager.save(state["step"], state)
            last = manager.statistics()["last"]
            self.assertEqual([(save["bytes"], save["unchanged_bytes"], save["recycled_files"]) for save in last],
                             [(40008, 0, 0), (8, 0, 0), (8, 0, 0)])
            self.assertGreater(min(save["peak_resident_bytes"] for save in last), 40008)
            state["model"]["w"] = np.zeros(5000)
            manager.restore(2, state)
        self.assertTrue(np.array_equal(state["model"]["w"], np.arange(5000.0)))
        self.assertEqual(state["step"], 2)

    def test_one_thread_at_a_time_and_closed(self):
        manager = self.manager()
        array = np.zeros(30_000_000)
        answers = []

        def save():
            try:
                manager.save(1, {"x": array})
                answers.append("saved")
            except cairn.Error as error:
                answers.append(error.code)

        threads = [threading.Thread(target=save) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers.count("saved"), 1)
        self.assertLessEqual(set(answers), {"saved", "busy", "already_exists"})
        manager.close()
        manager.close()
        self.refuses("invalid_argument", "closed", manager.save, 2, {"x": 1})
        cairn.CheckpointManager(self.directory).close()  # it was given up

    def test_forked_children(self):
        manager = self.manager()
        manager.save(1, {"x": 1})
        child = os.fork()
        if child == 0:
            try:
                manager.save(2, {"x": 1})
            except cairn.Error as error:
                os._exit(7 if "forked" in str(error) else 8)
            os._exit(9)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        manager.save(2, {"x": 2})
        self.assertEqual(cairn.steps(self.directory), [1, 2])

    def run_child(self, text):
        return subprocess.run([sys.executable, "-c", text, self.directory], text=True,
                              capture_output=True, timeout=60)

    def test_the_interpreter_ends_with_a_save_in_flight(self):
        ran = self.run_child(
            "import sys, cairn, numpy\n"
            "m = cairn.CheckpointManager(sys.argv[1])\n"
            "m.save_async(5, {'x': numpy.arange(1e6)})\n")
        self.assertEqual(ran.returncode, 0)
        self.assertRegex(ran.stderr, "^cairn: error: the asynchronous save of step 5 is not committed: .*\n$")
        new = {"x": np.zeros(1_000_000)}  # the owner that comes next completes it
        self.assertEqual(self.manager().restore_latest(new)["step"], 5)
        self.assertEqual(new["x"][-1], 999_999.0)

    def test_an_interrupt_comes_after_the_save(self):
        ran = self.run_child(
            "import os, signal, sys, threading, cairn, numpy\n"
            "m = cairn.CheckpointManager(sys.argv[1])\n"
            "go = threading.Event()\n"
            "def interrupt(): go.wait(); os.kill(os.getpid(), signal.SIGINT)\n"
            "threading.Thread(target=interrupt).start()\n"
            "try:\n"
            "    for step in range(1, 10**6):\n"
            "        m.save(step, {'x': numpy.arange(1e5)})\n"
            "        if step == 3: go.set()\n"
            "except KeyboardInterrupt:\n"
            "    m.close(); print('interrupted')\n")
        self.assertEqual(ran.stdout, "interrupted\n", ran.stderr)
        for step in cairn.steps(self.directory):
            self.assertEqual(cairn.open(f"{self.directory}/ckpt-{step}")["x"][-1], 99_999.0)


class Package(Case):
    def test_examples_of_the_docstrings(self):
        for module in [cairn, cairn.bundle, cairn.checkpoint, cairn.cursor, cairn.leaves, cairn.manager,
                       cairn.options]:
            failed, tried = doctest.testmod(module)
            self.assertGreater(tried, 0, module)
            self.assertEqual(failed, 0, module)

    def test_names_that_are_promised_are_there(self):
        self.assertEqual(stub_errors(cairn), [])
        for name in cairn.__all__:
            self.assertTrue(hasattr(cairn, name), name)


if __name__ == "__main__":
    unittest.main()
