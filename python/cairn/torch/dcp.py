"""torch.distributed.checkpoint with Cairn's files: for dcp.save, dcp.async_save and dcp.load."""

import dataclasses
import hashlib
import io
import json
import os
import re

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from .. import _cairn, dtypes
from ..checkpoint import Checkpoint
from ..leaves import _error
from . import devices
from .group import group_of_readers
from .manager import Manager
from .staging import Staging
from .tensors import DTYPES, LACKING, OF_NAME, in_memory, part

_PLANNER = "dcp/planner"  # the key of the notes of DCP's planner about nested dicts, as JSON


def _step_of(checkpoint_id, directory):
    """The N of N, NAME-N or DIRECTORY/NAME-N."""
    text = os.fspath(checkpoint_id) if not isinstance(checkpoint_id, int) else str(checkpoint_id)
    found = re.fullmatch(r"(?:.*-)?([0-9]+)", os.path.basename(text))
    elsewhere = os.path.dirname(text)
    if not found or elsewhere and os.path.realpath(elsewhere) != os.path.realpath(directory):
        raise _error("checkpoint_id", f"{text!r} is no step of a checkpoint in {directory}",
                     f"Give the step, or {os.path.join(directory, 'ckpt')}-STEP.")
    return int(found[1])


class StorageWriter(dcp.StorageWriter, Staging):
    """Saves of torch.distributed.checkpoint as numbered checkpoints in a directory.

    dcp.save(state, checkpoint_id=f"{directory}/ckpt-{step}", storage_writer=writer)

    directory, ranks, options: as for Manager; `manager` is one. Use one writer for all saves

    DCP passes other values than tensors as bytes, made by torch.save; they become tensors of uint8.
    Constructor and saves are collective over the ranks of the process group that DCP is given.
    """

    def __init__(self, directory, ranks=None, **options):
        super().__init__()
        self.manager = Manager(directory, ranks, **options)
        self._step = None

    def reset(self, checkpoint_id=None):
        """DCP calls it before a save, but not if it was given no checkpoint_id."""
        known = checkpoint_id is not None
        self._step = _step_of(checkpoint_id, self.manager.directory) if known else None

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        pass

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        paths = {}
        for plan in plans:
            paths.update(plan.planner_data or {})
        return [dataclasses.replace(plans[0], storage_data=json.dumps(paths)), *plans[1:]]

    def write_data(self, plan, planner):
        step, self._step = self._step, None
        try:
            if step is None:
                raise _error("checkpoint_id", "dcp.save was given none",
                             f"Give it the step, or {self.manager.directory}/ckpt-STEP.")
            state = self.manager._native.agree(lambda: _state_of(plan, planner))
            self.manager._native.save(step, state, [], {})
        finally:
            self.was_saved(getattr(planner, "state_dict", {}).values())
        done = Future()
        done.set_result([
            WriteResult(index=item.index, size_in_bytes=item.tensor_storage_size() or 0,
                        storage_data=None)
            for item in plan.items
        ])
        return done

    def finish(self, metadata, results):
        """The checkpoint is committed already."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True

    def storage_meta(self):
        return StorageMeta(checkpoint_id=self._step)


def _state_of(plan, planner):
    parts, texts, lacking = {}, {}, {}
    for item in plan.items:
        key = item.index.fqn
        value = planner.resolve_data(item)
        if item.type == WriteItemType.BYTE_IO:
            texts[key] = value.getvalue()
            continue
        tensor = in_memory(key, value, False, None, by_parts=True)
        name = DTYPES.get(tensor.dtype, LACKING.get(tensor.dtype))
        if name is None:
            raise _error(key, f"a checkpoint has no dtype {tensor.dtype}", "Convert it.")
        if tensor.dtype in LACKING:
            lacking[key] = name
        said = item.tensor_data
        parts.setdefault(key, []).append(
            part(name, tensor, tuple(said.size), tuple(said.chunk.offsets))
        )
    if plan.storage_data is not None:
        texts[_PLANNER] = plan.storage_data.encode()
    state = _cairn.State()
    for key, all_parts in parts.items():
        state.add_memory(key, all_parts)
    for key, name in lacking.items():
        state.describe(key, "", [], [], {dtypes.NAME: json.dumps(name)})
    for key, text in texts.items():
        held = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        state.add_memory(key, [part("uint8", held, (len(text),), (0,))])
        state.describe(key, "", [], [], {"dcp": json.dumps("bytes")})
    return state


def _touched(key, tensor, item):
    """The stored slices that share an element with an item, as (key, number, bytes)."""
    want = list(zip(item.storage_offsets, item.lengths))
    for number, (start, extent, _, _, size) in enumerate(tensor.slices):
        if all(low < at + length and at < low + many
               for (at, length), low, many in zip(want, start, extent)):
            yield key, number, size


class StorageReader(dcp.StorageReader):
    """Loads of torch.distributed.checkpoint from any checkpoint that Cairn reads.

    dcp.load(state, checkpoint_id=f"{directory}/ckpt-{step}", storage_reader=reader)

    path      a prefix, or a directory for its newest checkpoint; a checkpoint_id takes its place
    ranks     as for Manager
    unpickle  True: torch.load reads DCP's own objects, which can run any code. False: only objects
              that torch.load(weights_only=True) reads are taken, all others are refused.

    Constructor and loads are collective. If ranks want other parts than were saved, or the same parts,
    one rank reads each chunk of a file, checks it and sends it to the ranks that want it. If each rank
    wants just what one rank had saved, each reads and checks it by itself.
    """

    def __init__(self, path=None, ranks=None, *, unpickle=False):
        super().__init__()
        self._path, self._unpickle = path, unpickle
        self._ranks = _cairn.group_of(group_of_readers(ranks))
        self._checkpoint = None

    def reset(self, checkpoint_id=None):
        if checkpoint_id is not None:
            self._path = checkpoint_id
        self._checkpoint = None

    def read_metadata(self, *args, **kwargs):
        if self._path is None:
            raise _error("path", "there is none", "Give StorageReader(path) or checkpoint_id=path.")
        self._checkpoint = Checkpoint(os.fspath(self._path))
        said, paths = {}, None
        for key, tensor in self._checkpoint.items():
            if key == _PLANNER:
                paths = json.loads(bytes(tensor[...]))
            elif tensor.attributes.get("dcp") == "bytes":
                said[key] = BytesStorageMetadata()
            elif tensor.dtype_name in OF_NAME:
                shape = torch.Size(tensor.shape)
                said[key] = TensorStorageMetadata(
                    properties=TensorProperties(dtype=OF_NAME[tensor.dtype_name]),
                    size=shape,
                    chunks=[ChunkStorageMetadata(torch.Size([0] * len(shape)), shape)],
                )
        if paths is not None:
            paths = {key: tuple(path) for key, path in paths.items()}
        return Metadata(state_dict_metadata=said, planner_data=paths,
                        storage_meta=StorageMeta(checkpoint_id=self._path))

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        pass

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        state, put_back, alone, stored = self._ranks.agree(lambda: self._wanted(plan, planner))
        # Ranks that read alone need no messages, but read each slice whole of which they want a
        # part. Two marks of 24 bits, so that sums of squares fit: all ranks have the same mark if
        # the number of ranks times the sum of squares equals the square of the sum.
        digest = hashlib.sha256(repr(self._identity()).encode()).digest()
        marks = [int.from_bytes(digest[:3], "little"), int.from_bytes(digest[3:6], "little")]
        by_all = self._ranks.sum([alone, stored, len(plan.items) == 0, *marks, *(mark * mark for mark in marks)])
        if any(by_all[i + 2] * self._ranks.size != by_all[i] ** 2 for i in (3, 4)):
            raise _error("path", f"ranks have opened different checkpoints: {self._checkpoint.prefix} here",
                         "Give the prefix of one: what is newest changes while a job saves.")
        each = self._ranks.size - by_all[2]
        alone = by_all[0] * each <= by_all[1] * 1.25
        ranks = _cairn.group_of(None) if alone else self._ranks
        if plan.items or not alone:
            _cairn.read_checkpoint(ranks, self._checkpoint.prefix, state, [])
        for one in put_back:
            one()
        done = Future()
        done.set_result(None)
        return done

    def _identity(self):
        """Identifies the opened checkpoint, also among checkpoints of the same name."""
        said = self._checkpoint.meta
        return os.path.basename(self._checkpoint.prefix), said["uuid"] if said else ""

    def _wanted(self, plan, planner):
        """The state to fill, and functions to call then; the bytes of stored slices that this rank would
        read alone, and the bytes of all stored slices of its tensors."""
        parts, put_back, slices, of_all = {}, [], set(), 0
        for item in plan.items:
            key = item.storage_index.fqn
            tensor = self._checkpoint[key]
            if key not in parts:
                of_all += sum(one[4] for one in tensor.slices)
            slices.update(_touched(key, tensor, item))
            if item.type == LoadItemType.BYTE_IO:
                held = torch.empty(tensor.shape, dtype=torch.uint8, device="cpu")
                parts.setdefault(key, []).append(part("uint8", held, tensor.shape, (0,)))
                put_back.append(lambda item=item, held=held: planner.load_bytes(
                    item, self._loadable(item.storage_index.fqn, held)))
                continue
            target = planner.resolve_tensor(item).detach()
            stored = OF_NAME[tensor.dtype_name]
            if target.dtype == stored:
                held = in_memory(key, target, True, put_back, by_parts=True)
            else:  # copy_() converts it for DCP
                held = torch.empty(target.shape, dtype=stored, device="cpu")
                put_back.append(lambda target=target, held=held: devices.fill(target, held))
            put_back.append(lambda item=item, target=target: planner.commit_tensor(item, target))
            parts.setdefault(key, []).append(
                part(tensor.dtype_name, held, tensor.shape, tuple(item.storage_offsets)))
        state = _cairn.State()
        for key, all_parts in parts.items():
            state.add_memory(key, all_parts)
        return state, put_back, sum(size for *_, size in slices), of_all

    def _loadable(self, key, held):
        raw = io.BytesIO(held.numpy().tobytes())
        if self._unpickle:
            return raw
        try:
            value = torch.load(raw, weights_only=True)
        except Exception as failure:
            raise _error(key, f"its bytes are a pickle that could run code: {failure}",
                         "If you trust the checkpoint, give StorageReader(…, unpickle=True).") from None
        # DCP loads bytes without this restriction, so it gets bytes that are made here from the safe object.
        safe = io.BytesIO()
        torch.save(value, safe)
        safe.seek(0)
        return safe

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True
