"""TensorFlow: each rank's SaveV2 into a prefix of its own, then rank 0's MergeV2Checkpoints, as
TensorFlow's own distributed saves do it. TensorFlow syncs nothing, so its files are synced here."""
import os
import sys

import server

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import tensorflow as tf


class Peer:
    def __init__(self, folder, rank, ranks, tensors):
        self.folder, self.rank, self.ranks = folder, rank, ranks
        self.names = [f"{name}/{rank}" for name in tensors]
        self.tensors = [tf.constant(tensor) for tensor in tensors.values()]
        self.dtypes = [tensor.dtype for tensor in self.tensors]

    def part(self, place, rank):
        return os.path.join(self.folder, place, f"part-{rank}-of-{self.ranks}")

    def write(self, place):
        tf.raw_ops.SaveV2(prefix=self.part(place, self.rank), tensor_names=self.names,
                          shape_and_slices=[""] * len(self.names), tensors=self.tensors)
        server.sync(self.part(place, self.rank) + ".data-00000-of-00001")

    def merge(self, place):
        if self.rank == 0:
            prefix = os.path.join(self.folder, place, "ckpt")
            tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[self.part(place, r) for r in range(self.ranks)],
                                          destination_prefix=prefix, delete_old_dirs=False)
            server.sync(prefix + ".index")
            server.sync(os.path.join(self.folder, place))

    def write_new(self): self.write("new")
    def merge_new(self): self.merge("new")
    def write_same(self): self.write("same")
    def merge_same(self): self.merge("same")

    def read(self):
        read = tf.raw_ops.RestoreV2(prefix=os.path.join(self.folder, "same", "ckpt"), tensor_names=self.names,
                                    shape_and_slices=[""] * len(self.names), dtypes=self.dtypes)
        self.last = read[0].numpy()[:1]


if __name__ == "__main__" and "--probe" not in sys.argv:
    what, same = "TensorFlow SaveV2 and merge, with fsync", ["write_same", "merge_same"]
    server.main(Peer, [
        ("save, new files", what, "new", ["fresh"], ["write_new", "merge_new"], []),
        ("save, steady", what + ", same prefix", "same", [], same, []),
        ("restore, N to N", "TensorFlow RestoreV2", "same", same + ["cold"], ["read"], [])])
