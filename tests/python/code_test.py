"""Code and objects of an application: savers and their bundles, devices, clocks, a log."""

import gc
import os
import subprocess
import sys

import cairn
import numpy as np
from case import BUILT, Case, bits, values


class Savers(Case):
    def test_a_saver_takes_part(self):
        table, log = values("float32", (7, 3)), []

        def save(prefix):
            with cairn.BundleWriter(prefix + "-table") as writer:
                writer.add("table", table)
                writer.add("half", cairn.slice(table[:4], (7, 3), (0, 0)))
            with cairn.BundleWriter(prefix + "-more") as writer:
                writer.add("half", cairn.slice(table[4:], (7, 3), (4, 0)))
            log.append(prefix)
            return [prefix + "-table", prefix + "-more"]

        def restore(prefix):
            log.append(cairn.open(prefix)["half"][...])

        manager = self.manager(hooks={"savers": [cairn.Saver("table", save, restore)]})
        state = {"u": np.arange(3.0)}
        prefix = manager.save(1, state)
        for key in ["table", "half"]:
            self.assertEqual(bits(cairn.open(prefix)[key][...]), bits(table))
        self.assertEqual(bits(cairn.open(prefix)["u"][...]), bits(state["u"]))
        manager.restore_latest(state)
        self.assertEqual(bits(log[1]), bits(table))
        manager.save_async(2, state)
        manager.wait()
        self.assertEqual(bits(cairn.open(self.directory)["table"][...]), bits(table))

    def test_what_savers_do_wrongly(self):
        now = {}

        def save(prefix):
            return now["save"](prefix)

        def restore(prefix):
            now["restore"](prefix)

        def gap(prefix):
            with cairn.BundleWriter(prefix + "-gap") as writer:
                writer.add("half", cairn.slice(np.zeros(2), (3,), (0,)))
            return [prefix + "-gap"]

        def breaks_off(prefix):
            with cairn.BundleWriter(prefix + "-part") as writer:
                writer.add("x", 1)
                raise OSError("no more")

        manager = self.manager(hooks={"savers": [cairn.Saver("it", save, restore)]})
        state = {"u": np.arange(3.0)}
        for wrong, code, words in [
            (lambda prefix: prefix, "application", "there is a str"),
            (lambda prefix: 7, "application", "there is a int"),
            (lambda prefix: [7], "application", "int"),
            (gap, "invalid_argument", "half"),
            (breaks_off, "application", "no more"),
        ]:
            now["save"] = wrong
            self.assertIn("it", str(self.refuses(code, words, manager.save, 1, state)))
        now["save"] = lambda prefix: None
        prefix = manager.save(1, state)
        self.assertEqual({name.split(".")[0] for name in os.listdir(self.directory) if "ckpt-" in name},
                         {os.path.basename(prefix)})
        now["restore"] = lambda prefix: 1 / 0
        self.refuses("application", "ZeroDivisionError", manager.restore, 1, state)

        def interrupt(prefix):
            raise KeyboardInterrupt

        now["restore"] = interrupt
        self.assertRaises(KeyboardInterrupt, manager.restore, 1, state)
        self.refuses("invalid_argument", "cairn.Saver", cairn.CheckpointManager, self.directory + "2",
                     hooks={"savers": [print]})
        if "hdf5" in BUILT:
            self.refuses("unsupported", "saver", cairn.CheckpointManager, self.directory + "2",
                         store={"format": "hdf5"}, hooks={"savers": [cairn.Saver("it", save, restore)]})


