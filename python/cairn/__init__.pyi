from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypedDict, TypeVar, overload

import numpy
import numpy.typing

_Loaded = TypeVar("_Loaded")

__version__: str
has_mpi: bool

class Error(RuntimeError):
    """What every call of Cairn raises, on all ranks alike. By its code it is also a ValueError
    (invalid_argument), FileNotFoundError or, of a tensor, KeyError (not_found), FileExistsError
    (already_exists), OSError with its errno (io, no_space, unavailable), or NotImplementedError (unsupported).

    code     "invalid_argument", "not_found", "data_loss", ...: cairn/error.hpp
    problem  what is wrong
    reason   why, or ""
    way_out  what to do, or ""
    rank     where it happened; None: it concerns the job
    tensor   the key, or ""
    path     the file, or ""
    """

    code: str
    problem: str
    reason: str
    way_out: str
    rank: int | None
    tensor: str
    path: str

class SaveHandle:
    """A save that save_async began."""

    @property
    def step(self) -> int: ...
    @property
    def stage(self) -> str:
        """captured, written, committed, skipped, replaced or failed"""
    @property
    def committed(self) -> bool: ...
    @property
    def prefix(self) -> str: ...
    @property
    def blocked_because(self) -> str: ...
    @property
    def error(self) -> Error | None:
        """Why it failed; None: it has not."""
    def release(self) -> None:
        """Returns when the state may be written again: see CheckpointManager.save_async. It does nothing unless
        the save has until="released"."""
    def wait_written(self) -> None:
        """Returns when this rank's part is written or was given up; raises the error if the save has failed."""

class Tensor:
    key: str
    shape: tuple[int, ...]
    units: str
    dimensions: list[str]
    coordinates: list[str]
    attributes: dict[str, Any]
    @property
    def dtype(self) -> numpy.dtype[Any]: ...
    @property
    def dtype_name(self) -> str: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def problem(self) -> str: ...
    @property
    def slices(self) -> list[tuple[Any, ...]]: ...
    def __len__(self) -> int: ...
    def __array__(
        self, dtype: numpy.typing.DTypeLike | None = None, copy: bool | None = None
    ) -> numpy.typing.NDArray[Any]: ...
    def __getitem__(self, index: Any) -> Any: ...

class Checkpoint(Mapping[str, Tensor]):
    prefix: str
    format: str
    meta: dict[str, Any] | None
    def __init__(self, path: str | PathLike[str]) -> None: ...
    @property
    def attributes(self) -> dict[str, Any]: ...
    @property
    def step(self) -> int | None: ...
    def __getitem__(self, key: str) -> Tensor: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class ShardableTensor:
    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def start(self) -> tuple[int, ...]: ...
    @property
    def extent(self) -> tuple[int, ...]: ...
    @property
    def bytes(self) -> int: ...
    @property
    def device(self) -> str: ...
    def piece(self, start: Sequence[int], extent: Sequence[int]) -> ShardableTensor: ...

class ShardingPolicy: ...

class MaxShardSizePolicy(ShardingPolicy):
    def __init__(self, max_bytes: int) -> None: ...

class PerDevicePolicy:
    policy: Any
    def __init__(self, policy: Any = None) -> None: ...

class Saver:
    name: str
    def __init__(
        self,
        name: str,
        save: Callable[[str], Sequence[str | PathLike[str]] | None],
        restore: Callable[[str], None],
    ) -> None: ...

class Application(NamedTuple):
    """Who saved a checkpoint; what it does not say is ""."""

    name: str
    version: str
    commit: str

class Migration:
    """What a restore of a checkpoint of another version does, for this call alone: hooks={"migrate": f} is
    called with the Application that saved it and this, and changes it."""

    state: MutableMapping[str, Any]
    options: dict[str, Any]
    extra: dict[str, Any]
    finish: Callable[[], object] | None

