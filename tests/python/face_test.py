"""What Python programs expect: classes of errors, logging, readable texts, pickling, the
interactive interpreter, and that 500 saves leave nothing behind."""

import copy
import errno
import gc
import inspect
import logging
import os
import pickle
import re
import subprocess
import sys
import unittest.mock
from pathlib import Path

import cairn
import numpy as np
from case import Case
from says import says


class Errors(Case):
    def test_each_is_of_the_built_in_class_too(self):
        manager = self.manager()
        manager.save(1, {"x": np.zeros(3)})
        blocked = os.path.join(self._scratch.name, "file")
        with open(blocked, "w"):
            pass
        for kind, code, number, call in [
            (ValueError, "invalid_argument", None, lambda: manager.save(2, {"x": object()})),
            (ValueError, "invalid_argument", None, lambda: cairn.open(3)),
            (ValueError, "invalid_argument", None, lambda: cairn.CheckpointManager("x", max_to_kep=1)),
            (FileNotFoundError, "not_found", errno.ENOENT, lambda: cairn.open(blocked + "-none")),
            (FileNotFoundError, "not_found", errno.ENOENT, lambda: manager.restore(7, {"x": np.zeros(3)})),
            (KeyError, "not_found", None, lambda: manager.restore(1, {"y": np.zeros(3)})),
            (FileExistsError, "already_exists", errno.EEXIST, lambda: manager.save(1, {"x": np.zeros(3)})),
            (OSError, "io", errno.ENOTDIR, lambda: cairn.CheckpointManager(blocked + "/run")),
            (OSError, "io", errno.ENAMETOOLONG, lambda: cairn.CheckpointManager(self.directory + "x" * 300)),
            (NotImplementedError, "unsupported", None, lambda: self.of_a_later_version(manager)),
        ]:
            error = self.refuses(code, "", call)
            self.assertIsInstance(error, kind)
            self.assertIsInstance(error, RuntimeError)
            self.assertTrue(str(error).startswith(error.problem), str(error))
            if number is not None:
                self.assertEqual(error.errno, number)
            if kind is OSError:
                self.assertIsNotNone(error.errno)
                self.assertEqual(os.strerror(error.errno), error.strerror)
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), vars(again), getattr(again, "errno", 0)),
                             (type(error), str(error), vars(error), getattr(error, "errno", 0)))
        self.assertIsInstance(cairn.errors.made("no answer", "unavailable"), TimeoutError)
        # Other errors are plain cairn.Error.
        self.assertIs(type(self.refuses("busy", "", lambda: cairn.CheckpointManager(self.directory))), cairn.Error)
        self.assertEqual(str(cairn.Error("by hand")), "by hand")

    def test_they_say_what_python_writes(self):
        manager = self.manager()
        manager.save(1, {"x": np.zeros(3)})
        error = self.refuses("already_exists", "", lambda: manager.save(1, {"x": np.zeros(3)}))
        self.assertTrue(error.way_out.endswith("or set 'overwrite'."), error.way_out)
        error = self.refuses("invalid_argument", "", lambda: manager.restore(1, {"x": np.zeros(4)}))
        self.assertIn("'convert'", str(error))
        for text in (str(error), error.way_out):
            self.assertNotIn("::", text)

    def test_options_of_cpp_in_messages_are_translated(self):
        root = Path(__file__).parents[2]
        words = (root / "src/base/face_words.hpp").read_text(encoding="utf-8")
        known = re.findall(r'^    \{"(\w+)", "[\w.]*"\},$', words, re.MULTILINE)
        headers = "".join(path.read_text(encoding="utf-8") for path in (root / "include/cairn").glob("*.hpp"))
        options = re.findall(r"^struct (\w*(?:Options|Limits|Ranks|Retention))\b", headers, re.MULTILINE)
        options += re.findall(r"^enum class (\w+)", headers, re.MULTILINE)
        for path in (root / "src").rglob("*.cpp"):
            lines = path.read_text(encoding="utf-8").splitlines()
            text = " ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', "\n".join(
                line for line in lines if not line.lstrip().startswith(("//", "#")))))
            for kind in set(re.findall(r"\b([A-Z]\w+)::[a-z]", text)) & set(options):
                self.assertIn(kind, known, path)

    def of_a_later_version(self, manager):
        manager.save(9, {"z": cairn.described(np.zeros(1), **{"cairn.python": "who"})})
        return manager.restore(9, {"z": None})

    def test_bases_of_one_do_not_catch_another(self):
        manager = self.manager()
        with self.assertRaises(cairn.Error) as caught:
            manager.restore(1, {"x": 1})
        self.assertNotIsInstance(caught.exception, (ValueError, KeyError))


