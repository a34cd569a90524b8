"""How scripts build: on all cores, with a display of the progress and of what failed."""
import os
import pty
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = r"""printf '%s\n' 'a line of cmake' '[1/12] Building a' '[ 2/12] Building b'; exit "$1" """


class Progress(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.log = Path(self.folder.name) / "log"

    def command(self, build, status):
        script = f'. "{ROOT}/scripts/lib.sh"; building "$1" bash -c "$2" build "$3"; echo "status $?"'
        return ["bash", "-c", script, "test", self.log, build, str(status)]

    def piped(self, build, status):
        return subprocess.run(self.command(build, status), capture_output=True, text=True, check=True)

    def on_terminal(self, build, status):
        terminal, other = pty.openpty()
        with subprocess.Popen(self.command(build, status), stdout=other, stderr=other,
                              env={**os.environ, "NO_COLOR": "1"}):
            os.close(other)
            shown = b""
            try:
                while part := os.read(terminal, 4096):
                    shown += part
            except OSError:  # the end of the other side
                pass
        os.close(terminal)
        return shown.decode()

    def test_the_log_has_it_all_and_a_quick_build_says_nothing(self):
        ran = self.piped(BUILD, 0)
        self.assertEqual(ran.stdout, "status 0\n")
        self.assertEqual(self.log.read_text(), "a line of cmake\n[1/12] Building a\n[ 2/12] Building b\n")

    def test_the_status_is_that_of_the_build_and_its_end_is_shown(self):
        ran = self.piped(BUILD, 3)
        self.assertEqual(ran.stdout, "status 3\n")
        self.assertIn("[ 2/12] Building b", ran.stderr)
        self.assertIn(str(self.log), ran.stderr)

    def test_a_long_build_says_how_far_it_is(self):
        script = self.command("echo '[ 40%] Building';" + BUILD, 0)
        script[2] = script[2].replace("; building", "; note_after=0; building", 1)
        ran = subprocess.run(script, capture_output=True, text=True, check=True)
        lines = [line.split(" after ")[0] for line in ran.stdout.splitlines()]
        self.assertEqual(list(dict.fromkeys(lines)), ["building: 40%", "building: 1 of 12", "building: 2 of 12",
                                                       "status 0"])

    def test_cores_are_those_of_the_machine(self):
        settings = {**os.environ, "OMP_NUM_THREADS": "7", "OMP_THREAD_LIMIT": "1"}
        ran = subprocess.run(["bash", "-c", f'. "{ROOT}/scripts/lib.sh"; cores'], env=settings,
                             capture_output=True, text=True, check=True)
        self.assertEqual(int(ran.stdout), len(os.sched_getaffinity(0)))

    def test_a_terminal_has_one_line_that_goes(self):
        shown = self.on_terminal(BUILD, 0)
        self.assertIn("\rbuilding: 1 of 12, ", shown)
        self.assertIn("\rbuilding: 2 of 12, ", shown)
        self.assertTrue(shown.endswith("\r\x1b[Kstatus 0\r\n"), repr(shown))


if __name__ == "__main__":
    sys.exit(unittest.main())
