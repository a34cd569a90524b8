"""Jobs of real processes for the campaigns mpi, left, disks and others: campaign_real under mpirun, and what must
be true after one, whatever befell it."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Ways to write, and other options of a job; HOME is the place of the job's directory.
LINES = {
    "bundle": [],
    "bundle_async": ["--async"],
    "bundle_mpi_io": ["--mpi-io"],
    "hdf5": ["--hdf5"],
    "hdf5_collective": ["--collective"],
    "frozen": ["--frozen"],
    "redistribute": ["--redistribute"],
    "nodes": ["--nodes", "HOME/node-%n"],
    "nodes_saved": ["--nodes", "HOME/node-%n", "--home-every", "100"],
    "nodes_flushed": ["--nodes", "HOME/node-%n", "--home-every", "1", "--flush"],
    "nodes_lost": ["--nodes", "HOME/node-%n", "--home-every", "100"],
    "turns": ["--turns"],
    "turns_async": ["--turns", "--async"],
    "again": ["--times", "4"],
    "again_async": ["--times", "4", "--async"],
    "again_frozen": ["--times", "4", "--frozen"],
}
# These jobs differ only in the messages between ranks and in their use of MPI.
OF_MPI = ("frozen", "redistribute", "nodes_saved", "nodes_flushed", "nodes_lost", "turns", "turns_async")
# What these risk is of several machines.
OF_SHARED = ("again", "again_async", "again_frozen")
# The entries of .cairn when nobody saves: names, and folders whose entries belong to existing
# checkpoints.
OWN = re.compile(r"(lock|owner|ended|pinned\.lock|home-id|no-atomic-rename|tool-runs|(sequences|runs|status|trace|room)\..*)$")
FOLDERS = ("recycled", "damaged", "marked", "pinned", "saved")
# A mount's own names of files that were open when they were removed.
OF_MOUNT = re.compile(r"\.(nfs|fuse_hidden)")
CRASHED = re.compile(r"Segmentation|terminate called|Assertion|signal 6|signal 11")
# Open MPI's report of a crash.
REPORT = re.compile(r"[^\n]*\*\*\* Process received signal.*?\*\*\* End of error message[^\n]*\n?", re.S)


def add_arguments(parser, name):
    lines = [line for line in LINES if line not in OF_SHARED and (name in ("mpi", "left") or line not in OF_MPI)]
    parser.add_argument("--lines", default=",".join(lines), help=f"of {', '.join(LINES)}")
    parser.add_argument("--limit", type=float, default=120, help="seconds until a job hangs")
    parser.add_argument("--library", type=Path, help="libcampaign_faulty_mpi.so, with --bin")
    add_places(parser, name)


def add_places(parser, name):
    parser.add_argument("--bin", type=Path, help="programs, instead of a build")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/campaign")
    parser.add_argument("--place", type=Path,
                        help=f"for directories and logs; emptied (default: DIR/{name})")


def install(*lists):
    """Installs what is missing of lists of packages in scripts/lib.sh."""
    packages = " ".join(f'"${{{name}[@]}}"' for name in lists)
    if subprocess.run(["bash", "-c", f'. "$0" && install_missing {packages}', ROOT / "scripts/lib.sh"],
                      check=False).returncode != 0:
        sys.exit(1)


def check_words(parser, option, words, known):
    """Ends the program if a word of a list is unknown."""
    for word in words or ():
        if word not in known:
            parser.error(f"{option} {word}: it is of {', '.join(known)}")


def settle(arguments, name, targets=("campaign_real", "campaign_faulty_mpi", "cairn_cli"), options=()):
    """Builds the programs that are missing; sets the places of programs and library."""
    if not arguments.bin:
        place = arguments.build_dir
        for command in (
                ["cmake", "-S", str(ROOT), "-B", str(place), "-G", "Ninja",
                 "-DCMAKE_BUILD_TYPE=Release", "-DCAIRN_TESTS=ON", "-DCAIRN_EXAMPLES=OFF",
                 "-DCAIRN_KOKKOS=OFF", *options],
                ["cmake", "--build", str(place), "--target", *targets]):
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True)
            if result.returncode != 0:
                sys.exit(f"{' '.join(command)} failed:\n{result.stdout[-4000:]}")
        arguments.bin = place / "bin"
        arguments.library = place / "lab/campaigns/programs/libcampaign_faulty_mpi.so"
    library = getattr(arguments, "library", None)
    arguments.library = library.absolute() if library else None
    arguments.place = (arguments.place or arguments.build_dir / name).absolute()
    shutil.rmtree(arguments.place, ignore_errors=True)
    arguments.place.mkdir(parents=True)


def preloading(library):
    """Gives the variable to the ranks' command and not to the launcher, since each launcher takes
    variables in its own way."""
    others = os.environ.get("LD_PRELOAD")
    return ["env", f"LD_PRELOAD={library}{':' + others if others else ''}"]


# Of jobs on few processors, started by root.
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


class Job:
    """campaign_real in HOME/run."""

    def __init__(self, arguments, home, name, line, ranks, saves, *, options=(), environment=(),
                 launcher=(), preload=None):
        self.log = arguments.place / f"{name}.log"
        self.limit, self.ranks = arguments.limit, ranks
        words = [str(arguments.bin / "campaign_real"), str(home / "run"), str(saves)]
        words += [word.replace("HOME", str(home)) for word in LINES[line]] + list(options)
        command = [*launcher, "mpirun", "-np", str(ranks)]
        if preload:
            command += preloading(preload)
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                command + words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, **SETTINGS, **dict(environment)})

    def text(self):
        return self.log.read_text(errors="replace")

    def end(self):
        """Waits for the end; returns the status, or 'hangs' if the job had to be ended, and its
        output."""
        try:
            status = self.process.wait(timeout=self.limit)
            return judged(status, self.text(), self.ranks), self.text()
        except subprocess.TimeoutExpired:
            text = self.text()  # mpirun lets ranks go on that were stopped
            self.process.terminate()
            self.process.wait()
            return "hangs", text


def without_launcher(text):
    """Without reports that mpirun itself has crashed: Debian's can do so in its own end, when it has ended a job
    (PMIx_server_finalize; docs/reliability.md#mpi)."""
    return REPORT.sub(lambda report: "" if " mpirun(" in report[0] else report[0], text)


crashes_at_the_end = 0


def judged(status, text, ranks):
    """The status, or 0 if all ranks had nothing left to do but MPI_Finalize and it crashed there.
    Programs that call nothing but MPI_Init and MPI_Finalize crash so now and then on a busy
    machine, with Open MPI 4: a thread of its own makes a call into a module that is unloaded
    (docs/reliability.md#mpi)."""
    global crashes_at_the_end  # pylint: disable=global-statement
    if status == 139 and set(steps(text, "over")) == set(range(ranks)):
        crashes_at_the_end += 1
        return 0
    return status


def tell_crashes_at_the_end():
    if crashes_at_the_end:
        print(f"crashes in MPI_Finalize: {crashes_at_the_end}")


def steps(text, word):
    """Numbers of the lines 'WORD STEP'."""
    return [int(step) for step in re.findall(rf"^{word} (\d+)", text, re.MULTILINE)]


def is_of_mount(path):
    """Whether it is one of a mount's own names, or a directory of such."""
    names = os.listdir(path) if path.is_dir() else [path.name]
    return bool(names) and all(OF_MOUNT.match(one) for one in names)


def left_over(run):
    """Entries of a directory of numbered checkpoints that belong to none; nobody saves there, and
    nothing is pinned."""
    names = {entry.name for entry in run.iterdir() if not is_of_mount(entry)} if run.is_dir() else set()
    left = []
    for name in names - {".cairn", "checkpoint"}:
        data = re.fullmatch(r"(.+)\.data-\d{5}-of-\d{5}", name)
        if not (f"{data[1]}.index" in names if data else re.fullmatch(r".+-\d+\.(index|h5)|[^.]+\.xdmf", name)):
            left.append(name)
    own = run / ".cairn"
    for entry in own.iterdir() if own.is_dir() else ():
        if entry.name in FOLDERS and entry.is_dir():
            left += [f".cairn/{entry.name}/{one.name}" for one in entry.iterdir()
                     if not is_of_mount(one) and (entry.name != "saved" or one.name not in names)]
        elif not OWN.fullmatch(entry.name) and not is_of_mount(entry):
            left.append(f".cairn/{entry.name}")
    return sorted(left)


def wrong_after(arguments, home, line, least):
    """Checks that a job on two ranks restores step `least` or a later one, and saves. If a node
    was lost, the job has three ranks: the next node may not be lost, too."""
    ranks = 3 if line == "nodes_lost" else 2
    status, text = Job(arguments, home, "restart", line, ranks, 1).end()
    wrong = re.findall(r"^(?:wrong|failed) .*", text, re.MULTILINE)
    restored = steps(text, "restored")
    if not restored or restored[0] < least:
        wrong.append(f"step {least} is lost: {restored} was restored")
    if status != 0 or "\ndone" not in text:
        wrong.append(f"the restart ended with {status}")
    verify = subprocess.run([str(arguments.bin / "cairn"), "verify", str(home / "run")],
                            capture_output=True, text=True)
    if verify.returncode != 0:
        wrong.append(f"cairn verify: {verify.stdout.strip()} {verify.stderr.strip()}")
    left = left_over(home / "run")
    if left:
        wrong.append(f"left over: {left}")
    return wrong


class Findings:
    def __init__(self, arguments, campaign):
        self.arguments, self.campaign, self.count = arguments, campaign, 0

    def add(self, case, wrong, home):
        """Prints a finding, and keeps the directory and the logs."""
        self.count += 1
        kept = self.arguments.place / f"finding-{self.count}"
        shutil.copytree(home, kept, symlinks=True)
        for log in self.arguments.place.glob("*.log"):
            shutil.copy(log, kept)
        print(f"{case}: " + "; ".join(wrong), f"  kept: {kept}",
              f"  again: scripts/campaign {self.campaign} --case {case}", sep="\n", flush=True)
