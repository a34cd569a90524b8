# A program that saves with Orbax, one process a rank of mpirun. docs/howto/from-others.md changes it.

import os

import orbax.checkpoint as ocp

import shards

shards.begin()
options = ocp.CheckpointManagerOptions(max_to_keep=3, save_interval_steps=5)
manager = ocp.CheckpointManager(os.path.abspath("ckpt"), options=options)
state = {"train": shards.make(), "step": 0}
if manager.latest_step() is not None:
    state = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(state))

while state["step"] < shards.STEPS:
    state["train"] = shards.advance(state["train"])
    state["step"] += 1
    manager.save(state["step"], args=ocp.args.StandardSave(state))

manager.wait_until_finished()
manager.close()
shards.tell(state["train"], state["step"])