class Bundles(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.directory)
        self.prefix = os.path.join(self.directory, "one")

    def test_what_is_written_is_read(self):
        array = values("complex64", (5, 4))
        given = {"turned": array.T[::-2], "number": 7, "big": 2**63 + 1, "flag": True, "scalar": np.float32(2),
                 "empty": np.zeros((0, 3)), "wide": np.broadcast_to(np.arange(3), (2, 3))}
        with cairn.BundleWriter(self.prefix) as writer:
            for key, value in given.items():
                writer.add(key, value)
            writer.add("text", "Größe")
            writer.add("texts", ["a", b"\xff", ""])
            self.assertFalse(os.path.exists(self.prefix + ".index"))
        opened = cairn.open(self.prefix)
        for key, value in given.items():
            self.assertEqual(bits(opened[key][...]), bits(np.asarray(value)), key)
        self.assertEqual(opened["text"][()], "Größe".encode())
        self.assertEqual(opened["texts"][...].tolist(), [b"a", b"\xff", b""])
        self.refuses("already_exists", "one", cairn.BundleWriter, self.prefix)

    def test_what_no_bundle_takes(self):
        writer = cairn.BundleWriter(self.prefix)
        for value, words in [(np.zeros(2, ">f8"), "newbyteorder"), (np.array([None]), "objects"),
                             (np.ma.masked_array([1]), "masked"), (2**64, "64 bits"), (None, "NoneType"),
                             (["a", 1], "list")]:
            self.assertEqual(self.refuses("invalid_argument", words, writer.add, "x", value).tensor, "x")
        self.refuses("invalid_argument", "outside", writer.add, "x",
                     cairn.slice(np.zeros(3), (4,), (2,)))
        self.refuses("invalid_argument", "reserved", writer.add, "_cairn/x", 1)
        writer.add("x", 1)
        writer.finish()
        self.refuses("invalid_argument", "finished", writer.add, "y", 1)
        self.refuses("not_found", "nowhere", cairn.BundleWriter, self.directory + "/nowhere/one")
        self.refuses("invalid_argument", "a path", cairn.BundleWriter, None)

    def test_one_that_is_given_up_leaves_nothing(self):
        with self.assertRaises(ValueError), cairn.BundleWriter(self.prefix) as writer:
            writer.add("x", np.arange(1000.0))
            raise ValueError
        self.assertEqual(os.listdir(self.directory), [])
        self.refuses("invalid_argument", "given up", writer.add, "y", 1)
        dropped = cairn.BundleWriter(self.prefix)
        dropped.add("x", 1)
        del dropped
        gc.collect()
        self.assertEqual(os.listdir(self.directory), [])

    def test_a_forked_child_leaves_it_to_its_parent(self):
        writer = cairn.BundleWriter(self.prefix)
        writer.add("x", np.arange(5))
        child = os.fork()
        if child == 0:
            code = 8
            try:
                writer.finish()
            except cairn.Error as error:
                code = 7 if "forked" in str(error) else 9
            del writer
            gc.collect()
            os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        writer.finish()
        self.assertEqual(cairn.open(self.prefix)["x"][...].tolist(), [0, 1, 2, 3, 4])

    def test_merge(self):
        array = values("int16", (6, 2))
        parts = []
        for low, high in [(0, 2), (2, 6)]:
            parts.append(f"{self.prefix}-{low}")
            with cairn.BundleWriter(parts[-1]) as writer:
                writer.add("u", cairn.slice(array[low:high], (6, 2), (low, 0)))
        self.refuses("not_found", "u", cairn.merge, parts[:1], self.directory + "/out")
        cairn.merge(parts, self.directory + "/out", remove_inputs=True)
        self.assertEqual(bits(cairn.open(self.directory + "/out")["u"][...]), bits(array))
        self.assertFalse(os.path.exists(parts[0] + ".index"))
        self.refuses("not_found", "nothing", cairn.merge, [self.directory + "/nothing"],
                     self.directory + "/out2")
        self.refuses("invalid_argument", "a path", cairn.merge, [None], self.directory + "/out2")


class Settings(Case):
    def test_devices(self):
        seen = []

        def device_of(rank, tensor):
            seen.append((rank, tensor.dtype, tensor.shape, tensor.parts, tensor.device_type))
            number = 1 if tensor.shape == (2,) else 0
            return f"/job:worker/replica:0/task:{rank}/device:CUDA:{number}"

        devices = []

        def policy(tensors):
            devices.append([(one.key, one.device) for one in tensors])
            return [tensors]

        manager = self.manager(store={"device_of": device_of, "policy": cairn.PerDevicePolicy(policy)})
        state = {"u": np.zeros(3), "v": np.ones(2, "f4")}
        prefix = manager.save(1, state)
        self.assertIn((0, "float64", (3,), [((0,), (3,))], "CPU"), seen)
        self.assertEqual(devices, [[("u", "/job:worker/replica:0/task:0/device:CUDA:0")],
                                   [("v", "/job:worker/replica:0/task:0/device:CUDA:1")]])
        opened = cairn.open(prefix)
        self.assertEqual([opened[key].slices[0][2] for key in "uv"], [0, 1])
        self.refuses("invalid_argument", "nowhere", cairn.CheckpointManager(
            self.directory + "2", store={"device_of": lambda rank, tensor: "nowhere"}).save, 1, state)

    def test_a_clock(self):
        now = [1000.0]
        manager = self.manager(when={"clock": lambda: now[0], "interval": {"seconds": 60}})
        manager.save(1, {"x": 1})
        answers = []
        for step, now[0] in enumerate([1059.0, 1061.0, 1061.0], 2):
            answers.append(manager.should_save(step))
        self.assertEqual(answers, [False, False, True])  # heard at one, answered at the next

        def broken():
            raise ValueError("it stands still")

        with cairn.CheckpointManager(self.directory + "2", when={"clock": broken,
                                                                 "interval": {"seconds": 60}}) as manager:
            self.assertEqual([manager.should_save(step) for step in (1, 2)], [False, False])  # it is logged

    def test_a_log(self):
        # Runs as a program of its own, since the log is the process's.
        ran = subprocess.run(
            [sys.executable, "-B", "-c",
             "import sys, cairn\n"
             "said = []\n"
             "cairn.set_log(lambda level, message: said.append((level, message)))\n"
             "def on_change(handle): raise ValueError('quiet')\n"
             "m = cairn.CheckpointManager(sys.argv[1], **{'async': {'on_change': on_change}})\n"
             "m.save_async(1, {'x': 1}); m.wait()\n"
             "assert any('quiet' in text for _, text in said), said\n"
             "cairn.set_log(lambda level, message: 1 / 0)\n"
             "m.save_async(2, {'x': 1}); m.wait()\n"
             "cairn.set_log(None)\n"
             "m.save_async(3, {'x': 1}); m.wait()\n"
             "cairn.set_log(print)\n"
             "cairn.set_wait_limits(log_seconds=5)\n"
             "for wrong in [lambda: cairn.set_log(7), lambda: cairn.set_wait_limits(end_seconds=-1)]:\n"
             "    try: wrong()\n"
             "    except cairn.Error as error: assert error.code == 'invalid_argument', error\n"
             "    else: raise SystemExit('no error')\n", self.directory],
            text=True, capture_output=True, timeout=60)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