class Logs(Case):
    def test_logging_gets_the_messages(self):
        options = {"tier": {"directory": self.directory + "-nodes", "protection": "none"}}  # on one disk: warns
        with self.assertLogs("cairn", "INFO") as logs:
            self.manager(**options)
        self.assertIn(("WARNING", "cairn"), [(one.levelname, one.name) for one in logs.records])
        self.assertIn("is on the same disk", logs.output[0])
        # A message that is not logged there is not printed elsewhere.
        handler = logging.NullHandler()
        logging.getLogger("cairn").addHandler(handler)
        self.addCleanup(logging.getLogger("cairn").removeHandler, handler)
        self.directory += "2"
        with unittest.mock.patch.object(sys, "stderr") as stderr:
            self.manager(**options)
        stderr.write.assert_not_called()

    def test_what_a_restore_leaves_out_is_told(self):
        manager = self.manager()
        manager.save(1, {"x": 1})
        with self.assertLogs("cairn", "INFO") as logs:
            manager.restore(1, {"y": 2}, may_be_missing=["y"])
        self.assertIn("the state has not wanted: 'x'", logs.output[0])
        self.assertTrue(logs.output[0].endswith("say that it is meant: 'unused' = 'silent'"), logs.output[0])
        self.assertEqual([one.levelname for one in logs.records], ["WARNING", "INFO"])
        self.assertIn("which stay as they are: 'y'", logs.output[1])

    def test_what_a_rule_has_let_go_is_missed(self):
        manager = self.manager(keep={"keys": ["optimizer/*:last=2"], "last": 0},
                               store={"application": {"name": "toy", "version": "2"}})
        for step in 1, 2, 3:
            manager.save(step, {"model": np.full(3, float(step)), "optimizer": {"m": np.ones(2), "lr": 0.5}})
        self.assertEqual(manager.open(1).meta["thinned"], ["optimizer/*"])
        self.assertEqual(manager.open(3).meta["application"], {"name": "toy", "version": "2", "commit": ""})
        for value in None, {}, {"m": np.zeros(2), "lr": 0.0}:
            with self.assertRaisesRegex(cairn.errors.MissingKey, "thinned by the rule 'optimizer/\\*' after step 3"):
                manager.restore(1, {"model": np.zeros(3), "optimizer": value})
        state = {"model": None, "optimizer": None}
        self.assertEqual(manager.restore_latest(state)["step"], 3)
        self.assertEqual(state["optimizer"]["lr"], 0.5)
        part = {"model": None}
        with self.assertNoLogs("cairn", "WARNING"):
            manager.restore(1, part, unused="silent")
        self.assertEqual(part["model"].tolist(), [1, 1, 1])
        manager.close()
        manager = self.manager(store={"application": {"name": "toy", "version": "1.9"}})
        with self.assertRaisesRegex(cairn.Error, says("newer than this one, toy 1.9")):
            manager.restore_latest({"model": None, "optimizer": None})
        self.assertEqual(manager.restore_latest({"model": None, "optimizer": None}, accept=["2*"])["step"], 3)

    def test_rules_by_turns_and_rules_that_are_none(self):
        rules = [{"keys": "optimizer/*", "last": 0, "every": 2}]
        manager = self.manager(keep={"keys": rules, "last": 0})
        state = {"model": np.zeros(3), "optimizer": {"m": np.ones(2)}}
        for step in 1, 2, 3, 4:
            manager.save(step, state)
        self.assertEqual([manager.open(step).meta["thinned"] for step in (1, 2, 3, 4)],
                         [[], ["optimizer/*"], [], ["optimizer/*"]])
        # Not even if all keys may be missing.
        self.assertEqual(manager.restore_latest(state, strict=False)["step"], 3)
        named = manager.restore_latest(state, may_be_missing=["optimizer/*"])
        self.assertEqual(named["step"], 4)
        for wrong in ([("optimizer/*", 2)], [""], ["optimizer/*:keep=2"], [{"key": "x"}], [3]):
            with self.assertRaisesRegex(ValueError, "rule|KEYS"):
                cairn.CheckpointManager(self.directory + "2", keep={"keys": wrong})

    def test_a_program_that_gives_up_has_had_a_try(self):
        program = ("import cairn, sys\n"
                   "with cairn.CheckpointManager(sys.argv[1]) as manager:\n"
                   "    print(manager.restore_latest({'x': 0})['step'])\n"
                   "    sys.exit(int(sys.argv[2]))\n")
        manager = self.manager()
        for step in 1, 2:
            manager.save(step, {"x": step})
        manager.close()
        steps = [subprocess.run([sys.executable, "-B", "-c", program, self.directory, code], capture_output=True,
                                text=True).stdout.strip() for code in ("0", "3", "0", "3", "0", "3", "0")]
        self.assertEqual(steps, ["2"] * 6 + ["1"])

    def test_standard_error_where_logging_is_not_set_up(self):
        if logging.getLogger("cairn").hasHandlers():
            self.skipTest("logging is set up")
        with unittest.mock.patch.object(sys, "stderr") as stderr:
            self.manager(tier={"directory": self.directory + "-nodes", "protection": "none"})
        text = "".join(call.args[0] for call in stderr.write.call_args_list)
        self.assertRegex(text, r"^cairn: the tier .* is on the same disk as .*\n$")
        self.directory += "2"
        manager = self.manager()
        for level, says in ("warning", ""), ("info", "saved step 1"):
            with unittest.mock.patch.dict(os.environ, CAIRN_LOG=level), \
                    unittest.mock.patch.object(sys, "stderr") as stderr:
                manager.save(1, {"x": 1}, overwrite=True)
            text = "".join(call.args[0] for call in stderr.write.call_args_list)
            self.assertTrue(says in text if says else not text, text)


