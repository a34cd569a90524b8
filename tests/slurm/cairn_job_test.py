#!/usr/bin/env python3
"""Tests slurm/cairn-job without Slurm: what it decides, with stand-ins for squeue, scontrol and cairn."""
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = {
    # cairn ls DIR --json: the step in the file DIR/newest, after older ones. It can fail, and take its time.
    # cairn flush DIR --tier TEXT: parts of step 40.
    "cairn": '[ "$1" != flush ] || { echo "$*" >>"$PLACE/flush.log"; printf "step 40\\nstep 35\\n"; exit 0; }\n'
             '[ ! -e "$PLACE/slow" ] || { touch "$PLACE/ready"; until [ -e "$PLACE/go" ]; do read -rt 0.05 <> <(:); done; }\n'
             '[ -d "$2" ] && [ ! -e "$PLACE/broken" ] || exit 2\n'
             'if [ -e "$PLACE/failures" ]; then rm "$PLACE/failures"; exit 2; fi\n'
             '[ "$3" = --json ] || exit 2\n'
             'row() { printf \'%s    {\\n      "name": "ckpt",\\n      "step": %s,\\n      "newest": %s,\\n      "whole": true\\n    }\' "$3" "$1" "$2"; }\n'
             'printf \'{\\n  "directory": "%s",\\n  "checkpoints": [\' "$2"\n'
             '[ ! -e "$2/newest" ] || {\n'
             '  for step in 3 $(cat "$2/older" 2>/dev/null); do row "$step" false "$comma"; comma=,$\'\\n\'; done\n'
             '  row "$(cat "$2/newest")" true "$comma"\n'
             '}\n'
             'printf "\\n  ]\\n}\\n"',
    # squeue --noheader --array --jobs JOB --format "%A FIELD": what the file of that name says, unless
    # somebody's own settings would change it.
    "squeue": '[ -z "${SQUEUE_STATES:-}" ] && [ "$SLURM_TIME_FORMAT" = standard ] && cat "$PLACE/squeue-$4-${6#%A }" 2>/dev/null',
    # sinfo ... --nodes LIST ...: each of LIST, with the state in the file of that name, or alloc.
    "sinfo": 'for node in ${4//,/ }; do echo "$node $(cat "$PLACE/sinfo-$node" 2>/dev/null || echo alloc)"; done',
    "scontrol": 'echo "$*" >>"$PLACE/scontrol.log"\nexit "${SCONTROL_STATUS:-0}"',
    # srun --OPTIONS... COMMAND: the command, once.
    "srun": 'while [[ ${1:-} == --* ]]; do shift; done\nexec "$@"',
    "scancel": 'echo "$*" >>"$PLACE/scancel.log"',
    "sleep": "",
}


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def what_they_do(pid):
    """A process and all below it: what each is, waits in, and has pending."""
    lines = []
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        wanted = [line.replace("\t", " ") for line in status.splitlines()
                  if line.startswith(("Name", "State", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"))]
        wait = Path(f"/proc/{pid}/wchan").read_text()
        lines.append(f"{pid} in {wait}: {', '.join(wanted)}")
        lines += [what_they_do(child) for child in children(pid)]
    except OSError as error:
        lines.append(f"{pid}: {error}")
    return "\n".join(lines)


def can_trace():
    return shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL).returncode == 0


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

    def start(self, program, *options, job="7", disk_is_full=False, under=(), **environment):
        values = {name: text for name, text in os.environ.items() if not name.startswith("SLURM_")}
        values.update(PATH=f"{self.place}/bin:{values['PATH']}", PLACE=str(self.place),
                      DIR=str(self.checkpoints), **environment)
        if job:
            values["SLURM_JOB_ID"] = job
        def no_room():  # files can be made, and not filled
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return subprocess.Popen(
            preexec_fn=no_room if disk_is_full else None, restore_signals=not disk_is_full, args=[*under, ROOT / "slurm/cairn-job", "--checkpoints", self.checkpoints, *options, "--", "bash", "-c", program],
            env=values, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def finish(self, process):
        try:
            self.output, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired as late:
            state = what_they_do(process.pid)
            process.kill()
            self.fail(f"it did not end; it had said {late.output!r}, and these were there:\n{state}")
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

    def allocation(self, nodes):
        (self.place / "squeue-7-%N").write_text(f"7 {nodes}\n")

    # A program that says how it was started, and the step that its n-th run saves and its status.
    def runs(self, *steps_and_states):
        cases = "".join(f"{i + 1}) {self.save(step)}; exit {state} ;; "
                        for i, (step, state) in enumerate(steps_and_states))
        return ('n=$(($(cat "$PLACE/runs" 2>/dev/null || echo 0) + 1)); echo $n >"$PLACE/runs"; '
                f'echo "run $n: {{ranks}} on $SLURM_JOB_NUM_NODES $SLURM_JOB_NODELIST"; case $n in {cases}esac; exit 99')

    def test_a_lost_node_leaves_the_rest_to_go_on(self):
        self.allocation("a,b,c")
        (self.place / "sinfo-b").write_text("down*")
        program = self.runs((9, 137), (12, 0))
        self.assertEqual(self.run_job(program, "--tier", "/shm/%n", "--ranks-per-node", "2", SLURM_JOB_NUM_NODES="3",
                                      SLURM_JOB_NODELIST="a,b,c", SLURM_JOB_CPUS_PER_NODE="4(x3)"), 0)
        self.assertIn("run 1: 6 on 3 a,b,c", self.output)
        self.assertIn("run 2: 4 on 2 a,c", self.output)
        self.assertIn("done, at step 12", self.output)
        self.assertEqual(self.requeued, [])
        self.assertFalse((self.place / "flush.log").exists())

    def test_it_goes_on_inside_only_with_progress(self):
        self.allocation("a,b")
        program = self.runs((9, 3), (9, 3), (9, 3))
        self.assertEqual(self.run_job(program, "--tier", "/shm/%n", SLURM_JOB_NUM_NODES="2"), 0)
        self.assertEqual((self.place / "runs").read_text(), "2\n")
        self.assertEqual(self.requeued, ["requeue 7"])
        self.assertTrue((self.place / "flush.log").exists())

    def test_it_does_not_go_on_inside(self):
        self.allocation("a,b")
        for state, options in ((3, ["--relaunches", "0"]), (75, []), (76, [])):
            (self.place / "runs").unlink(missing_ok=True)
            self.run_job(self.runs((9, state)), "--tier", "/shm/%n", *options)
            self.assertEqual((self.place / "runs").read_text(), "1\n")
        self.run_job(self.runs((9, 3)))  # without a tier
        self.assertNotIn("started again", self.output)

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

    def test_progress_at_steps_that_are_no_numbers_of_awk(self):
        for before, after in ((2**31 + 8, 2**31 + 9), (2**53, 2**53 + 1)):
            self.saved(before)
            self.assertEqual(self.run_job(f"{self.save(after)}; exit 9", "--restarts", "0"), 0)
            self.assertIn(f"at step {after} (1 more)", self.output)

    def test_killed_by_a_signal_before_any_checkpoint_is_requeued_and_given_up_in_the_end(self):
        for status, requeues in ((0, 1), (0, 1), (0, 1), (139, 0)):
            self.assertEqual(self.run_job("kill -SEGV $$"), status)
            self.assertEqual(len(self.requeued), requeues)
        self.assertIn("4 times in a row at step 0; giving up", self.output)

    def test_failure_before_any_checkpoint_is_not(self):
        # The second ones are mpirun's, for a program that it could not start; then what is no signal.
        for status in (1, 106, 127, 128, 131, 132, 133, 135, 200, 255):
            self.assertEqual(self.run_job(f"exit {status}"), status)
            self.assertEqual(self.requeued, [])
            self.assertIn("before there was a checkpoint", self.output)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_a_program_that_mpirun_cannot_start_is_not(self):
        (self.place / "text").write_text("no program")
        (self.place / "text").chmod(0o755)
        mpirun = "mpirun --oversubscribe -np 1"
        for command in (f"{mpirun} {self.place}/missing", f"{mpirun} {self.place}/text", f"{mpirun} {self.place}/bin",
                        f"{mpirun} -wdir {self.place}/missing true"):
            status = self.run_job(command, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            self.assertNotEqual(status, 0, command)
            self.assertEqual(self.requeued, [], command)
            self.assertIn("before there was a checkpoint", self.output)

    @unittest.skipUnless(os.environ.get("CAIRN_TOOL"), "CAIRN_TOOL is not given")
    def test_names_of_files_tell_nothing(self):
        """What the tool itself says of files that are called like its lines."""
        shutil.copy(os.environ["CAIRN_TOOL"], self.place / "bin/cairn")
        self.checkpoints.mkdir()
        for file in sorted((ROOT / "tests/golden/manager").glob("run-*")):  # the newest is the last
            shutil.copy(file, self.checkpoints)
        lines = ('  99999999  1 KB  now  2  whole, newest', '      "step": 99999999,\n      "newest": true,\n      "whole": true\n    },')
        for line in lines:
            shutil.copy(self.checkpoints / "run-30.index", self.checkpoints / f"x\n{line}\ny-5.index")
        self.assertEqual(self.run_job("exit 9"), 0)
        self.assertEqual(self.record(), ["1", "50"])

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

    def test_what_nodes_bring_home_is_no_progress_until_it_is_a_checkpoint(self):
        self.saved(5)
        for count in ("1", "2"):
            self.assertEqual(self.run_job("exit 9", "--restarts", "2", "--tier", "/shm/%n"), 0)
            self.assertEqual(self.record(), [count, "5"])
            self.assertIn("brought home from the nodes: parts of step 40", self.output)
        self.assertEqual(self.run_job("exit 9", "--restarts", "2", "--tier", "/shm/%n"), 9)
        self.assertIn("3 times in a row at step 5; giving up", self.output)
        flushes = (self.place / "flush.log").read_text().splitlines()
        self.assertEqual(flushes, [f"flush {self.checkpoints} --tier /shm/%n"] * 3)
        self.run_job("exit 0", "--tier", "/shm/%n")  # a run that ends well has saved at home
        self.assertEqual(len((self.place / "flush.log").read_text().splitlines()), 3)

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

    def record_of(self, job, token="y"):
        return f"token {token}\\nhost n0\\njob {job}\\nstart 1\\n"

    def test_progress_of_another_job_that_has_ended_is_not_ours(self):
        """This one was refused, and mpirun lingered until the other one had saved and gone."""
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
        # One that comes later is seen as well.
        self.setUp()
        self.saved(5)
        self.slurm_says("6", "%T", "6 RUNNING")
        comes = f'mkdir $DIR/.cairn; printf "{self.record_of(6)}" >$DIR/.cairn/owner'
        self.assertEqual(self.signalled(signal.SIGUSR1, 1, before=self.seen(comes), save=gone), 1)
        self.assertEqual(self.requeued, [])

    def test_progress_after_another_job_has_ended_is_ours(self):
        self.owned_by("6", "RUNNING")
        ours = f'printf "{self.record_of(7)}" >$DIR/.cairn/owner'
        self.assertEqual(self.signalled(signal.SIGUSR1, 1, before=self.seen(ours), save=f"{self.save(9)}; rm $DIR/.cairn/owner"), 0)
        self.assertIn("stopped with status 1, at step 9", self.output)
        self.assertEqual(self.requeued, ["requeue 7"])

    def seen(self, change):
        """Changes the owner's record, and waits until cairn-job has read it: by the time of its last reading."""
        probe = self.place / "probe"
        probe.write_text("x")
        os.utime(probe, (1, probe.stat().st_mtime))
        probe.read_text()
        if probe.stat().st_atime == 1:
            self.skipTest("this file system does not note when a file was read")
        return (f'{change}; touch -a -d @1 $DIR/.cairn/owner; '
                'until [ "$(stat -c %X $DIR/.cairn/owner)" != 1 ]; do :; done; :')

    def test_directory_of_a_dead_job(self):
        self.owned_by("6", "FAILED")
        self.assertEqual(self.run_job("exit 1"), 0)
        self.assertEqual(self.requeued, ["requeue 7"])

    WAITING = ('trap "{save}; exit {status}" USR1; exec {{never}}<> <(:); touch "$PLACE/ready"; '
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
        """One of its tasks has the array's number, and Slurm tells of all."""
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
        """Slurm requeues even what scancel has ended: so only if the time was over by the clock."""
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
        """By it the job was over when it began. That says nothing of why SIGTERM came."""
        self.saved(5)
        self.slurm_says("7", "%e", "7 2026-01-01T00:00:00")
        self.assertEqual(self.signalled(signal.SIGTERM, 75, reason=None, options=()), 75)
        self.assertRegex(self.output, f"WARNING: by the clock of {os.uname().nodename} the job's time was over [0-9]+ seconds before it began")
        self.assertEqual(self.requeued, [])

    def test_times_are_read_in_one_zone(self):
        """In another one this end would be a clock that is wrong."""
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
        """The program's among them: until its exec it has the traps of the script."""
        self.slurm_says("7", "%r", "7 TimeLimit")
        program = self.WAITING.format(save="echo 9 >$DIR/newest", status=75)
        for fork in range(1, 20):
            (self.place / "ready").unlink(missing_ok=True)
            self.saved(5)
            trace = self.place / "trace"
            inject = f"inject=clone:signal=SIGTERM:when={fork}"
            process = self.start(program, "--restarts", "99", under=["strace", "-o", trace, "-e", "trace=clone", "-e", inject])
            while process.poll() is None and not (self.place / "ready").exists():
                time.sleep(0.01)
            came = "--- SIGTERM" in trace.read_text()
            if not came:  # that was the fork after the last
                os.kill(children(process.pid)[0], signal.SIGTERM)
            self.assertEqual(self.finish(process), 0, self.output)
            self.assertEqual(self.requeued, ["requeue 7"])
            if not came:
                return
        self.fail("so many forks?")

    def test_status_is_not_lost_to_the_signal(self):
        """The script is held until the program has ended and the signal has come."""
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

    def test_full_disk_is_no_endless_loop(self):
        self.saved(5)
        self.assertEqual(self.run_job("exit 9", disk_is_full=True), 9)
        self.assertNotIn("requeueing", self.output)
        self.assertIn("ERROR: failed with status 9, and ", self.output)
        self.assertIsNone(self.record())

    def test_nothing_is_written_through_a_link(self):
        mine = self.place / "mine"
        for name in ("restarts-without-progress.part", "restarts-without-progress"):
            self.saved(5)
            mine.write_text("years of work")
            (self.checkpoints / name).symlink_to(mine)
            self.assertEqual(self.run_job("exit 9"), 0, name)
            self.assertEqual(mine.read_text(), "years of work")
            self.assertEqual(self.record(), ["1", "5"])
            shutil.rmtree(self.checkpoints)

    def test_empty_record_counts_by_slurm(self):
        for text in ("", "\n", "x y\n"):
            self.saved(5)
            (self.checkpoints / "restarts-without-progress").write_text(text)
            self.assertEqual(self.run_job("exit 9", SLURM_RESTART_COUNT="3"), 9, repr(text))
            self.assertIn("giving up", self.output)
            (self.checkpoints / "restarts-without-progress").write_text(text)
            self.assertEqual(self.run_job("exit 9", SLURM_RESTART_COUNT="2"), 0, repr(text))
            self.assertEqual(self.record(), ["3", "5"])

    def test_cairn_that_fails_once_is_asked_again(self):
        self.saved(5)
        (self.place / "failures").touch()
        self.assertEqual(self.run_job(f"{self.save(9)}; touch $PLACE/failures; exit 9"), 0)
        self.assertIn("at step 9 (4 more)", self.output)

    def test_cairn_that_fails_does_not_mean_no_checkpoint(self):
        self.saved(5)
        for count in ("1", "2", "3"):
            self.assertEqual(self.run_job("touch $PLACE/broken; exit 9"), 0)
            self.assertEqual(self.requeued, ["requeue 7"])
            self.assertIn("WARNING: cairn ls cannot read", self.output)
            self.assertEqual(self.record()[0], count)
        self.assertEqual(self.run_job("exit 9"), 9)
        self.assertIn("giving up", self.output)

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
        """Whether they are alive is seen from what they save."""
        self.owned_by_process(1, host="far-away")
        self.assertEqual(self.run_job("exit 1"), 0)
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 1"), 1)
        self.assertIn("process 1 on far-away is saving in", self.output)

    def test_directory_of_a_job_that_slurm_says_nothing_of(self):
        self.owned_by("6", "")
        (self.place / "squeue-6-%T").unlink()
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 1"), 1)
        self.assertEqual(self.requeued, [])

    def test_short_runs_are_told(self):
        self.saved(5)
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75"), 0)
        self.assertRegex(self.output, "WARNING: that run took [0-9]+ seconds only; is the time limit .* or a node's clock wrong")
        self.assertIn("WARNING: that run left one checkpoint only", self.output)
        self.assertEqual(self.run_job(f"echo 10 >$DIR/older; {self.save(11)}; exit 75"), 0)
        self.assertNotIn("one checkpoint only", self.output)

    def test_next_job_of_a_chain(self):
        def cancelled(status, **more):
            self.assertEqual(self.run_job(f"{self.save(more.pop('step', 9))}; exit {status}", "--next", "8"), more.pop("ends", status))
            self.assertEqual(self.requeued, [])
            log = self.place / "scancel.log"
            text = log.read_text() if log.exists() else ""
            log.unlink(missing_ok=True)
            return text
        self.assertEqual(cancelled(75), "")
        self.assertEqual(cancelled(4, step=10, ends=75), "")
        self.assertEqual(cancelled(76), "8\n")
        self.assertEqual(cancelled(0), "8\n")
        self.assertEqual(self.run_job("exit 0", "--wrong", "--next", "8"), 2)

    def test_sigterm_leaves_the_chain_to_slurm(self):
        self.saved(5)
        self.assertEqual(self.signalled(signal.SIGTERM, 1, options=["--next", "8"]), 1)
        self.assertFalse((self.place / "scancel.log").exists())

    def test_wrong_usage(self):
        for arguments in ([], ["--checkpoints", "x"], ["--wrong"], ["--checkpoints", "x", "--restarts", "y", "--", "true"]):
            done = subprocess.run([ROOT / "slurm/cairn-job", *arguments], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn("cairn-job: ", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
