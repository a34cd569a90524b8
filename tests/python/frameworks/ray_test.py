"""Ray Train: a loop in workers that Ray starts again when they are killed."""

import os
import signal
import sys
import tempfile

import stories  # first: it sets what torch reads when it is imported

import ray
import ray.train
import ray.train.torch
import torch

import cairn.torch

WORKERS = 2


def tell(directory, words):
    if ray.train.get_context().get_world_rank() == 0:
        with open(f"{directory}/told", "a") as file:
            print(words, file=file)


def be_killed(directory, step):
    """Once at each of these steps, of which the other worker hears by gloo."""
    marker = f"{directory}/killed-{step}"
    if ray.train.get_context().get_world_rank() == 0 and step in stories.KILLED_AT and not os.path.exists(marker):
        open(marker, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)


def loop(config):
    keeper, directory = config["keeper"], config["directory"]
    torch.set_num_threads(1)
    torch.manual_seed(5)
    context = ray.train.get_context()
    draw = torch.Generator().manual_seed(3)
    data = torch.utils.data.TensorDataset(*(torch.randn(16, size, generator=draw) for size in (6, 2)))
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.LayerNorm(16), torch.nn.ReLU(),
                                torch.nn.Dropout(0.3), torch.nn.Linear(16, 2))
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, stories.STEPS)
    torch.manual_seed(7 + context.get_world_rank())  # dropout is another one on each
    done = {"step": 0}
    if keeper == "cairn":
        manager = cairn.torch.Manager(f"{directory}/run", max_to_keep=2)
        state = {"model": model.module, "optimizer": optimizer, "schedule": schedule,
                 "random": cairn.torch.RandomStates(), "done": done}
        manager.restore_latest(state)
    elif keeper == "framework" and ray.train.get_checkpoint():
        with ray.train.get_checkpoint().as_directory() as place:
            saved = torch.load(f"{place}/{context.get_world_rank()}.pt")
        for one, name in ((model.module, "model"), (optimizer, "optimizer"), (schedule, "schedule")):
            one.load_state_dict(saved[name])
        torch.set_rng_state(saved["random"])
        done.update(saved["done"])

    while done["step"] < stories.STEPS:
        rows = torch.randperm(16, generator=torch.Generator().manual_seed(done["step"]))
        inputs, targets = data[rows[context.get_world_rank()::context.get_world_size()]]
        optimizer.zero_grad()
        loss = (model(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        done["step"] += 1
        if done["step"] % stories.EVERY == 0 and keeper == "cairn":
            manager.save(done["step"], state)
            ray.train.report({"loss": loss.item()})
        elif done["step"] % stories.EVERY == 0 and keeper == "framework":
            report(loss, context, {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                                   "schedule": schedule.state_dict(), "random": torch.get_rng_state(), "done": done})
        tell(directory, f"{done['step']} {loss.item().hex()}")
        if keeper != "nobody":
            be_killed(directory, done["step"])
    tell(directory, f"end {stories.digest(model.parameters())}")


def report(loss, context, saved):
    """Ray's own checkpoint, of a file of each worker."""
    with stories.tempfile.TemporaryDirectory() as place:
        torch.save(saved, f"{place}/{context.get_world_rank()}.pt")
        ray.train.report({"loss": loss.item()}, checkpoint=ray.train.Checkpoint.from_directory(place))


def told(keeper):
    with tempfile.TemporaryDirectory() as directory:
        ray.train.torch.TorchTrainer(
            loop, train_loop_config={"directory": directory, "keeper": keeper},
            torch_config=ray.train.torch.TorchConfig(backend="gloo"),
            scaling_config=ray.train.ScalingConfig(num_workers=WORKERS),
            run_config=ray.train.RunConfig(name="run", storage_path=f"{directory}/ray",
                                           failure_config=ray.train.FailureConfig(max_failures=2))).fit()
        with open(f"{directory}/told") as file:
            return [line.split() for line in file]


def begins(lines):
    """The first steps of the second and third life; each ends where it is to be killed, the last one with the end."""
    again, place = [], 0
    for killed_at in (*stories.KILLED_AT, None):
        begin = int(lines[place][0])
        again.append(begin)
        life = [*map(str, range(begin, (killed_at or stories.STEPS) + 1))] + ([] if killed_at else ["end"])
        assert [line[0] for line in lines[place:place + len(life)]] == life, lines
        place += len(life)
    assert again[0] == 1 and place == len(lines), lines
    return again[1:]


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # of the workers
    os.environ["RAY_worker_niceness"] = "0"  # else they wait for all else that the machine does
    os.chdir("/")  # where they look for modules first
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    whole = dict(told("nobody"))
    assert list(whole) == [*map(str, range(1, stories.STEPS + 1)), "end"], whole
    for keeper in ("cairn", "framework"):
        lines = told(keeper)
        differ = [(step, loss, whole[step]) for step, loss in lines if loss != whole[step]]
        assert not differ, (keeper, differ)
        again = begins(lines)
        # Ray's controller asks workers every two seconds what they reported: of one killed before, it knows nothing.
        newest = [step // stories.EVERY * stories.EVERY + 1 for step in stories.KILLED_AT]
        allowed = [[step] if keeper == "cairn" else range(1, step + 1, stories.EVERY) for step in newest]
        assert all(step in steps for step, steps in zip(again, allowed, strict=True)), (keeper, lines)
        print(f"{keeper}, killed twice: the same losses, again from {again}", flush=True)
    ray.shutdown()
    print("right")
