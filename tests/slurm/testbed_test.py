#!/usr/bin/env python3
"""Tests slurm/testbed: two side by side, and what is left after an interrupt or a kill."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TESTBED = Path(__file__).resolve().parents[2] / "slurm/testbed"
WAITS = 'echo "$SLURM_CONF"; sbatch -Q -o /dev/null --wrap "sleep 600"; ' \
        'until squeue -h -t RUNNING -o %T | grep -q .; do sleep 0.1; done; echo runs; exec sleep 600'


def processes_of(folder):
    """The processes that still run with this folder's configuration."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"SLURM_CONF={folder}/slurm.conf".encode() in environment:
            found.append((process / "comm").read_text().strip())
    return found


class Testbed(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="t")  # short: a socket's path has 107 characters
        self.addCleanup(temporary.cleanup)
        self.place = Path(temporary.name)
        self.values = {name: text for name, text in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        self.values["TMPDIR"] = temporary.name

    def run_testbed(self, *arguments, **more):
        return subprocess.run([TESTBED, *arguments], env={**self.values, **more}, stdin=subprocess.DEVNULL,
                              text=True, capture_output=True, timeout=120, check=False)

    def start_waiting(self):
        process = subprocess.Popen([TESTBED, "run", "--nodes", "1", "bash", "-c", WAITS], env=self.values, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.stdout.close)
        folder = Path(process.stdout.readline().strip()).parent
        self.assertEqual(process.stdout.readline(), "runs\n")
        end = time.monotonic() + 20  # a job is RUNNING a little before that
        while "slurmstepd" not in processes_of(folder) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertIn("slurmstepd", processes_of(folder))
        return process, folder

    def assert_nothing_left(self, folder):
        self.assertFalse(folder.exists())
        # The last ones may still be ending, after a kill -9.
        end = time.monotonic() + 20
        while processes_of(folder) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(processes_of(folder), [])

    def test_run_gives_the_status_of_its_command(self):
        done = self.run_testbed("run", "--nodes", "3", "bash", "-c", "sinfo -h -N -p main -o '%N %T'; exit 5")
        self.assertEqual((done.returncode, done.stdout), (5, "n0 idle\nn1 idle\nn2 idle\n"), done.stderr)
        self.assertEqual(list(self.place.iterdir()), [])

    def test_two_side_by_side(self):
        first = self.run_testbed("start", "--nodes", "1")
        folder = Path(first.stdout.strip().removeprefix("export SLURM_CONF=")).parent
        try:
            self.assertEqual(first.returncode, 0, first.stderr)
            second = self.run_testbed("run", "--nodes", "1", "srun", "-n1", "printenv", "SLURM_CONF", "SLURM_JOB_ID")
            self.assertEqual(second.returncode, 0, second.stderr)
            other, job = second.stdout.split()
            self.assertNotEqual(Path(other).parent, folder)
            self.assertEqual(job, "1")
            alive = subprocess.run(["srun", "-n1", "hostname"], env={**self.values, "SLURM_CONF": f"{folder}/slurm.conf"},
                                   capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(alive.returncode, 0, alive.stderr)
        finally:
            ended = self.run_testbed("stop", SLURM_CONF=f"{folder}/slurm.conf")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assert_nothing_left(folder)

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process, folder = self.start_waiting()
            os.killpg(process.pid, number)  # as Ctrl-C does
            self.assertEqual(process.wait(60), 128 + number)
            self.assert_nothing_left(folder)

    def test_killed_ones_are_ended_by_the_next(self):
        process, folder = self.start_waiting()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        self.assertIn("slurmctld", processes_of(folder))
        done = self.run_testbed("run", "--nodes", "1", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("whose owner is gone", done.stderr)
        self.assert_nothing_left(folder)

    def test_what_only_looks_like_one_stays(self):
        def make(name, key=True, owner=None):
            folder = self.place / name
            folder.mkdir()
            (folder / "slurm.conf").touch()
            if key:
                (folder / "munge.key").touch()
            if owner:
                (folder / "owner").write_text(f"{owner}\n")
            return folder
        # No process here has this number; one in another container may.
        others = [make("cairn-slurm-results"), make("cairn-slurm-1", key=False), make("cairn-slurm-2x")]
        for folder in others:
            done = self.run_testbed("stop", SLURM_CONF=f"{folder}/slurm.conf")
            self.assertEqual(done.returncode, 1, folder)
            self.assertIn("no testbed of yours", done.stderr)
        self.assertEqual(self.run_testbed("stop", "--all").returncode, 0)
        others.append(make("cairn-slurm-3", owner="999999999 pid:[1]"))
        self.assertEqual(self.run_testbed("run", "--nodes", "1", "true").returncode, 0)
        self.assertEqual([folder for folder in others if not (folder / "slurm.conf").exists()], [])
        own = make("cairn-slurm-4", owner=f"999999999 {os.readlink('/proc/self/ns/pid')}")
        self.assertEqual(self.run_testbed("run", "--nodes", "1", "true").returncode, 0)
        self.assertFalse(own.exists())

    def test_wrong_usage(self):
        for arguments in ([], ["walk"], ["run"], ["run", "--nodes", "0", "true"], ["run", "--wrong", "true"]):
            done = self.run_testbed(*arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
            self.assertTrue(done.stderr.startswith("testbed: "), done.stderr)
        self.assertEqual(self.run_testbed("stop", SLURM_CONF="/etc/slurm/slurm.conf").returncode, 1)


if __name__ == "__main__":
    if subprocess.run([TESTBED, "check"], check=False).returncode == 77:
        sys.exit(77)
    unittest.main()
