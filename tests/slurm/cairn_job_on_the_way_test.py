#!/usr/bin/env python3
"""Tests slurm/cairn-job without Slurm: what signals do to it, and who owns the directory."""
import os
import signal
import time
import unittest

from cairn_job_kit import CairnJobCase, can_trace, children


class CairnJobOnTheWay(CairnJobCase):
    def slurm_says(self, job, field, *lines):
        (self.place / f"squeue-{job}-{field}").write_text("".join(f"{line}\n" for line in lines))

    def owned_by(self, job, state):
        self.saved(5)
        (self.checkpoints / ".cairn").mkdir()
        (self.checkpoints / ".cairn/owner").write_text(f"token x\nhost n0\njob {job}\nstart 1\n")
        self.slurm_says(job, "%T", f"{job} {state}")

    def test_directory_of_a_running_job(self):
        self.owned_by("6", "RUNNING")
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 1"), 1)  # the other one makes progress
        self.assertEqual(self.requeued, [])
        self.assertIn("job 6 is saving in", self.output)

    def test_progress_of_another_job_that_has_ended_is_not_ours(self):
        """Our program was refused, and mpirun lingered until the other program had saved and
        ended."""
        gone = f"{self.save(9)}; rm $DIR/.cairn/owner"
        for signals in (False, True):
            with self.subTest(signals=signals):
                self.setUp()
                self.owned_by("6", "RUNNING")
                if signals:
                    self.assertEqual(self.signalled(signal.SIGUSR1, 1, save=gone), 1)
                else:
                    self.assertEqual(self.run_job(f"{gone}; exit 1"), 1)
                self.assertEqual(self.requeued, [])
                self.assertIn("job 6 is saving in", self.output)
        # An owner that comes later is noticed as well.
        self.setUp()
        self.saved(5)
        self.slurm_says("6", "%T", "6 RUNNING")
        comes = f"mkdir $DIR/.cairn; {self.seen(6)}"
        self.assertEqual(self.signalled(signal.SIGUSR1, 1, before=comes, save=gone), 1)
        self.assertEqual(self.requeued, [])

    def test_progress_after_another_job_has_ended_is_ours(self):
        self.owned_by("6", "RUNNING")
        gone = f"{self.save(9)}; rm $DIR/.cairn/owner"
        self.assertEqual(self.signalled(signal.SIGUSR1, 1, before=self.seen(7), save=gone), 0)
        self.assertIn("stopped with status 1, at step 9", self.output)
        self.assertEqual(self.requeued, ["requeue 7"])

    def seen(self, job):
        """Gives the directory this owner, and waits until cairn-job has read the record, which the
        time of the record's last reading tells. The record has that time before it has its
        name, since cairn-job reads its own job's record only once."""
        probe = self.place / "probe"
        probe.write_text("x")
        os.utime(probe, (1, probe.stat().st_mtime))
        probe.read_text()
        if probe.stat().st_atime == 1:
            self.skipTest("this file system does not note when a file was read")
        record = f"token y\\nhost n0\\njob {job}\\nstart 1\\n"
        return (f'printf "{record}" >$DIR/.cairn/new; touch -a -d @1 $DIR/.cairn/new; '
                'mv $DIR/.cairn/new $DIR/.cairn/owner; until [ "$(stat -c %X $DIR/.cairn/owner)" != 1 ]; do :; done; :')

    def test_directory_of_a_dead_job(self):
        self.owned_by("6", "FAILED")
        self.assertEqual(self.run_job("exit 1"), 0)
        self.assertEqual(self.requeued, ["requeue 7"])

    # Bash 5.2 drops a trap that comes while it reads what is in `<(`.
    WAITING = ('exec {{never}}<> <(:); trap "{save}; exit {status}" USR1; touch "$PLACE/ready"; '
               'while :; do read -rt 0.05 -u "$never"; done')

    def until_ready(self, process):
        self.addCleanup(process.kill)
        end = time.monotonic() + 60
        while not (self.place / "ready").exists():
            self.assertLess(time.monotonic(), end, "the program did not start")
            time.sleep(0.01)

    def signalled(self, number, status, reason="None", save="echo 9 >$DIR/newest", options=(), before=":"):
        if reason:
            self.slurm_says("7", "%r", f"7 {reason}")
        process = self.start(f"{before}; {self.WAITING.format(save=save, status=status)}", *options)
        self.until_ready(process)
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

    def test_sigterm_of_an_array(self):
        """A task of the array has the array's number, under which Slurm lists all tasks."""
        self.saved(5)
        self.slurm_says("7", "%r", "8 None", "7 TimeLimit", "9 None")
        self.assertEqual(self.signalled(signal.SIGTERM, 75, reason=None), 0)
        self.assertEqual(self.requeued, ["requeue 7"])

    def test_directory_of_a_running_task(self):
        self.owned_by("6", "RUNNING")
        self.slurm_says("6", "%T", "8 PENDING", "6 RUNNING")
        self.assertEqual(self.run_job("exit 1"), 1)
        self.assertIn("job 6 is saving in", self.output)

    def test_sigterm_when_slurm_does_not_answer(self):
        """Slurm requeues even a job that scancel has ended: so the job is requeued only if the
        time was over by the clock."""
        self.saved(5)
        self.assertEqual(self.signalled(signal.SIGTERM, 75, reason=None), 75)
        self.assertEqual(self.requeued, [])
        self.assertIn("WARNING: Slurm does not say why SIGTERM came, and the time was not over", self.output)
        (self.place / "ready").unlink()
        self.saved(5)
        self.slurm_says("7", "%e", "7 2026-01-01T00:00:00")
        (self.place / "bin/date").write_text("#!/bin/bash\necho $((EPOCHSECONDS + 1))\n")  # of the end
        (self.place / "bin/date").chmod(0o755)
        self.assertEqual(self.signalled(
            signal.SIGTERM, 75, reason=None, before="end=$((EPOCHSECONDS + 2)); until [ $EPOCHSECONDS -ge $end ]; do :; done"), 0)
        self.assertIn("by the clock it was the time limit", self.output)
        self.assertEqual(self.requeued, ["requeue 7"])

    def test_a_clock_that_is_wrong(self):
        """By this end time the job was over when it began. That does not tell why SIGTERM came."""
        self.saved(5)
        self.slurm_says("7", "%e", "7 2026-01-01T00:00:00")
        self.assertEqual(self.signalled(signal.SIGTERM, 75, reason=None, options=()), 75)
        self.assertRegex(self.output, f"WARNING: by the clock of {os.uname().nodename} the job's time was over [0-9]+ seconds before it began")
        self.assertEqual(self.requeued, [])

    def test_times_are_read_in_one_zone(self):
        """In another time zone this end would look like a wrong clock."""
        self.saved(5)
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3600))
        self.slurm_says("7", "%e", f"7 {at}")
        self.run_job("exit 0", TZ="Pacific/Honolulu", SQUEUE_STATES="PENDING", SLURM_TIME_FORMAT="relative")
        self.assertNotIn("WARNING: by the clock", self.output)
        self.slurm_says("7", "%e", "7 2026-01-01T00:00:00")
        self.run_job("exit 0", TZ="Pacific/Honolulu", SQUEUE_STATES="PENDING", SLURM_TIME_FORMAT="relative")
        self.assertIn("WARNING: by the clock", self.output)

    @unittest.skipUnless(can_trace(), "strace, which may not be there or not be allowed, sends a signal at a given moment")
    def test_a_signal_at_any_fork_is_not_lost(self):
        """This includes the fork of the program: until its exec it has the traps of the script."""
        self.slurm_says("7", "%r", "7 TimeLimit")
        program = self.WAITING.format(save="echo 9 >$DIR/newest", status=75)
        for fork in range(2, 20):  # the first is before the traps
            (self.place / "ready").unlink(missing_ok=True)
            self.saved(5)
            trace = self.place / "trace"
            inject = f"inject=clone:signal=SIGTERM:when={fork}"
            process = self.start(program, "--restarts", "99", under=["strace", "-o", trace, "-e", "trace=clone", "-e", inject])
            while process.poll() is None and not (self.place / "ready").exists():
                time.sleep(0.01)
            came = "--- SIGTERM" in trace.read_text()
            if not came:  # the last fork was already tried
                os.kill(children(process.pid)[0], signal.SIGTERM)
            self.assertEqual(self.finish(process), 0, self.output)
            self.assertEqual(self.requeued, ["requeue 7"])
            if not came:
                return
        self.fail("so many forks?")

    def test_status_is_not_lost_to_the_signal(self):
        """The script is stopped until the program has ended and the signal has come."""
        self.saved(5)
        program = ('job=$PPID; kill -STOP $job; (exec >/dev/null; kill -USR1 $job; '
                   'while [ "$(ps -o stat= -p $$ | cut -c1)" != Z ]; do :; done; kill -CONT $job) & exit 76')
        self.assertEqual(self.run_job(program), 76)
        self.assertEqual(self.requeued, [])

    def test_signal_before_the_program(self):
        self.saved(5)
        (self.place / "slow").touch()
        process = self.start(f"rm $PLACE/slow; {self.save(9)}; exit 0")
        self.until_ready(process)
        process.send_signal(signal.SIGUSR1)
        (self.place / "go").touch()
        self.assertEqual(self.finish(process), 0)
        self.assertIn("a signal came before the program: it is not started", self.output)
        self.assertEqual(self.requeued, ["requeue 7"])
        self.assertEqual(self.record(), ["1", "5"])

    def owned_by_process(self, pid, host=None):
        self.saved(5)
        (self.checkpoints / ".cairn").mkdir()
        (self.checkpoints / ".cairn/owner").write_text(
            f"token x\nhost {host or os.uname().nodename}\npid {pid}\n"
            f"processes {os.readlink('/proc/self/ns/pid')}\njob \nstart 1\n")

    def test_directory_of_a_process_outside_of_slurm(self):
        self.owned_by_process(os.getpid())
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 1"), 1)
        self.assertEqual(self.requeued, [])
        self.assertIn(f"process {os.getpid()} on {os.uname().nodename} is saving in", self.output)

    def test_directory_of_a_dead_process(self):
        self.owned_by_process(999999999)
        self.assertEqual(self.run_job("exit 1"), 0)
        self.assertEqual(self.record(), ["1", "5"])

    def test_directory_of_somebody_elsewhere(self):
        """What the owners save tells whether they are alive."""
        self.owned_by_process(1, host="far-away")
        self.assertEqual(self.run_job("exit 1"), 0)
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 1"), 1)
        self.assertIn("process 1 on far-away is saving in", self.output)

    def test_directory_of_a_job_that_slurm_says_nothing_of(self):
        self.owned_by("6", "")
        (self.place / "squeue-6-%T").unlink()
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 1"), 1)
        self.assertEqual(self.requeued, [])

    def test_sigterm_leaves_the_chain_to_slurm(self):
        self.saved(5)
        self.assertEqual(self.signalled(signal.SIGTERM, 1, options=["--next", "8"]), 1)
        self.assertFalse((self.place / "scancel.log").exists())



if __name__ == "__main__":
    unittest.main()
