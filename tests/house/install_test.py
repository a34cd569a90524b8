"""A Ctrl-C while apt works ends the script, also where apt ends then as if all were well.

usage: install_test.py LIB_SH
"""
import os
import signal
import subprocess
import sys
import tempfile

# An apt-get that reports its start, and handles the interrupt itself.
APT = f"""#!{sys.executable}
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
again = os.path.exists(os.environ["APT_CALLS"])
with open(os.environ["APT_CALLS"], "a") as file:
    file.write("called\\n")
if again:
    sys.exit(0)
os.write(int(os.environ["APT_TELLS"]), b"began\\n")
signal.pause()
"""
SCRIPT = """root=$1
. "$1/scripts/lib.sh"
has_program() { [ "$1" != sudo ]; }
id() { echo 0; }
install_missing a-package-that-nobody-has
echo it went on
"""


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[1])))
    with tempfile.TemporaryDirectory() as place:
        apt, calls = f"{place}/apt-get", f"{place}/calls"
        with open(apt, "w", encoding="utf-8") as file:
            file.write(APT)
        os.chmod(apt, 0o755)
        begun, tells = os.pipe()
        job = subprocess.Popen(
            ["bash", "-c", SCRIPT + "\n", "script", root], pass_fds=(tells,), start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            # A process in a shell's background ignores interrupts, and bash cannot change that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "APT_CALLS": calls, "APT_TELLS": str(tells),
                 "TMPDIR": place})
        os.close(tells)
        assert os.read(begun, 6) == b"began\n", job.communicate()
        os.killpg(job.pid, signal.SIGINT)
        told = job.communicate()[0]
        assert job.returncode == 130, (job.returncode, told)
        assert "it went on" not in told, told
        with open(calls, encoding="utf-8") as file:
            assert len(file.readlines()) == 1, "apt-get was called again"
        assert sorted(os.listdir(place)) == ["apt-get", "calls"], os.listdir(place)
    print("right")


main()
