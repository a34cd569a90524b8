# A program that saves with torch.save, started by torchrun. docs/howto/from-others.md changes it.

import os

import torch
import torch.distributed as dist

import training

dist.init_process_group("gloo")
model, optimizer = training.make()
state = {"step": 0}
if os.path.exists("ckpt.pt"):
    state = torch.load("ckpt.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])

while state["step"] < training.STEPS:
    training.train(model, optimizer, state["step"])
    state["step"] += 1
    if state["step"] % 5 == 0 and dist.get_rank() == 0:
        state.update(model=model.state_dict(), optimizer=optimizer.state_dict())
        torch.save(state, "ckpt.tmp")
        os.replace("ckpt.tmp", "ckpt.pt")

training.tell(model, state["step"])
dist.destroy_process_group()
