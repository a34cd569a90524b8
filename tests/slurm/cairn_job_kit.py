"""What the tests of slurm/cairn-job share: stand-ins for Slurm's commands and cairn, and a run of it."""
import os
import resource
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = {
    # cairn ls DIR --json prints the step in the file DIR/newest, after older ones. It can fail, and
    # be slow. The directory s3://NAME is PLACE/NAME. cairn flush DIR --tier TEXT prints parts of step 40.
    "cairn": '[ "$1" != flush ] || { echo "$*" >>"$PLACE/flush.log"; printf "step 40\\nstep 35\\n"; exit 0; }\n'
             '[ ! -e "$PLACE/slow" ] || { touch "$PLACE/ready"; until [ -e "$PLACE/go" ]; do read -rt 0.05 <> <(:); done; }\n'
             'if [[ $2 == s3://* ]]; then set -- "$1" "$PLACE/${2#s3://}" "${@:3}"; fi\n'
             '[ -d "$2" ] || { echo \'{"error":{"code":"not_found"}}\' >&2; exit 2; }\n'
             '[ ! -e "$PLACE/broken" ] || exit 2\n'
             'if [ -e "$PLACE/failures" ]; then rm "$PLACE/failures"; exit 2; fi\n'
             '[ "$3" = --json ] || exit 2\n'
             'row() { printf \'%s    {\\n      "name": "ckpt",\\n      "step": %s,\\n      "newest": %s,\\n      "whole": true\\n    }\' "$3" "$1" "$2"; }\n'
             'printf \'{\\n  "directory": "%s",\\n  "checkpoints": [\' "$2"\n'
             '[ ! -e "$2/newest" ] || {\n'
             '  for step in 3 $(cat "$2/older" 2>/dev/null); do row "$step" false "$comma"; comma=,$\'\\n\'; done\n'
             '  row "$(cat "$2/newest")" true "$comma"\n'
             '}\n'
             'printf "\\n  ]\\n}\\n"',
    # squeue --noheader --array --jobs JOB --format "%A FIELD" prints the file of that name, unless
    # a user's own settings would change the output.
    "squeue": '[ -z "${SQUEUE_STATES:-}" ] && [ "$SLURM_TIME_FORMAT" = standard ] && cat "$PLACE/squeue-$4-${6#%A }" 2>/dev/null',
    # sinfo ... --nodes LIST ... prints each node of LIST with the state in the file of that name,
    # or alloc.
    "sinfo": 'for node in ${4//,/ }; do echo "$node $(cat "$PLACE/sinfo-$node" 2>/dev/null || echo alloc)"; done',
    "scontrol": 'echo "$*" >>"$PLACE/scontrol.log"\nexit "${SCONTROL_STATUS:-0}"',
    # srun --OPTIONS... COMMAND runs the command once.
    "srun": 'while [[ ${1:-} == --* ]]; do shift; done\nexec "$@"',
    "scancel": 'echo "$*" >>"$PLACE/scancel.log"',
    "sleep": "",
}


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def what_they_do(pid):
    """A process and all its descendants: for each, what it is, what it waits in, and its pending
    signals."""
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


class CairnJobCase(unittest.TestCase):
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

    def start(self, program, *options, job="7", disk_is_full=False, under=(), checkpoints=None, **environment):
        values = {name: text for name, text in os.environ.items() if not name.startswith("SLURM_")}
        values.update(PATH=f"{self.place}/bin:{values['PATH']}", PLACE=str(self.place),
                      DIR=str(self.checkpoints), **environment)
        if job:
            values["SLURM_JOB_ID"] = job
        def no_room():  # files can be made, but not filled
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return subprocess.Popen(
            preexec_fn=no_room if disk_is_full else None, restore_signals=not disk_is_full, args=[*under, ROOT / "slurm/cairn-job", "--checkpoints", checkpoints or self.checkpoints, *options, "--", "bash", "-c", program],
            env=values, cwd=self.place, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

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

    # A program that tells how it was started; its n-th run saves the n-th step and ends with the
    # n-th status.
    def runs(self, *steps_and_states):
        cases = "".join(f"{i + 1}) {self.save(step)}; exit {state} ;; "
                        for i, (step, state) in enumerate(steps_and_states))
        return ('n=$(($(cat "$PLACE/runs" 2>/dev/null || echo 0) + 1)); echo $n >"$PLACE/runs"; '
                f'echo "run $n: {{ranks}} on $SLURM_JOB_NUM_NODES $SLURM_JOB_NODELIST"; case $n in {cases}esac; exit 99')