class Restarts(Case):
    def test_steps_are_marked(self):
        with self.manager() as manager:
            manager.save(1, {"x": 1})
            manager.save(2, {"x": 2})
            manager.mark(2, "bad")
            self.assertIn("bad", manager.steps()[1]["passed_over"])
            report = manager.restore_latest({"x": 0})
            self.assertEqual((report["step"], len(report["skipped"])), (1, 1))
            manager.mark(2, "good")
            self.assertEqual(manager.restore_latest({"x": 0})["step"], 2)
            self.refuses("invalid_argument", "'worse'", manager.mark, 2, "worse")
            self.refuses("not_found", "3", manager.mark, 3, "bad")

    def test_runs_that_raise_have_failed(self):
        with self.manager() as manager:
            manager.save(1, {"x": 1})
            manager.save(2, {"x": 2})
        for _ in range(2):
            with self.assertRaises(ZeroDivisionError), self.manager() as manager:
                self.assertEqual(manager.restore_latest({"x": 0})["step"], 2)
                1 / 0
        for _ in range(3):  # in good order
            with self.manager() as manager:
                self.assertEqual(manager.restore_latest({"x": 0})["step"], 2)
        program = ("import sys, cairn\n"
                   "manager = cairn.CheckpointManager(sys.argv[1])\n"
                   "print(manager.restore_latest({'x': 0})['step'])\n"
                   "1 / 0\n")
        for step in ("2", "1"):
            ran = subprocess.run([sys.executable, "-B", "-c", program, self.directory], capture_output=True,
                                 text=True, check=False)
            self.assertEqual(ran.stdout.strip(), step, ran)
            self.assertIn("ZeroDivisionError", ran.stderr)


class Interactive(Case):
    def test_a_cell_that_is_run_again(self):
        state = {"x": np.arange(3.0)}
        first = self.manager()
        first.save(1, state)
        handle = first.save_async(2, state)
        self.refuses("busy", "in use by this very process", self.manager)
        with unittest.mock.patch.object(sys, "ps1", ">>> ", create=True):
            reader, other = self.manager(read_only=True), self.manager(name="other")
            self.assertNotIn("closed", repr(first))
            reader.close(), other.close()
            second = self.manager()
        self.refuses("invalid_argument", "closed", first.save, 3, state)
        self.assertIn("closed", repr(first))
        self.assertNotIn("closed", repr(second))
        self.assertEqual(second.restore_latest(state)["step"], 2)
        self.assertEqual(handle.step, 2)
        second.save(3, state)

    def test_a_manager_that_nobody_has_any_more(self):
        class Owner:
            def __init__(self, directory):
                self.manager = cairn.CheckpointManager(directory, hooks={"before_save": [self.before]})
                self.steps = []

            def before(self, step):
                self.steps.append(step)

        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for step in (1, 2, 3):  # each while the one before it waits for the collector
            owner = Owner(self.directory)
            owner.manager.save(step, {"x": 1})
            self.assertEqual(owner.steps, [step])
            del owner


    def test_an_interrupt_while_the_interpreter_ends(self):
        program = ("import sys, cairn, cairn.manager\n"
                   "class Interrupted:\n"
                   "    calls = 0\n"
                   "    def end(self, failed):\n"
                   "        self.calls += 1\n"
                   "        if self.calls == 1: raise KeyboardInterrupt\n"
                   "        print('ended')\n"
                   "class Manager:\n"
                   "    _native = Interrupted()\n"
                   "one, manager, other = Manager(), cairn.CheckpointManager(sys.argv[1]), Manager()\n"
                   "cairn.manager._managers.update([one, other])\n"
                   "cairn.set_log(lambda level, text: print(level))\n"
                   "manager.save_async(1, {'x': 1})\n")
        ran = subprocess.run([sys.executable, "-B", "-c", program, self.directory], capture_output=True,
                             text=True, check=False)
        self.assertEqual((ran.stdout.count("ended"), ran.stdout.count("error")), (2, 1), ran)
        self.assertIn("KeyboardInterrupt", ran.stderr)
        self.assertEqual(self.manager().restore_latest({"x": 0})["step"], 1)


