"""Tensors that lie on a device: the library reads and writes their elements piece by piece, so that
no second copy of a model is made in the host's memory."""

import ctypes

import torch

STRIDED_BYTES = 64 << 20  # of a strided part's copy on the device


def is_elsewhere(tensor):
    """Whether the host cannot reach its elements, and they exist."""
    return tensor.device.type not in ("cpu", "meta")


def to_host(tensor, start, extent, address):
    """Copies a part to host memory, row-major. It has arrived when this returns."""
    with torch.no_grad():
        for part, host in _pieces(tensor, start, extent, address):
            host.copy_(part)


def to_device(tensor, start, extent, address):
    with torch.no_grad():
        for part, host in _pieces(tensor, start, extent, address):
            part.copy_(host)


_pinned = set()


def pin(address, size):
    """So that devices copy to this memory at their full speed. Where that cannot be had, it must do
    as it is."""
    try:
        failed = int(torch.cuda.cudart().cudaHostRegister(address, size, 0)) != 0
    except (AttributeError, AssertionError, RuntimeError):  # there is no CUDA
        return
    if not failed:
        _pinned.add(address)
        return
    # CUDA remembers it, and torch would raise it from the application's next kernel.
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError:
        pass


def unpin(address):
    if address in _pinned:
        _pinned.remove(address)
        torch.cuda.cudart().cudaHostUnregister(address)


def _pieces(tensor, start, extent, address):
    part = tensor.detach()
    for dim, (first, length) in enumerate(zip(start, extent)):
        part = part.narrow(dim, first, length)
    size = part.numel() * part.element_size()
    memory = (ctypes.c_char * size).from_address(address)
    host = torch.frombuffer(memory, dtype=torch.uint8).view(part.dtype).view(part.shape)
    if size <= STRIDED_BYTES or part.is_contiguous():
        return [(part, host)]
    dim = next(dim for dim, length in enumerate(extent) if length > 1)
    rows = max(1, STRIDED_BYTES * extent[dim] // size)
    return zip(part.split(rows, dim), host.split(rows, dim))
