"""Gives the memory of torch's tensors to the library."""

import torch

from .. import _cairn, dtypes
from . import devices
from ..leaves import _error

DTYPES = {
    getattr(torch, theirs): ours
    for theirs, ours in {
        "bool": "bool", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32",
        "uint64": "uint64", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
        "float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "float64": "float64",
        "complex64": "complex64", "complex128": "complex128", "float8_e4m3fn": "float8_e4m3fn",
        "float8_e5m2": "float8_e5m2", "float8_e4m3fnuz": "float8_e4m3fnuz",
        "float8_e5m2fnuz": "float8_e5m2fnuz", "int4": "int4", "uint4": "uint4", "int2": "int2",
        "uint2": "uint2",
    }.items()
    if hasattr(torch, theirs)
}
TENSORS = _cairn.TorchTensors(
    DTYPES, tuple(getattr(torch.nn, name) for name in ("Parameter", "Buffer")
                  if isinstance(getattr(torch.nn, name, None), type)) + (torch.Tensor,),
    torch.strided, devices.to_host, devices.to_device, devices.pin, devices.unpin)
# Dtypes whose bytes are stored.
LACKING = {getattr(torch, name): name for name in dtypes.all_names() if hasattr(torch, name)}
_NUMBERS = {dtype: number for number, dtype in enumerate(LACKING, 1)}
OF_NAME = {ours: theirs for theirs, ours in (DTYPES | LACKING).items()}


def dtype_name(key, tensor):
    name = DTYPES.get(tensor.dtype)
    if name is None:
        raise _error(key, f"a checkpoint has no dtype {tensor.dtype}",
                     "Convert it, or give tensor.view(torch.uint8).")
    return name


def require_plain(key, tensor):
    """Raises unless the tensor has elements in memory of its own, one after the other or with strides."""
    if tensor.device.type == "meta":
        raise _error(key, "it is on the meta device and has no elements",
                     "Give it memory first: module.to_empty(device=…).")
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        raise _error(key, f"it is a sparse, nested or quantized tensor ({tensor.layout})",
                     "Give its parts as tensors of their own, such as indices() and values().")
    if torch.utils._python_dispatch.is_traceable_wrapper_subclass(tensor):
        raise _error(key, f"it is a {type(tensor).__name__}, which is made of other tensors",
                     "Give those under keys of their own.")
    if tensor.numel() == 0:
        return
    last = tensor.storage_offset() + sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())
    )
    if (last + 1) * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise _error(key, "its storage was made smaller than the tensor",
                     "Save it where its parameters are gathered, or its sharded state.")


def in_memory(key, tensor, restoring, put_back, by_parts=False):
    """The tensor itself if it lies in host memory or, with `by_parts`, on a device from which part() can
    copy; else a copy in host memory, which `put_back` copies to the device after a restore."""
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        if restoring:
            require_no_view_of_others(key, tensor)
        tensor = tensor.resolve_conj().resolve_neg()
    require_plain(key, tensor)
    if restoring and any(s == 0 and n > 1 for n, s in zip(tensor.shape, tensor.stride())):
        raise _error(key, "its elements share memory, as those of expand() do",
                     "Restore into tensor.contiguous().")
    if not devices.is_elsewhere(tensor) or by_parts and TENSORS.elsewhere(tensor) is not None:
        return tensor
    if not restoring:
        return tensor.cpu()
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu",
                       pin_memory=torch.cuda.is_available())
    put_back.append(lambda: devices.fill(tensor, host))
    return host


def bytes_of(key, tensor, restoring):
    """The bytes of a tensor whose dtype checkpoints lack."""
    tensor = tensor.detach()
    if not restoring:
        tensor = tensor.resolve_conj().resolve_neg()
    require_plain(key, tensor)
    require_no_view_of_others(key, tensor)
    return (tensor if tensor.element_size() == 1 else tensor.unsqueeze(-1)).view(torch.uint8)


def scope_of(tensor, scope):
    """The scope for ties. Tensors with the same memory are one only with the same dtype, also as bytes."""
    number = _NUMBERS.get(tensor.dtype)
    return scope if number is None or scope < 0 else scope + (number << 24)


def require_no_view_of_others(key, tensor):
    if tensor.is_conj() or tensor.is_neg():
        raise _error(key, "it is a conjugate or negative view", "Restore into another tensor.")


def part(dtype, tensor, shape, start):
    """A part for native.add_memory."""
    if tensor.dtype in LACKING:
        tensor, more = bytes_of("", tensor, True), dtypes.more_of(dtype)
        dtype, shape, start = "uint8", (*shape, *more), (*start, *(0 for _ in more))
    where = TENSORS.elsewhere(tensor) if devices.is_elsewhere(tensor) else tensor.data_ptr()
    return (dtype, where, tensor.shape, tensor.stride(), shape, start, tensor)
