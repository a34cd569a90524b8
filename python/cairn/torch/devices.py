"""Tensors that lie on a device: the library reads and writes their elements piece by piece, so that
no second copy of a model is made in the host's memory."""

import ctypes

import torch

STRIDED_BYTES = 64 << 20  # the most bytes of a strided part's copy on the device


def is_elsewhere(tensor):
    """Whether the tensor has elements that the host cannot reach."""
    return tensor.device.type not in ("cpu", "meta")


def to_host(tensor, start, extent, address):
    """Copies a part to host memory, row-major. The copy is complete when this returns."""
    with torch.no_grad():
        for part, host in _pieces(tensor, start, extent, address):
            host.copy_(part)


def to_device(tensor, start, extent, address):
    with _filling(tensor):
        for part, host in _pieces(tensor, start, extent, address):
            part.copy_(host)


def fill(tensor, source):
    """Does what copy_() does, for tensors of any mode."""
    with _filling(tensor):
        tensor.copy_(source)


def _filling(tensor):
    # A tensor that was made in inference mode can only be changed in this mode.
    return torch.inference_mode() if tensor.is_inference() else torch.no_grad()


_pinned = set()  # addresses; guarded by the interpreter's lock


def pin(address, size):
    """Pins memory, so that devices copy to it at full speed. If that fails, the memory is used as it is."""
    _pinned.add(address)  # first, because an interrupt may come right after the memory is pinned
    try:
        if int(torch.cuda.cudart().cudaHostRegister(address, size, 0)) == 0:
            return
        _forget_failure()
    except (AttributeError, AssertionError, RuntimeError):
        pass
    _pinned.discard(address)


def unpin(address):
    if address not in _pinned:
        return
    _pinned.discard(address)
    if int(torch.cuda.cudart().cudaHostUnregister(address)) != 0:
        _forget_failure()


def _forget_failure():
    """Clears CUDA's last error, which torch would else report for the application's next kernel: a small
    kernel takes it."""
    try:
        torch.ones(1, device="cuda")
    except RuntimeError:
        pass


def _pieces(tensor, start, extent, address):
    part = tensor.detach()
    for dim, (first, length) in enumerate(zip(start, extent)):
        part = part.narrow(dim, first, length)
    memory = (ctypes.c_char * (part.numel() * part.element_size())).from_address(address)
    host = torch.frombuffer(memory, dtype=torch.uint8).view(part.dtype).view(part.shape)
    return _cut(part, host)


def _cut(part, host):
    size = part.numel() * part.element_size()
    dim = next((dim for dim, length in enumerate(part.shape) if length > 1), None)
    if size <= STRIDED_BYTES or dim is None or part.is_contiguous():
        yield part, host
        return
    rows = max(1, STRIDED_BYTES * part.shape[dim] // size)
    for pair in zip(part.split(rows, dim), host.split(rows, dim)):
        yield from _cut(*pair)
