#pragma once
/// The options of a CheckpointManager, in groups, which Checkpoint and sharded_save share (`write`
/// is in cairn/write_options.hpp, `async` in cairn/async.hpp). All defaults are usable.
///
/// Each struct lists its members in visit(), with their names in text; if a member is not listed,
/// the struct does not compile. A visitor has four functions of a name and a member:
/// - agreed: ranks must give the same value; compared as text when a manager is made
/// - validated: ranks must give the same value; the code that uses it compares it
/// - own: each rank has its own value
/// - group: a struct with a visit() of its own; its names are GROUP.NAME
///
/// A number, a bool, an enum (`words` has the names of its values) or a text can be given as text.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/application.hpp"
#include "cairn/async.hpp"
#include "cairn/contents.hpp"
#include "cairn/frozen.hpp"
#include "cairn/path_text.hpp"
#include "cairn/restart.hpp"
#include "cairn/retention.hpp"
#include "cairn/sharding.hpp"
#include "cairn/state.hpp"
#include "cairn/tier.hpp"
#include "cairn/write_options.hpp"
#include "cairn/xdmf.hpp"

namespace cairn {

class StopRequest;

/// Which replicas a save compares: slices that several ranks hold must have the same bits on each
/// (also in NaNs: bits are compared, not values), and only one rank's are stored. Each holder
/// computes CRC-32C checksums, so it must read the compared bytes, and copy them if they are on a
/// device; the writer mostly has its checksum already.
enum class ReplicaCheck {
  /// `sample`; but in sharded_save, since no later save could compare the rest, `all`.
  automatic,
  none,
  /// Each save compares slices of up to 64 KiB and strings, and the next part of every larger
  /// slice.
  sample,
  all
};
constexpr std::array<const char*, 4> words(ReplicaCheck) {
  return {"automatic", "none", "sample", "all"};
}

/// If replicas differ, the run cannot be restored as it was; mostly a broadcast is missing or
/// memory is bad. The default looks for that at a small part of the cost of writing. It finds
/// differences in scalars and small arrays at once, and lasting ones in large arrays within
/// sample_of saves.
struct ReplicaOptions {
  ReplicaCheck check = ReplicaCheck::automatic;
  /// This many saves in a row compare everything, as long as the slices stay the same (≥ 1). The
  /// count goes on after a restart. After an error of divergence the next save compares everything.
  int sample_of = 16;
  /// A divergence fails the save with Code::disagreement and commits nothing. The error names
  /// tensor, ranks and the boxes that differ (in steps of 1/1024 of the slice, at most a megabyte).
  /// False: it is a warning in the log of rank 0, which says whose bytes are stored.
  bool divergence_is_error = true;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [check, sample_of, divergence_is_error] = self;
    options.agreed("check", check);
    options.agreed("sample_of", sample_of);
    options.agreed("divergence_is_error", divergence_is_error);
  }
};

/// The group `store`: what is stored, and how it is cut.
struct StoreOptions {
  /// The format of new checkpoints; both formats are restored, also from one directory. HDF5 holds
  /// each tensor whole in one dataset of one file, so policies (with a warning) and Storage are
  /// ignored; it takes no registered savers, and relies on renames. A manager throws unsupported if
  /// this build has no libhdf5.
  Format format = Format::bundle;
  /// Save the state as TensorFlow's objects (docs/object-graph.md): keys are paths, and
  /// tf.train.Checkpoint can restore them.
  bool object_graph = false;
  /// Only for HDF5, written by each rank for itself: TensorFlow must read bundles. A manager throws
  /// unsupported if this build lacks the codec's library.
  StoreCodec codec = StoreCodec::none;
  ReplicaOptions replicas = {};  ///< how replicas are compared at a save
  std::shared_ptr<const ShardingCallback> policy = nullptr;  ///< none: ShardByTaskPolicy
  /// Returns the device of a slice on this rank; none: task = rank, with the device of the memory;
  /// if that has no number (LocalTensor::device_index), the rank's number within its node. A slice
  /// on another device than its tensor's is passed as a tensor of that slice alone.
  std::function<DeviceTask(int rank, const LocalTensor&)> device_of = nullptr;
  /// Keep the memory in which a save or restore puts rows with global ids in order for the next
  /// one, so that the operating system need not clear it again; on each rank about as many bytes as
  /// its share of the rows. False: it is freed when the call ends.
  bool keep_row_memory = true;
  /// Rank 0 keeps DIRECTORY/NAME.xdmf up to date, with which ParaView shows all checkpoints of the
  /// directory: it replaces the file after each commit and when the manager opens. A failure is a
  /// warning in the log. It reads the index of each checkpoint; docs/look.md says what is shown.
  std::optional<XdmfOptions> xdmf = std::nullopt;
  Application application = {};  ///< the program that saves: stored with each checkpoint

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [format, object_graph, codec, replicas, policy, device_of, keep_row_memory, xdmf,
           application] = self;
    options.agreed("format", format);
    options.agreed("object_graph", object_graph);
    options.agreed("codec", codec);
    options.group("replicas", replicas);
    options.validated("policy", policy);  // compared: its description and its parameters
    options.own("device_of", device_of);
    options.own("keep_row_memory", keep_row_memory);
    options.own("xdmf", xdmf);  // only rank 0's counts
    options.group("application", application);
  }
};