class Texts(Case):
    def test_reprs_say_something(self):
        manager = self.manager()
        handle = manager.save_async(1, {"u": np.zeros((2, 3))})
        manager.wait()
        opened = cairn.open(self.directory)
        part = cairn.slice(np.zeros((2, 3)), (4, 3), (2, 0))
        for value, text in [
            (manager, f"<cairn.CheckpointManager {self.directory!r}>"),
            (handle, "<cairn.SaveHandle of step 1: committed>"),
            (opened["u"], "<cairn.Tensor 'u' float64 (2, 3)>"),
            (opened, f"<cairn.Checkpoint {opened.prefix!r}: 1 tensors>"),
            (part, "cairn.slice(array=<float64 (2, 3)>, shape=(4, 3), start=(2, 0), storage='automatic')"),
            (cairn.patches([part]), f"cairn.patches(parts=[{part!r}], storage='automatic')"),
            (cairn.nothing("f4", (2,)), "cairn.nothing(dtype=dtype('float32'), shape=(2,))"),
            (cairn.resizable(["a"]), "cairn.resizable(value=['a'])"),
            (cairn.Saver("table", print, print), "<cairn.Saver 'table'>"),
            (cairn.PerDevicePolicy(), "cairn.PerDevicePolicy(None)"),
            (cairn.BundleWriter(self.directory + "/t"), f"<cairn.BundleWriter '{self.directory}/t'>"),
        ]:
            self.assertEqual(repr(value), text)

    def test_all_that_is_public_has_a_text(self):
        for name in cairn.__all__:
            value = getattr(cairn, name)
            if not callable(value):
                continue
            self.assertTrue(inspect.getdoc(value), name)
            if inspect.isclass(value) and value.__module__.startswith("cairn"):
                for method, its in vars(value).items():
                    if not method.startswith("_") and callable(its):
                        self.assertTrue(inspect.getdoc(its), f"{name}.{method}")

    def test_what_cannot_go_to_another_process_says_so(self):
        manager = self.manager()
        seen = []
        handle = manager.save_async(1, {"u": np.zeros(2)}, policy=lambda tensors: seen.extend(tensors) or [tensors])
        manager.wait()
        opened = cairn.open(self.directory)
        for value in (manager, handle, opened, opened["u"], seen[0], cairn.MaxShardSizePolicy(5),
                      cairn.PerDevicePolicy(cairn.MaxShardSizePolicy(5)), cairn.BundleWriter(self.directory + "/t")):
            for way in (pickle.dumps, copy.deepcopy):
                self.refuses("invalid_argument", "cannot be copied or pickled", way, value)
        part = pickle.loads(pickle.dumps(cairn.slice(np.arange(3), (6,), (3,))))  # what is data can
        self.assertEqual((part.array.tolist(), part.shape), ([0, 1, 2], (6,)))

    def test_truth_values_as_numpy_has_them(self):
        arrays = {"u": np.arange(12.0).reshape(3, 4), "scalar": np.array(2.5), "texts": ["a", "b"]}
        opened = cairn.open(self.manager().save(1, arrays))
        for key, array in [("u", arrays["u"]), ("scalar", arrays["scalar"]),
                           ("texts", np.array([b"a", b"b"], object))]:
            for index in (True, False, np.True_, (True, ...), (..., False), (True, True), (True, None)):
                got, wanted = opened[key][index], array[index]
                self.assertEqual((got.shape, got.dtype, got.tolist()),
                                 (wanted.shape, wanted.dtype, wanted.tolist()), (key, index))
        self.assertEqual(opened["u"][1, True].tolist(), arrays["u"][1, True].tolist())


class Growth(Case):
    def test_saves_and_restores_leave_nothing_behind(self):
        def counts():
            gc.collect()
            with open("/proc/self/statm") as memory:
                pages = int(memory.read().split()[1])
            return len(gc.get_objects()), len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE")

        manager = self.manager(max_to_keep=2)
        state = {"u": np.zeros(10_000), "n": 1, "t": "text", "l": [1, None], "d": {0.5: 1}}
        for step in range(1, 161):
            state["n"] = step
            manager.save(step, state) if step % 2 else manager.save_async(step, state)
            manager.wait()
            manager.restore(step, {"u": np.zeros(10_000), "n": 0, "t": "", "l": [], "d": None})
            if step == 60:
                before = counts()
        after = counts()
        self.assertLess(after[0] - before[0], 100)
        self.assertEqual(after[1], before[1])
        self.assertLess(after[2] - before[2], 4 << 20)  # 100 states of 80 KB are 8 MB
