"""A call of MPI that fails on one rank while a manager is made ends the job: the other ranks would
wait for this one for ever, and so would Python's own end, which finalises MPI.

    lost_call_test.py FAULTY_LIBRARY LAUNCHER...
"""

import os
import subprocess
import sys
import tempfile

PROGRAM = """
import cairn, sys
from mpi4py import MPI
with cairn.CheckpointManager(sys.argv[1], MPI.COMM_WORLD) as manager:
    print("made", flush=True)
"""


def main(library, *launcher):
    for call in ("MPI_Comm_dup", "MPI_Bcast"):
        with tempfile.TemporaryDirectory() as place:
            log = os.path.join(place, "happened")
            fault = {"CAIRN_FAULT_CALL": call, "CAIRN_FAULT_AT": "0", "CAIRN_FAULT_RANK": "1",
                     "CAIRN_FAULT_LOG": log}
            words = [*launcher, "3", "-x", f"LD_PRELOAD={library}"]
            ran = subprocess.run([*words, sys.executable, "-c", PROGRAM, place + "/run"], text=True,
                                 env=dict(os.environ, **fault), stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
            assert os.path.exists(log), ran.stdout
            assert ran.returncode != 0, ran.stdout
            assert f"{call} failed" in ran.stdout, ran.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
