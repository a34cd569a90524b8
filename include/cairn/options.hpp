#pragma once
/// What a CheckpointManager is made with.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/async.hpp"
#include "cairn/contents.hpp"
#include "cairn/direct_io.hpp"
#include "cairn/io_ranks.hpp"
#include "cairn/retention.hpp"
#include "cairn/save_interval.hpp"
#include "cairn/savers.hpp"
#include "cairn/sharding.hpp"
#include "cairn/state.hpp"
#include "cairn/writer.hpp"

namespace cairn {

class StopRequest;

namespace io {
class FileSystem;
}

/// Which replicas a save compares: slices that several ranks hold must have the same bits on each
/// (NaNs too: values are not looked at), and only one rank's are stored. Holders take CRC-32C
/// checksums; all must read what is compared, and copy it if it is on a device, except that the
/// writer's checksum is mostly there already.
enum class ReplicaCheck {
  none,
  /// Slices of up to 64 KiB and strings at each save; of every larger one a part, the next one at
  /// each save.
  sample,
  all
};

/// Replicas that drift apart make a run that cannot be restored as it was, and mostly mean that a
/// broadcast is missing or memory is bad. The default looks for that at a small part of the cost
/// of writing; it finds at once what is wrong with scalars and small arrays, and with large ones
/// what lasts.
struct ReplicaOptions {
  ReplicaCheck check = ReplicaCheck::sample;
  /// This many saves in a row compare everything, as long as the slices stay the same (≥ 1). The
  /// count goes on after a restart. After an error of this kind the next save compares everything.
  int sample_of = 16;
  /// The save fails with Code::disagreement, which names tensor, ranks and the boxes that differ
  /// (as 1/1024 of the slice, at most a megabyte, shows them); nothing is committed. Else it is a
  /// warning in the log of rank 0, which says whose bytes are stored.
  bool divergence_is_error = true;
};

struct ManagerOptions {
  std::string name = "ckpt";  ///< checkpoints are DIRECTORY/NAME-STEP
  int max_to_keep = 5;        ///< newest ones that stay; 0: all
  Retention keep = {};        ///< what stays besides them
  /// Of what is saved; both are restored, also out of one directory. HDF5 holds each tensor whole
  /// in one dataset of one file, so that policies (a warning says so) and Storage have no say; it
  /// takes no registered savers, and relies on renames. Throws unsupported where this build has no
  /// libhdf5.
  Format format = Format::bundle;
  bool overwrite = false;     ///< allow save(step) over a live step
  bool read_only = false;     ///< never own, recover, collect or save
  bool fall_back = true;      ///< restore_latest: go on to an older one when one is damaged
  bool verify_first = false;  ///< restore: prove every byte before any array is touched
  std::int64_t chunk_bytes = std::int64_t{16} << 20;  ///< unit of reading and exchange, ≤ 64 MiB
  IoRanks io_ranks = {};  ///< who touches data files; none stated: everyone
  /// Of data files; what it cannot serve is unsupported or invalid_argument when this is made.
  Writer writer = Writer::posix;
  DirectIo direct_io = DirectIo::automatic;  ///< how Writer::posix writes data files
  /// The data files of a checkpoint that retention removes, or that is replaced, are kept for the
  /// next save to overwrite, which is faster than writing new ones; at most one save's, and none
  /// when the manager ends. Bundles of Writer::posix, with renames. A file that has another hard
  /// link is left to that. Whoever still reads such a checkpoint may find changed bytes, which its
  /// checksums tell: pin what others copy.
  bool recycle = true;
  MpiIoOptions mpi_io = {};  ///< not with io_ranks: the MPI library has aggregators of its own
  /// Save the state as TensorFlow's objects (docs/object-graph.md): keys are paths, and
  /// tf.train.Checkpoint restores them.
  bool object_graph = false;
  ReplicaOptions replicas = {};  ///< how replicas are compared at a save
  /// False: rely on no rename, for file systems that have none or where it is no single step. Also
  /// where the directory holds .cairn/no-atomic-rename, which such a manager leaves there. While a
  /// step is overwritten then, and after a crash in that, read-only managers list it as missing or
  /// damaged until the owner is there again; restore(step) and open(step) find what was there
  /// before.
  bool atomic_rename = true;
  AsyncOptions async = {};     ///< of save_async
  SaveInterval interval = {};  ///< of should_save
  /// What should_stop looks at; none: it never says yes. Either all ranks have one or none has; its
  /// time limit and file are rank 0's.
  std::shared_ptr<StopRequest> stop = nullptr;
  /// Seconds since 1970, for should_save and should_stop; none: the system's. Rank 0's decides.
  std::function<double()> clock = nullptr;
  /// Where what saves did when is written as the manager ends, and by write_trace(): each rank's in
  /// TRACE.RANK.json, for chrome://tracing and the like. Empty: nowhere.
  std::filesystem::path trace = {};
  double owner_wait_seconds = 10;  ///< how long a directory's dying previous owner is waited for
  /// For storage that may stop answering; 0: no limit. A save that has waited for its files for so
  /// long on some rank fails on all of them (Code::io), as do single file operations of other calls
  /// (but not the reading of tensors); older checkpoints stay whole, and the process can end. What
  /// has not come back goes on without us, and touches no memory of the application. Until it has,
  /// each further operation fails at once; then the manager works again. It costs a second copy of
  /// what is written. Writer::posix only.
  double storage_limit_seconds = 0;
  std::shared_ptr<const ShardingCallback> policy = nullptr;  ///< none: ShardByTaskPolicy
  /// The device of a slice on this rank; none: task = rank, device as the memory says, and where
  /// that gives no number (LocalTensor::device_index) the rank's within the node. It gets a slice
  /// on another device than its tensor's as a tensor of that slice alone.
  std::function<DeviceTask(int rank, const LocalTensor&)> device_of = nullptr;
  std::vector<BeforeSave> before_save = {};
  std::vector<RegisteredSaver> savers = {};
  std::shared_ptr<io::FileSystem> file_system = nullptr;  ///< none: POSIX
};

}  // namespace cairn
