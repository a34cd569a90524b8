"""Accelerate: a loop with a prepared model, optimizer, schedule and loader."""

import os
import random

import stories  # first: it sets what torch reads when it is imported

import accelerate
import torch

import cairn.torch


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, number):
        generator = torch.Generator().manual_seed(number)
        return torch.randn(6, generator=generator), torch.randn(2, generator=generator)


def prepared():
    accelerate.utils.set_seed(7)
    accelerator = accelerate.Accelerator(
        cpu=True, gradient_accumulation_steps=2,
        dataloader_config=accelerate.DataLoaderConfiguration(use_seedable_sampler=True, data_seed=3))
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(),
                                torch.nn.Dropout(0.3), torch.nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    # With a generator of its own a loader that is begun again draws none of the others' numbers.
    loader = torch.utils.data.DataLoader(Texts(), batch_size=2, shuffle=True, generator=torch.Generator())
    return accelerator, *accelerator.prepare(model, optimizer, scheduler, loader)


def train(directory, keeper):
    accelerator, model, optimizer, scheduler, loader = prepared()
    done = {"updates": 0, "epoch": 0, "batches": 0}
    if keeper == "cairn":
        manager = cairn.torch.Manager(directory, max_to_keep=2)
        state = {"model": accelerator.unwrap_model(model), "optimizer": optimizer, "scheduler": scheduler,
                 "random": cairn.torch.RandomStates(), "done": done}
        manager.restore_latest(state)
    elif keeper == "framework":
        accelerator.register_for_checkpointing(Done(done))
        if os.listdir(directory):
            accelerator.load_state(f"{directory}/{max(map(int, os.listdir(directory)))}")

    while done["updates"] < stories.STEPS:
        loader.set_epoch(done["epoch"])
        for inputs, targets in accelerator.skip_first_batches(loader, done["batches"]):
            with accelerator.accumulate(model):
                loss = (model(inputs) - targets + random.gauss(0, 0.1)).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            done["batches"] += 1
            if accelerator.sync_gradients:
                done["updates"] += 1
                if done["updates"] % stories.EVERY == 0:
                    if keeper == "cairn":
                        for buffer in model.buffers():  # as DDP has it before the next step
                            accelerate.utils.broadcast(buffer)
                        manager.save(done["updates"], state)
                    elif keeper == "framework":
                        accelerator.save_state(f"{directory}/{done['updates']}")
                stories.tell(done["updates"], loss)
                if done["updates"] == stories.STEPS:
                    break
        done.update(epoch=done["epoch"] + 1, batches=0)
    stories.tell_end(model.parameters())


class Done:
    """For accelerate's own checkpoints."""

    def __init__(self, done):
        self.done = done

    def state_dict(self):
        return self.done

    def load_state_dict(self, done):
        self.done.update(done)


if __name__ == "__main__":
    for ranks in (1, 2):
        stories.judge(train, ranks)
    print("right")
