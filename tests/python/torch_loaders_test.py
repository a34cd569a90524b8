"""Training over several epochs with torchdata's loader, killed in the middle of them: losses and samples are those of
a run that was left alone and knows no Cairn."""

import os
import signal
import unittest

from torch_jobs import job  # first: it sets what torch reads when it is imported
from torch_cases import Case

import torch
from torchdata.stateful_dataloader import StatefulDataLoader, worker
from torchdata.stateful_dataloader.sampler import RandomSampler

import cairn
import cairn.torch

torch.set_num_threads(1)
worker.MP_STATUS_CHECK_INTERVAL = 0.2  # seconds in which workers find that their process was killed
BATCHES, EPOCHS, EVERY = 7, 4, 3  # of an epoch, of a run, and steps between two saves
STEPS = BATCHES * EPOCHS


def loader_of(workers, shuffles):
    """The loader of docs/pytorch.md, or torchdata's own shuffling."""
    data = list(range(4 * BATCHES))
    if shuffles:
        how = {"shuffle": True}
    else:
        how = {"sampler": RandomSampler(data, generator=torch.Generator().manual_seed(8))}
    return StatefulDataLoader(data, 4, num_workers=workers, generator=torch.Generator().manual_seed(9), **how)


def trained(keeper, directory, told, workers, shuffles, killed_at):
    """Prints each step's loss and samples in one line."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = loader_of(workers, shuffles)
    state = {"model": model, "optimizer": optimizer, "loader": loader, "random": cairn.torch.RandomStates(), "step": 0}
    if keeper == "cairn":
        manager = cairn.torch.Manager(directory, max_to_keep=2)
        manager.restore_latest(state)
    elif keeper == "torch" and os.path.exists(directory):
        state["step"], *saved = torch.load(directory)
        for part, one in zip((model, optimizer, loader), saved):
            part.load_state_dict(one)
        torch.set_rng_state(saved[3])
    batches = iter(loader)
    with open(told, "a") as file:
        while state["step"] < STEPS:
            batch = next(batches, None)
            if batch is None:
                batches = iter(loader)
                continue
            loss = (model(batch[:, None].float()) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            state["step"] += 1
            file.write(f"{state['step']} {loss.item().hex()} {batch.tolist()}\n")
            file.flush()
            if state["step"] == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if state["step"] % EVERY == 0 and keeper == "cairn":
                manager.save(state["step"], state)
            elif state["step"] % EVERY == 0 and keeper == "torch":
                parts = [one.state_dict() for one in (model, optimizer, loader)]
                torch.save([state["step"], *parts, torch.get_rng_state()], directory)
    if keeper == "cairn":
        manager.close()


class Loaders(Case):
    def lives(self, keeper, workers, shuffles, kills=()):
        """What each life printed, by step."""
        place = f"{self.place}/{keeper}-{workers}-{shuffles}-{kills}"
        lives = []
        for life, killed_at in enumerate((*kills, None)):
            arguments = keeper, place, f"{place}.{life}", workers, shuffles, killed_at
            if keeper == "nobody":
                trained(*arguments)  # here, so that what torch imports is there for all
            elif killed_at is None:
                job(0, trained, *arguments)
            else:
                with self.assertRaisesRegex(AssertionError, f"ended with -{int(signal.SIGKILL)}"):
                    job(0, trained, *arguments)
            with open(f"{place}.{life}") as file:
                told = dict(line.rstrip().split(" ", 1) for line in file)
            lives.append({int(step): one for step, one in told.items()})
            begun = 0 if life == 0 else (kills[life - 1] - 1) // EVERY * EVERY
            self.assertEqual(list(lives[-1]), list(range(begun + 1, (killed_at or STEPS) + 1)))
        return lives

    def test_epochs_after_that_of_the_stop(self):
        """Killed in the middle of two epochs; and where the last save was an epoch's last step."""
        for workers, all_kills in ((0, ((11, 19), (5, 22))), (2, ((11, 19),))):
            alone, = self.lives("nobody", workers, False)
            self.assertEqual(len({one.partition(" ")[2] for one in alone.values()}), STEPS)  # each epoch is shuffled
            for kills in all_kills:
                for told in self.lives("cairn", workers, False, kills):
                    self.assertEqual(told, {step: alone[step] for step in told}, (workers, kills))

    def test_what_torchdata_does_without_its_sampler(self):
        """If this fails because the orders are the same, docs/pytorch.md need not mention the
        sampler any more."""
        alone, = self.lives("nobody", 0, True)
        theirs = self.lives("torch", 0, True, (11,))[-1]
        self.assertEqual(self.lives("cairn", 0, True, (11,))[-1], theirs)
        same = [step for step in theirs if theirs[step] == alone[step]]
        self.assertEqual(same, list(range(10, 2 * BATCHES + 1)), "torchdata's shuffling has another fate")


if __name__ == "__main__":
    unittest.main()
