"""What torch_save.py trains: a small network, on data that each step draws by its number. All ranks
compute the same, so that the weights do not depend on the number of ranks."""

import hashlib
import os
import signal

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
import torch
import torch.distributed as dist

STEPS = 20
_die_after = int(os.environ.get("CAIRN_DIE_AFTER", "-1"))  # so many steps, then it is killed
_made = 0


def make():
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def train(model, optimizer, step):
    global _made
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    _made += 1
    if _made == _die_after:
        os.kill(os.getpid(), signal.SIGKILL)


def tell(model, step):
    """A digest of all weights, and how many steps this process has made."""
    digest = hashlib.sha256()
    for one in model.parameters():
        digest.update(one.detach().numpy().tobytes())
    if dist.get_rank() == 0:
        print(f"{_made} steps made, step {step}, digest {digest.hexdigest()[:16]}", flush=True)