/// Options of one save. The same on all ranks.
struct SaveOptions {
  std::optional<double> metric = std::nullopt;  ///< how good it is, for Retention::best
  /// Attributes of the checkpoint, besides those of the state (State::describe), which they may
  /// replace.
  Attributes attributes = {};
  /// The policy of this save, instead of StoreOptions::policy. The next save plans anew.
  std::shared_ptr<const ShardingCallback> policy = nullptr;
  bool overwrite = false;         ///< allow it for this save, even if the manager's options do not
  Reach reach = Reach::any;       ///< with a tier: where the checkpoint has to be
  Until until = Until::captured;  ///< of save_async: how long the state stays as it is

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [metric, attributes, policy, overwrite, reach, until] = self;
    options.own("metric", metric);
    options.own("attributes", attributes);
    options.validated("policy", policy);
    options.validated("overwrite", overwrite);
    options.validated("reach", reach);
    options.validated("until", until);
  }
};

/// The mean time between failures of the job.
struct Mtbf {
  enum class Of { job, node, learnt } of = Of::job;
  double seconds = 0;

  static Mtbf job(double seconds) { return {Of::job, seconds}; }
  /// The time of one node: the job's is this divided by the number of its nodes.
  static Mtbf per_node(double seconds) { return {Of::node, seconds}; }
  /// Learnt from the runs in this directory, which DIRECTORY/.cairn/runs.NAME records: (first_guess
  /// + time of all runs) / (1 + failures). A run that ended without its manager's destructor, or
  /// while an exception was thrown, has failed; one that never saved does not count. The guess is
  /// for the job.
  static Mtbf learnt(double first_guess_seconds = 24 * 3600.0) {
    return {Of::learnt, first_guess_seconds};
  }
};

/// A save is due when any of these members makes it due; none given: never. Times are rank 0's.
struct SaveInterval {
  /// Due when a multiple of it is reached or passed.
  std::int64_t steps = 0;
  /// Due when nothing was saved for so long.
  double seconds = 0;
  /// Due when optimal_interval(cost, mtbf) has passed since the last save or, if that is longer,
  /// the time that the last saves took until they were durable. The cost is the time for which a
  /// save holds the application, and by which an asynchronous one slows it: how much longer steps
  /// take while it is pending, by rank 0's clock between two calls of should_save or should_stop.
  /// Until a save was measured, the newest checkpoint's record gives the cost, or else it is one
  /// second.
  std::optional<Mtbf> optimal_for = std::nullopt;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [steps, seconds, optimal_for] = self;
    options.agreed("steps", steps);
    options.agreed("seconds", seconds);
    options.agreed("optimal_for", optimal_for);
  }
};

inline SaveInterval every_steps(std::int64_t steps) { return {.steps = steps}; }
inline SaveInterval every_seconds(double seconds) { return {.seconds = seconds}; }
inline SaveInterval optimal(Mtbf mtbf) { return {.optimal_for = mtbf}; }
inline SaveInterval optimal(double mtbf_seconds) { return optimal(Mtbf::job(mtbf_seconds)); }

