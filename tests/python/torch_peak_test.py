"""With torch: a call takes the tensors that it makes and at most 96 MiB beyond what the process had."""

import unittest

import torch_jobs  # first: it sets what torch reads when it is imported
from torch_cases import Case
from peaks import LARGE, LARGE_BYTES, Peaks

import torch

import cairn
import cairn.torch

torch.set_num_threads(1)


class Peak(Peaks, Case):
    def saves_and_restores(self, model, optimizer, promised=96 << 20):
        for one in model.parameters():
            one.grad = torch.zeros_like(one)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        size = sum(one.nbytes for one in model.state_dict().values())
        size += sum(one.nbytes for its in optimizer.state.values() for one in its.values())
        manager = self.manager(max_to_keep=2)
        state = {"model": model, "optimizer": optimizer, "step": 1}

        def hold(name, made, call):
            return self.hold(name, made, call, promised)

        def save_async(step):
            manager.save_async(step, state)
            manager.wait()

        hold("the first save", 0, lambda: manager.save(1, state))
        hold("another save", 0, lambda: manager.save(2, state))
        hold("the first save_async", size, lambda: save_async(3))  # the pool, which is made once
        hold("another save_async", 0, lambda: save_async(4))
        hold("restore", 0, lambda: manager.restore(4, state))
        optimizer.state.clear()  # as in a new process
        # Two moments are made for each parameter.
        hold("restore of moments that are not there", size // 3 * 2, lambda: manager.restore_latest(state))
        tensors = {"w": None}
        manager.save(5, {"w": torch.ones(size // 12)})
        made = hold("restore of a tensor that it makes", size // 3, lambda: manager.restore(5, tensors))
        self.assertEqual(made["step"], 5)
        self.assertEqual(float(tensors["w"][-1]), 1)

    def test_of_a_large_layer_with_adamw(self):
        width = int((LARGE_BYTES / 12) ** 0.5) & ~63
        model = torch.nn.Linear(width, width)
        self.saves_and_restores(model, torch.optim.AdamW(model.parameters()))

    def test_of_many_small_layers_with_adamw(self):
        # Three tensors for each parameter, and the step of each.
        layers = 25_000 if LARGE else 1000
        model = torch.nn.ParameterList(torch.ones(4) for _ in range(layers))
        self.saves_and_restores(model, torch.optim.AdamW(model.parameters(), foreach=True),
                                max(96 << 20, 3072 * 4 * layers))


if __name__ == "__main__":
    unittest.main()
