"""A small transformer that learns text character by character, and which text comes next."""

import pathlib

import torch
from torch import nn
from torch.nn import functional
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

import cairn

LANES, CONTEXT = 12, 48  # windows of a step, over all data ranks; characters in a window
WIDTH, HEADS, BLOCKS, VOCABULARY = 48, 6, 2, 96


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        y = self.before(x)
        # The heads of this rank.
        heads = [one(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                 for one in (self.query, self.key, self.value)]
        y = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.drop(self.out(y.transpose(1, 2).flatten(2)))
        return x + self.drop(self.down(functional.gelu(self.up(self.between(x)))))


#: How the tensor ranks share a block: they divide its heads, and the inner elements of its second
#: half.
SHARED = {
    **{name: ColwiseParallel() for name in ("query", "key", "value", "up")},
    **{name: RowwiseParallel() for name in ("out", "down")},
}


class Model(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(BLOCKS))
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, text):
        x = self.characters(text) + self.places(torch.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x))


class Loader:
    """Windows of a text, which begin anywhere in it, in shuffled order. The cursor deals them to the job
    as a whole: each data rank takes its lanes of a batch, so that losses do not depend on the mesh."""

    def __init__(self, directory, rank, ranks):
        files = sorted(one for one in pathlib.Path(directory).iterdir() if one.is_file())
        text = b"".join(one.read_bytes() for one in files)
        numbers = torch.frombuffer(bytearray(text), dtype=torch.uint8).long() - 32
        self.text = torch.where((numbers >= 0) & (numbers < VOCABULARY - 1), numbers, VOCABULARY - 1)
        self.lanes = slice(LANES * rank // ranks, LANES * (rank + 1) // ranks)
        self.cursor = cairn.Cursor(len(self.text) - CONTEXT, seed=2026)

    def next(self):
        if self.cursor.left < LANES:
            self.cursor.next_epoch()
        starts = self.cursor.take(LANES).samples[self.lanes]
        windows = torch.stack([self.text[at : at + CONTEXT + 1] for at in starts])
        return windows[:, :-1], windows[:, 1:]