/// The group `when`: when should_save and should_stop say yes.
struct WhenOptions {
  SaveInterval interval = {};
  /// The requests that should_stop reports (cairn/stop.hpp); none: it never gives a reason. Either
  /// all ranks have one or none has; the time limit and the file are rank 0's.
  std::shared_ptr<StopRequest> stop = nullptr;
  /// Returns seconds since 1970, for should_save and should_stop; none: the system's clock. Only
  /// rank 0's counts.
  std::function<double()> clock = nullptr;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [interval, stop, clock] = self;
    options.group("interval", interval);
    options.agreed("stop", stop);
    options.own("clock", clock);
  }
};

/// Called before a save reads the state, in the order given, on all ranks, with the step (in
/// Checkpoint::save its number, in write() 0). It may change values. An exception on any rank stops
/// the save with one error on all ranks, which names the callback; a callback that calls collective
/// operations of its own must fail on all ranks alike. An exception that is no Error becomes one
/// with Code::application. So does an Error with Code::busy, which would seem to be about the
/// checkpoint's directory; durability_unknown becomes io.
using BeforeSave = std::function<void(std::int64_t step)>;

/// Data of a checkpoint that the application writes itself.
struct RegisteredSaver {
  std::string name;  ///< kept in the checkpoint
  /// Called on all ranks before the state is written, with the same prefix. It may write bundles
  /// (BundleWriter) whose prefixes begin with this one and lie in its directory, and returns the
  /// prefixes that this rank has written, if any. They become part of the checkpoint: its commit
  /// moves their data files into it. Several bundles may hold slices of one tensor, which together
  /// must cover it (else invalid_argument, naming the saver). Its errors are treated as those of
  /// BeforeSave.
  std::function<std::vector<std::string>(const std::string& prefix)> save;
  /// Called on all ranks with the checkpoint's prefix (BundleReader reads it), after the state was
  /// restored, if a saver of this name took part in the save. Its errors are treated as those of
  /// BeforeSave, but all get Code::application except data_loss, which counts as damage of the
  /// checkpoint.
  std::function<void(const std::string& prefix)> restore;
};

/// The group `hooks`: code of the application that takes part in each save and restore.
struct Hooks {
  std::vector<BeforeSave> before_save = {};
  std::vector<RegisteredSaver> savers = {};
  Migrate migrate = nullptr;  ///< for checkpoints of other versions of StoreOptions::application

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [before_save, savers, migrate] = self;
    options.agreed("before_save", before_save);  // compared: how many
    options.validated("savers", savers);         // compared: their names
    options.agreed("migrate", migrate);          // compared: whether there is one
  }
};

struct ManagerOptions {
  std::string name = "ckpt";  ///< checkpoints are DIRECTORY/NAME-STEP
  Retention keep = {};        ///< which checkpoints stay
  StoreOptions store = {};    ///< what is stored, and how it is cut
  WriteOptions write = {};    ///< who writes it, and how
  AsyncOptions async = {};    ///< for save_async
  WhenOptions when = {};      ///< for should_save and should_stop
  TierOptions tier = {};      ///< checkpoints on the nodes
  FrozenOptions frozen = {};  ///< tensors that are written once
  Hooks hooks = {};
  RestartOptions restore = {};  ///< how a restart chooses its checkpoint
  bool overwrite = false;       ///< allow save(step) over a live step
  bool read_only = false;       ///< never own the directory, recover, remove or save
  /// Path of a trace of the saves' stages over time. Each rank writes TRACE.RANK.json, for
  /// chrome://tracing and the like, when the manager ends and in write_trace(). Empty: none.
  PathText trace = {};
  /// A file for monitors, which rank 0 rewrites after each save, in OpenMetrics' format: what
  /// `cairn stats --openmetrics` prints, and counts of this manager. For the textfile collector of
  /// node_exporter the name must end in .prom. Empty: none.
  PathText metrics = {};

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [name, keep, store, write, async, when, tier, frozen, hooks, restore, overwrite,
           read_only, trace, metrics] = self;
    options.agreed("name", name);
    options.group("keep", keep);
    options.group("store", store);
    options.group("write", write);
    options.group("async", async);
    options.group("when", when);
    options.group("tier", tier);
    options.group("frozen", frozen);
    options.group("hooks", hooks);
    options.group("restore", restore);
    options.agreed("overwrite", overwrite);
    options.agreed("read_only", read_only);
    options.own("trace", trace);
    options.own("metrics", metrics);
  }
};

}  // namespace cairn
