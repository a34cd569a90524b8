"""A number of steps and a field, saved and brought back by one process.  usage: one.py DIRECTORY"""

import sys

import cairn
import numpy as np

state = {"step": 7, "u": np.array([0, 0, 0, 0.5])}
with cairn.CheckpointManager(sys.argv[1]) as manager:
    prefix = manager.save(7, state)
    state = {"step": 0, "u": np.zeros(4)}
    manager.restore_latest(state)
assert state["step"] == 7 and state["u"].tolist() == [0, 0, 0, 0.5], state
assert cairn.open(prefix)["u"][3] == 0.5
print("one works")
