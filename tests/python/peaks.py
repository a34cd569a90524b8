"""The most memory that a call takes, as the system counts it: pages, whichever code asked for
them."""

import ctypes
import gc
import os
import sys

MIB = 1 << 20
PROMISED = 96 * MIB  # beyond the arrays that a call makes
LARGE = bool(os.environ.get("CAIRN_LARGE_TESTS"))
LARGE_BYTES = (512 if LARGE else 128) * MIB  # a quarter is more than is promised, too
SMALL_TENSORS = 100_000 if LARGE else 10_000


def status_bytes(name):
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith(name + ":"):
                return int(line.split()[1]) << 10
    raise OSError(f"/proc/self/status has no {name}")


def forget_peak():
    """Restarts the count of VmHWM. Returns False if this system cannot do that."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return status_bytes("VmHWM") > 0
    except OSError:
        return False


def settle():
    """Returns garbage and the allocator's unused memory to the system, so that they hide
    nothing."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


class Peaks:
    """A mixin for a unittest.TestCase."""

    def setUp(self):
        if not forget_peak():
            self.skipTest("/proc/self/clear_refs cannot be written")
        super().setUp()

    def hold(self, name, made, call, promised=PROMISED):
        """`made`: bytes of the arrays that the call makes."""
        settle()
        forget_peak()
        before = status_bytes("VmRSS")
        result = call()
        beyond = status_bytes("VmHWM") - before - made
        if os.environ.get("CAIRN_SAY_PEAKS"):
            print(f"{self.id()}: {name}: {beyond >> 10} KiB", file=sys.stderr, flush=True)
        self.assertLessEqual(beyond, promised, name)
        return result