class BundleWriter:
    prefix: str
    def __init__(self, prefix: str | PathLike[str]) -> None: ...
    def add(self, key: str, value: Any) -> None: ...
    def finish(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

def merge(
    prefixes: Sequence[str | PathLike[str]],
    destination: str | PathLike[str],
    *,
    remove_inputs: bool = False,
    allow_missing: bool = False,
    overwrite: bool = False,
) -> None: ...
def set_log(function: Callable[[str, str], None] | None) -> None: ...
def set_wait_limits(*, log_seconds: float = 60.0, end_seconds: float = 0.0) -> None: ...

class RestoreReport(TypedDict):
    """What a restore did."""

    step: int
    prefix: str
    unused_keys: list[str]
    kept_keys: list[str]
    skipped: list[str]
    bytes_read: int
    unchecked: bool

class Ragged:
    array: numpy.typing.NDArray[Any]

class Resizable:
    value: Any

class Slice:
    array: Any
    shape: Any
    start: Any
    storage: str

class Patches:
    parts: list[Slice]
    storage: str

class Nothing:
    dtype: numpy.dtype[Any]
    shape: Any

class Sparse:
    value: Slice | Patches | Nothing
    fill: Any
    keep: bool

class Indexed:
    array: Any
    ids: Any

class Private:
    array: Any
    optional: bool

class Described:
    value: Any
    units: str
    dimensions: list[str]
    coordinates: list[str]

class Batch(NamedTuple):
    """What Cursor.take gives."""

    samples: numpy.typing.NDArray[numpy.int64]
    epoch: int
    first: int

class Cursor:
    """Where a job is in its data: deals the samples of each epoch to ranks, each once, also to those
    of a job that goes on."""

    def __init__(
        self, samples: int, comm: Any = None, *, seed: int = 0, shuffle: bool = True
    ) -> None: ...
    def take(self, samples: int) -> Batch: ...
    def done(self, batch: Batch | int | None = None) -> None: ...
    def rewind(self) -> None: ...
    def next_epoch(self) -> None: ...
    @property
    def epoch(self) -> int: ...
    @property
    def left(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def shuffle(self) -> bool: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    def batches(self, size: int) -> int: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    @overload
    def over(self, loader: Iterable[_Loaded], *, even: Literal[False] = False) -> Iterator[_Loaded]: ...
    @overload
    def over(self, loader: Iterable[_Loaded], *, even: bool) -> Iterator[_Loaded | None]: ...

def slice(
    array: Any,
    shape: int | Sequence[int] | None = None,
    start: int | Sequence[int] | None = None,
    *,
    storage: str = "automatic",
) -> Slice: ...
def patches(parts: Sequence[Slice], *, storage: str = "automatic") -> Patches: ...
def nothing(dtype: numpy.typing.DTypeLike, shape: int | Sequence[int]) -> Nothing: ...
def sparse(value: Slice | Patches | Nothing, fill: Any, *, keep: bool = False) -> Sparse: ...
def ragged(array: Any, *, deal: Callable[[int, int, int], int] | None = None) -> Ragged: ...
def resizable(value: Any) -> Resizable: ...
def indexed(
    array: Any, ids: Any, *, first: int = 0, rows: int = -1, ids_key: str = ""
) -> Indexed: ...
def private(array: Any, *, optional: bool = False) -> Private: ...
def described(
    value: Any,
    *,
    units: str = "",
    dimensions: Sequence[str] = (),
    coordinates: Sequence[str] = (),
    **attributes: Any,
) -> Described: ...
def open(path: str | PathLike[str]) -> Checkpoint: ...
def steps(directory: str | PathLike[str]) -> list[int]: ...
def checkpoints(directory: str | PathLike[str]) -> list[str]: ...
def restore_hdf5(
    file: str | PathLike[str], state: MutableMapping[str, Any], comm: Any = None, **options: Any
) -> RestoreReport: ...

def is_newer_version(a: str, b: str) -> bool:
    """Whether version a comes behind b: 1.10 comes behind 1.9."""

def build_options() -> dict[str, str]:
    """What the library was built with, such as MPI and HDF5."""

def option_names() -> list[str]:
    """Names of the options of a CheckpointManager."""

def stop_option_names() -> list[str]:
    """Names of the options in its stop=."""

def restore_option_names() -> list[str]:
    """Names of the options of a restore."""

class CheckpointManager:
    directory: str
    def __init__(
        self,
        directory: str | PathLike[str],
        comm: Any = None,
        *,
        stop: bool | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None: ...
    def save(self, step: int, state: Mapping[str, Any], **options: Any) -> str: ...
    def save_async(self, step: int, state: Mapping[str, Any], **options: Any) -> SaveHandle: ...
    def restore(
        self,
        step: int,
        state: MutableMapping[str, Any],
        *,
        types: type | Iterable[type] = (),
        **options: Any,
    ) -> RestoreReport: ...
    def restore_latest(
        self,
        state: MutableMapping[str, Any],
        *,
        types: type | Iterable[type] = (),
        **options: Any,
    ) -> RestoreReport | None: ...
    def should_save(self, step: int) -> bool: ...
    def should_stop(self) -> tuple[str, int] | None: ...
    def request_stop(self) -> None: ...
    def poll(self) -> bool: ...
    def wait(self, home: bool = False) -> None: ...
    def steps(self) -> list[dict[str, Any]]: ...
    def open(self, step: int) -> Checkpoint: ...
    def pin(self, step: int) -> None: ...
    def unpin(self, step: int) -> None: ...
    def mark(self, step: int, mark: Literal["good", "bad"]) -> None: ...
    def statistics(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
