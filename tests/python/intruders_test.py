"""Events at the wrong moment: interrupts in callbacks, other threads, forked processes, the end of
the interpreter; and invalid arguments."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import cairn
import numpy as np
from case import Case, bits, values


class Intruders(Case):
    def run_child(self, text, status=0):
        """Runs a program of its own and returns its output."""
        ran = subprocess.run([sys.executable, "-B", "-c", text, self.directory], text=True,
                             capture_output=True, timeout=60)
        self.assertEqual((ran.returncode, ran.stderr), (status, ""), ran.stdout)
        return ran.stdout

    def test_an_interrupt_in_a_callback_stays_one(self):
        for number, interrupt in enumerate([KeyboardInterrupt, SystemExit]):
            raised, state = [interrupt()], {"u": np.ones(3)}

            def strike(*given):
                if raised:
                    raise raised.pop()

            def policy(tensors):
                strike()
                return [tensors]

            self.directory += str(number)
            manager = self.manager(hooks={"before_save": strike},
                                   **{"async": {"on_change": lambda handle: strike()}})
            self.assertRaises(interrupt, manager.save, 1, state)
            self.assertEqual(manager.steps(), [])
            manager.save(1, state)
            raised.append(interrupt())
            self.assertRaises(interrupt, manager.save, 2, state, policy=policy)

            def deal(total, rank, ranks):
                strike()
                return total

            manager.save(3, {"rows": cairn.ragged(np.ones(4))})
            raised.append(interrupt())
            rows = {"rows": cairn.ragged(np.zeros(0), deal=deal)}
            self.assertRaises(interrupt, manager.restore, 3, rows)
            manager.restore(3, rows)
            self.assertEqual(rows["rows"].array.tolist(), [1, 1, 1, 1])

    def test_what_on_change_raises(self):
        manager, raised = None, []

        def on_change(handle):
            if handle.stage == "committed":
                raise raised.pop()

        manager = self.manager(**{"async": {"on_change": on_change}})
        for step, error in enumerate([ValueError("no"), KeyboardInterrupt()]):
            raised.append(error)
            handle = manager.save_async(step, {"u": np.full(5, step)})
            if isinstance(error, ValueError):
                manager.wait()  # the log has it
            else:
                self.assertRaises(KeyboardInterrupt, manager.wait)
            self.assertTrue(handle.committed)
        self.assertEqual(cairn.open(self.directory)["u"][...].tolist(), [1] * 5)

    def test_errors_that_say_nothing(self):
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError("not even that")

        raised = []

        def before(step):
            raise raised.pop()

        manager = self.manager(hooks={"before_save": before})
        for error, words in [(Mute(), "Mute"), (cairn.Error("a text alone"), "a text alone")]:
            raised.append(error)
            self.refuses("application", words, manager.save, 1, {"u": 1})
        self.assertEqual(manager.steps(), [])

    def test_a_second_thread_in_the_middle_of_a_save(self):
        answers, state = {}, {"u": np.arange(3.0)}
        calls = {
            "save": lambda: manager.save(2, state), "save_async": lambda: manager.save_async(2, state),
            "restore": lambda: manager.restore(1, state), "poll": lambda: manager.poll(),
            "restore_latest": lambda: manager.restore_latest(state), "wait": lambda: manager.wait(),
            "should_save": lambda: manager.should_save(2), "steps": lambda: manager.steps(),
            "should_stop": lambda: manager.should_stop(), "pin": lambda: manager.pin(1),
            "unpin": lambda: manager.unpin(1), "mark": lambda: manager.mark(1, "good"), "open": lambda: manager.open(1),
            "close": lambda: manager.close(), "statistics": lambda: manager.statistics(),
        }

        def second():
            for name, call in calls.items():
                try:
                    call()
                    answers[name] = "no error"
                except cairn.Error as error:
                    answers[name] = error.code

        def before(step):
            thread = threading.Thread(target=second)
            thread.start()
            thread.join()

        manager = self.manager(hooks={"before_save": before})
        manager.save(1, state)
        self.assertEqual(answers, dict.fromkeys(calls, "busy"))
        self.assertEqual([one["step"] for one in manager.steps()], [1])
        thread = threading.Thread(target=manager.pin, args=(1,))  # one after the other is well
        thread.start()
        thread.join()
        self.assertTrue(manager.steps()[0]["pinned"])

    def test_readers_on_many_threads(self):
        array = values("int32", (64, 300))
        parts = [cairn.slice(array[i : i + 1], array.shape, (i, 0)) for i in range(64)]
        tensor = cairn.open(self.manager().save(1, {"u": cairn.patches(parts)}))["u"]
        wrong = []

        def read(first):
            for row in range(first, 64, 8):
                if bits(tensor[row : row + 2]) != bits(array[row : row + 2]):
                    wrong.append(row)

        threads = [threading.Thread(target=read, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_forked_child_with_a_save_in_flight(self):
        manager = self.manager()
        array = values("float64", (500_000,))
        opened = cairn.open(manager.save(1, {"u": array}))
        handle = manager.save_async(2, {"u": array})
        child = os.fork()
        if child == 0:
            try:
                code = 0
                for call in [manager.save, manager.save_async, manager.restore]:
                    try:
                        call(3, {"u": array})
                    except cairn.Error as error:
                        code += error.code == "invalid_argument" and "forked" in str(error)
                try:
                    handle.wait_written()  # or it was written already
                    code += 1
                except cairn.Error as error:
                    code += "forked" in str(error)
                manager.close()
                code += bits(opened["u"][7:9]) == bits(array[7:9])
                with cairn.CheckpointManager(self.directory + "-child") as own:
                    own.save(1, {"u": 2})
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 5)
        manager.wait()
        self.assertTrue(handle.committed)
        manager.save(3, {"u": array})
        self.assertEqual(cairn.steps(self.directory), [1, 2, 3])
        self.assertEqual(cairn.steps(self.directory + "-child"), [1])

    def test_a_forked_child_that_ends_as_programs_do(self):
        self.run_child("import os, sys, cairn, numpy\n"
                       "m = cairn.CheckpointManager(sys.argv[1])\n"
                       "h = m.save_async(5, {'x': numpy.arange(1e5)})\n"
                       "child = os.fork()\n"
                       "if child == 0: sys.exit(3)\n"
                       "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3\n"
                       "m.wait(); m.save(6, {'x': numpy.arange(2)})\n")
        self.assertEqual(cairn.steps(self.directory), [5, 6])

    def test_the_interpreter_ends_while_a_thread_is_in_a_call(self):
        said = self.run_child(
            "import atexit, os, sys, threading, cairn, numpy\n"
            "sys.setswitchinterval(1000)\n"  # threads change where they wait only
            "inside, go = threading.Event(), threading.Event()\n"
            "def before(step): inside.set(); go.wait()\n"
            "m = cairn.CheckpointManager(sys.argv[1], hooks={'before_save': before})\n"
            "other = cairn.CheckpointManager(sys.argv[1] + '-other')\n"
            "def work():\n"
            "    m.save(1, {'x': numpy.arange(1e5)})\n"
            "    try: m.save(2, {'x': 1})\n"
            "    except cairn.Error as error: os.write(1, error.problem.encode())\n"
            "threading.Thread(target=work, daemon=True).start()\n"
            "inside.wait()\n"
            "atexit.register(go.set)\n")  # before the managers end
        self.assertIn(said, ["", "the manager is closed"])
        self.assertEqual(cairn.steps(self.directory), [1])
        self.assertEqual(cairn.open(self.directory)["x"][99_999], 99_999.0)
        with cairn.CheckpointManager(self.directory) as manager:  # both were given up
            manager.save(2, {"x": 1})
        cairn.CheckpointManager(self.directory + "-other").close()


class Arguments(Case):
    def test_steps_and_paths(self):
        manager = self.manager()
        state = {"x": 1}
        manager.save(np.int64(1), state)
        for step, words in [("1", "str"), (1.5, "float"), (None, "NoneType"), (2**63, "64 bits")]:
            for call in [manager.save, manager.save_async, manager.restore]:
                self.assertEqual(self.refuses("invalid_argument", words, call, step, state).tensor, "")
            for call in [manager.should_save, manager.pin, manager.unpin, manager.open]:
                self.refuses("invalid_argument", words, call, step)
        for path in [None, 7]:
            self.refuses("invalid_argument", "a path", cairn.CheckpointManager, path)
            self.assertRaises((TypeError, cairn.Error), cairn.open, path)
        self.refuses("invalid_argument", "dict", cairn.CheckpointManager, self.directory + "2", stop=7)
        self.assertEqual([one["step"] for one in manager.steps()], [1])

    def test_arrays_of_other_kinds(self):
        manager = self.manager()
        row = values("float32", (5,))
        prefix = manager.save(1, {"wide": np.broadcast_to(row, (3, 5)), "one": np.broadcast_to(2, (4, 1))})
        self.assertEqual(bits(cairn.open(prefix)["wide"][...]), bits(np.stack([row] * 3)))
        self.assertEqual(cairn.open(prefix)["one"][...].tolist(), [[2]] * 4)
        self.refuses("invalid_argument", "const", manager.restore, 1,
                     {"wide": np.broadcast_to(np.zeros(5, "f4"), (3, 5))})
        path = self.directory + "-mapped"
        mapped = np.memmap(path, np.float32, "w+", shape=(3, 5))
        manager.restore(1, {"wide": mapped})
        self.assertEqual(bits(mapped), bits(np.stack([row] * 3)))
        masked = np.ma.masked_array(row, [0, 1, 0, 0, 1])
        for state in [{"x": masked}, {"x": cairn.slice(masked, (5,), (0,))}, {"x": cairn.ragged(masked)},
                      {"x": cairn.private(masked)}, {"x": cairn.indexed(masked, np.arange(5))}]:
            error = self.refuses("invalid_argument", "masked", manager.save, 2, state)
            self.assertEqual(error.tensor, "x")
        matrix = np.asmatrix(np.eye(3))
        self.assertEqual(bits(cairn.open(manager.save(2, {"m": matrix}))["m"][...]), bits(np.eye(3)))

    def test_dlpack_that_breaks_its_word(self):
        class Breaks:
            def __init__(self, capsule):
                self.capsule = capsule

            def __dlpack__(self, **named):
                if isinstance(self.capsule, Exception):
                    raise self.capsule
                return self.capsule

            def __dlpack_device__(self):
                return 1, 0

        manager = self.manager()
        used = np.zeros(3).__dlpack__()
        manager.save(1, {"x": Breaks(used)})
        for capsule in [used, 7, None]:
            error = self.refuses("invalid_argument", "capsule", manager.save, 2, {"x": Breaks(capsule)})
            self.assertEqual(error.tensor, "x")
        self.refuses("application", "not now", manager.save, 2, {"x": Breaks(BufferError("not now"))})
        self.assertEqual(cairn.steps(self.directory), [1])

    def test_arrays_live_until_the_call_is_over(self):
        alive = []

        class Owner(np.ndarray):
            pass

        def array():
            made = np.arange(1000.0).view(Owner)
            alive.append(weakref.ref(made))
            return made

        manager = self.manager(hooks={"before_save": lambda step: gc.collect()})
        for save in [manager.save, manager.save_async]:
            prefix = save(len(alive), {"u": array(), "n": {"v": cairn.slice(array(), (1000,), (0,))}})
        manager.wait()
        prefix = prefix.prefix
        for key in ["u", "n/v"]:
            self.assertEqual(bits(cairn.open(prefix)[key][...]), bits(np.arange(1000.0)))
        del prefix
        gc.collect()
        self.assertEqual([one() for one in alive], [None] * 4)  # and not longer
