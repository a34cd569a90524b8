#!/usr/bin/env python3
"""Tests slurm/cairn-job without Slurm: what it decides, with stand-ins for squeue, scontrol and cairn."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = {
    # cairn ls DIR: the step in the file DIR/newest, after an older one.
    "cairn": '[ -e "$2/newest" ] || exit 2\n'
             'printf "model\\n  step  size  saved  ranks  state\\n     3  1 KB  now  2  whole\\n"\n'
             'printf "  %4d  1 KB  now  2  whole, newest\\n" "$(cat "$2/newest")"',
    # squeue --noheader --jobs JOB --format FORMAT: what the file of that name says.
    "squeue": 'cat "$PLACE/squeue-$3-$5" 2>/dev/null',
    "scontrol": 'echo "$*" >>"$PLACE/scontrol.log"\nexit "${SCONTROL_STATUS:-0}"',
}


class CairnJob(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.place = Path(temporary.name)
        self.checkpoints = self.place / "checkpoints"
        for name, text in STAND_INS.items():
            path = self.place / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/bash\n{text}\n")
            path.chmod(0o755)

    def start(self, program, *options, job="7", **environment):
        values = {name: text for name, text in os.environ.items() if not name.startswith("SLURM_")}
        values.update(PATH=f"{self.place}/bin:{values['PATH']}", PLACE=str(self.place),
                      DIR=str(self.checkpoints), **environment)
        if job:
            values["SLURM_JOB_ID"] = job
        return subprocess.Popen(
            [ROOT / "slurm/cairn-job", "--checkpoints", self.checkpoints, *options, "--", "bash", "-c", program],
            env=values, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def finish(self, process):
        self.output, _ = process.communicate(timeout=60)
        log = self.place / "scontrol.log"
        self.requeued = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return process.returncode

    def run_job(self, program, *options, **more):
        return self.finish(self.start(program, *options, **more))

    def saved(self, step):
        self.checkpoints.mkdir(exist_ok=True)
        (self.checkpoints / "newest").write_text(str(step))

    def save(self, step):
        return f'mkdir -p "$DIR" && echo {step} >"$DIR/newest"'

    def record(self):
        path = self.checkpoints / "restarts-without-progress"
        return path.read_text().split() if path.exists() else None

    def test_done(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 0"), 0)
        self.assertEqual(self.requeued, [])
        self.assertIn("done, at step 9", self.output)

    def test_stopped_to_go_on_is_requeued(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75"), 0)
        self.assertEqual(self.requeued, ["requeue 7"])

    def test_task_of_an_array_is_requeued_by_its_name(self):
        self.run_job(f"{self.save(9)}; exit 75", SLURM_ARRAY_JOB_ID="5", SLURM_ARRAY_TASK_ID="2")
        self.assertEqual(self.requeued, ["requeue 5_2"])

    def test_stopped_on_request_is_not_requeued(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 76"), 76)
        self.assertEqual(self.requeued, [])

    def test_no_requeue_leaves_it_to_the_caller(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75", "--no-requeue"), 75)
        self.assertEqual(self.run_job(f"{self.save(10)}; exit 4", "--no-requeue"), 75)
        self.assertEqual(self.requeued, [])

    def test_outside_of_slurm_it_says_75(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75", job=None), 75)
        self.assertEqual(self.requeued, [])

    def test_failure_of_requeueing_is_told(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75", SCONTROL_STATUS="1"), 75)
        self.assertIn("could not be requeued", self.output)

    def test_failure_with_a_newer_checkpoint_is_requeued(self):
        self.saved(5)
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 137"), 0)
        self.assertEqual(self.requeued, ["requeue 7"])
        self.assertIsNone(self.record())

    def test_failure_before_any_checkpoint_is_not(self):
        self.assertEqual(self.run_job("exit 106"), 106)
        self.assertEqual(self.requeued, [])
        self.assertIn("before there was a checkpoint", self.output)

    def test_failing_in_a_loop_is_given_up(self):
        self.saved(5)
        for count in ("1", "2"):
            self.assertEqual(self.run_job("exit 9", "--restarts", "2"), 0)
            self.assertEqual(self.requeued, ["requeue 7"])
            self.assertEqual(self.record(), [count, "5"])
        self.assertEqual(self.run_job("exit 9", "--restarts", "2"), 9)
        self.assertEqual(self.requeued, [])
        self.assertIn("3 times in a row at step 5; giving up", self.output)
        self.assertIsNone(self.record())  # whoever submits it again has all tries

    def test_progress_begins_the_count_anew(self):
        self.saved(5)
        self.run_job("exit 9")
        self.run_job(f"{self.save(6)}; exit 9")
        self.assertIsNone(self.record())
        self.run_job("exit 9")
        self.assertEqual(self.record(), ["1", "6"])

    def test_count_of_another_step_does_not_matter(self):
        self.saved(5)
        (self.checkpoints / "restarts-without-progress").write_text("3 4\n")
        self.assertEqual(self.run_job("exit 9"), 0)
        self.assertEqual(self.record(), ["1", "5"])

    def test_stopping_in_a_loop_is_given_up_too(self):
        self.assertEqual(self.run_job("exit 75", "--restarts", "1"), 0)
        self.assertEqual(self.record(), ["1", "0"])
        self.assertEqual(self.run_job("exit 75", "--restarts", "1"), 1)
        self.assertIn("giving up", self.output)

    def owned_by(self, job, state):
        self.saved(5)
        (self.checkpoints / ".cairn").mkdir()
        (self.checkpoints / ".cairn/owner").write_text(f"token x\nhost n0\njob {job}\nstart 1\n")
        (self.place / f"squeue-{job}-%T").write_text(f"{state}\n")

    def test_directory_of_a_running_job(self):
        self.owned_by("6", "RUNNING")
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 1"), 1)  # the other one makes progress
        self.assertEqual(self.requeued, [])
        self.assertIn("job 6 is saving in", self.output)

    def test_directory_of_a_dead_job(self):
        self.owned_by("6", "FAILED")
        self.assertEqual(self.run_job("exit 1"), 0)
        self.assertEqual(self.requeued, ["requeue 7"])

    WAITING = ('trap "{save}; exit {status}" USR1; touch "$PLACE/ready"; '
               'while :; do read -rt 0.05 <> <(:); done')

    def signalled(self, number, status, reason=""):
        (self.place / "squeue-7-%r").write_text(reason + "\n")
        process = self.start(self.WAITING.format(save="echo 9 >$DIR/newest", status=status))
        self.addCleanup(process.kill)
        end = time.monotonic() + 60
        while not (self.place / "ready").exists():
            self.assertLess(time.monotonic(), end, "the program did not start")
            time.sleep(0.01)
        process.send_signal(number)
        return self.finish(process)

    def test_the_signal_is_passed_on(self):
        self.saved(5)
        self.assertEqual(self.signalled(signal.SIGUSR1, 75), 0)
        self.assertEqual(self.requeued, ["requeue 7"])

    def test_a_program_that_dies_of_the_signal_is_requeued(self):
        self.saved(5)
        self.assertEqual(self.signalled(signal.SIGUSR1, 138), 0)
        self.assertIn("stopped with status 138", self.output)
        self.assertEqual(self.requeued, ["requeue 7"])

    def test_sigterm_of_scancel(self):
        self.saved(5)
        self.assertEqual(self.signalled(signal.SIGTERM, 75), 75)
        self.assertEqual(self.requeued, [])
        self.assertIn("stopped at step 9 by SIGTERM", self.output)

    def test_sigterm_at_the_time_limit(self):
        self.saved(5)
        self.assertEqual(self.signalled(signal.SIGTERM, 75, reason="TimeLimit"), 0)
        self.assertEqual(self.requeued, ["requeue 7"])

    def test_wrong_usage(self):
        for arguments in ([], ["--checkpoints", "x"], ["--wrong"], ["--checkpoints", "x", "--restarts", "y", "--", "true"]):
            done = subprocess.run([ROOT / "slurm/cairn-job", *arguments], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn("cairn-job: ", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
