"""Runs the checks by TensorFlow and h5py one after another, each in a process of its own that finds
TensorFlow imported already: the import takes longer than most checks.

usage: run_checks.py CHECKS [NAME...]
CHECKS, made in the build folder as interop.checks: a check a line, as name, time limit in seconds,
script and its arguments, between tabs. With NAMEs only these are run, and show what they print.
Exit status: 0 all passed; 1 not, and the last line names those that failed; 2 wrong usage.
"""
import importlib
import importlib.util
import multiprocessing
import os
import resource
import runpy
import signal
import sys
import tempfile
import time


def run_script(output, arguments):
    """Runs in the new process."""
    os.setsid()  # what the script starts ends with it
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    sys.argv = list(arguments)
    sys.path.insert(0, os.path.dirname(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


def processor_seconds():
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stop(process):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        process.join(10)


def run(name, limit, arguments, shown):
    start, used = time.monotonic(), processor_seconds()
    with tempfile.TemporaryFile() as output:
        process = multiprocessing.get_context("fork").Process(
            target=run_script, args=(None if shown else output.fileno(), arguments))
        process.start()
        process.join(limit)
        late = process.is_alive()
        if late:
            stop(process)
        good = not late and process.exitcode == 0
        output.seek(0)
        text = output.read().decode(errors="replace").strip()
    if text and good:
        text = text.splitlines()[-1]  # the script's own count
    print(f"{'passed' if good else 'FAILED'} {name} ({time.monotonic() - start:.1f} s, "
          f"{processor_seconds() - used:.1f} s of the processors)"
          + (f": {text}" if good and text else ""))
    if not good:
        print(text)
        print(f"FAILED {name}: "
              + (f"still running after {limit} s" if late else f"exit status {process.exitcode}"),
              flush=True)
    return good


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        checks = [line.rstrip("\n").split("\t") for line in file]
    wanted = sys.argv[2:]
    unknown = set(wanted) - {check[0] for check in checks}
    if unknown:
        print(f"no such check: {' '.join(sorted(unknown))}; there are",
              " ".join(check[0] for check in checks))
        return 2
    for module in ("numpy", "h5py", "tensorflow"):
        if importlib.util.find_spec(module):
            importlib.import_module(module)
    chosen = [check for check in checks if not wanted or check[0] in wanted]
    failed = []
    for name, limit, *arguments in chosen:
        sys.stdout.flush()
        if not run(name, int(limit), arguments, bool(wanted)):
            failed.append(name)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} checks passed"
          + (f"; FAILED: {' '.join(failed)}" if failed else ""))
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
