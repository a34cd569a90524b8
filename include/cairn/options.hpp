#pragma once
/// What a CheckpointManager is made with: options in groups, which Checkpoint and sharded_save
/// share
/// (`write` is in cairn/write_options.hpp, `async` in cairn/async.hpp). All defaults are usable.
///
/// Each struct lists its members in visit(), under the names that texts have for them; a member
/// that is not listed does not compile. A visitor has four functions of a name and a member:
/// - agreed: ranks must give the same; compared as text when a manager is made
/// - validated: ranks must give the same; compared by the code that decides who does what
/// - own: each rank's own
/// - group: a struct with a visit() of its own; its names are GROUP.NAME
///
/// What is a number, a bool, an enum (`words` has its values' names) or a text can be given as
/// text.
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/application.hpp"
#include "cairn/async.hpp"
#include "cairn/contents.hpp"
#include "cairn/frozen.hpp"
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
/// (NaNs too: values are not looked at), and only one rank's are stored. Holders take CRC-32C
/// checksums; all must read what is compared, and copy it if it is on a device, except that the
/// writer's checksum is mostly there already.
enum class ReplicaCheck {
  /// `sample`; in sharded_save, which no later save follows that could compare the rest, `all`.
  automatic,
  none,
  /// Slices of up to 64 KiB and strings at each save; of every larger one a part, the next one at
  /// each save.
  sample,
  all
};
constexpr std::array<const char*, 4> words(ReplicaCheck) {
  return {"automatic", "none", "sample", "all"};
}

/// Replicas that drift apart make a run that cannot be restored as it was, and mostly mean that a
/// broadcast is missing or memory is bad. The default looks for that at a small part of the cost
/// of writing; it finds at once what is wrong with scalars and small arrays, and with large ones
/// what lasts.
struct ReplicaOptions {
  ReplicaCheck check = ReplicaCheck::automatic;
  /// This many saves in a row compare everything, as long as the slices stay the same (≥ 1). The
  /// count goes on after a restart. After an error of this kind the next save compares everything.
  int sample_of = 16;
  /// The save fails with Code::disagreement, which names tensor, ranks and the boxes that differ
  /// (as 1/1024 of the slice, at most a megabyte, shows them); nothing is committed. Else it is a
  /// warning in the log of rank 0, which says whose bytes are stored.
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
  /// Of what is saved; both are restored, also out of one directory. HDF5 holds each tensor whole
  /// in one dataset of one file, so that policies (a warning says so) and Storage have no say; it
  /// takes no registered savers, and relies on renames. Throws unsupported where this build has no
  /// libhdf5.
  Format format = Format::bundle;
  /// Save the state as TensorFlow's objects (docs/object-graph.md): keys are paths, and
  /// tf.train.Checkpoint restores them.
  bool object_graph = false;
  ReplicaOptions replicas = {};  ///< how replicas are compared at a save
  std::shared_ptr<const ShardingCallback> policy = nullptr;  ///< none: ShardByTaskPolicy
  /// The device of a slice on this rank; none: task = rank, device as the memory says, and where
  /// that gives no number (LocalTensor::device_index) the rank's within the node. It gets a slice
  /// on another device than its tensor's as a tensor of that slice alone.
  std::function<DeviceTask(int rank, const LocalTensor&)> device_of = nullptr;
  /// Memory in which a save or restore puts rows with global ids in order stays for the next one,
  /// which is faster by what clearing it takes the operating system; about as many bytes on each
  /// rank as its share of the rows. False: it is given back when the call ends.
  bool keep_row_memory = true;
  /// Rank 0 keeps DIRECTORY/NAME.xdmf up to date, with which ParaView shows all checkpoints that
  /// are there: replaced after each commit, and as the manager opens. A failure is a warning in the
  /// log. It reads the index of what was saved; docs/look.md says what is shown.
  std::optional<XdmfOptions> xdmf = std::nullopt;
  Application application = {};  ///< who saves: stored with each checkpoint

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [format, object_graph, replicas, policy, device_of, keep_row_memory, xdmf, application] =
        self;
    options.agreed("format", format);
    options.agreed("object_graph", object_graph);
    options.group("replicas", replicas);
    options.validated("policy", policy);  // its description and its parameters
    options.own("device_of", device_of);
    options.own("keep_row_memory", keep_row_memory);
    options.own("xdmf", xdmf);  // rank 0's
    options.group("application", application);
  }
};

/// What a save says of its checkpoint beyond the state. The same on all ranks.
struct SaveOptions {
  std::optional<double> metric = std::nullopt;  ///< how good it is, for Retention::best
  /// Of the checkpoint, beside those of the state (State::describe), whose names they may have.
  Attributes attributes = {};
  /// How this save is cut, instead of StoreOptions::policy. The next save plans anew.
  std::shared_ptr<const ShardingCallback> policy = nullptr;
  bool overwrite = false;    ///< allowed for this save, also where the object's options forbid it
  Reach reach = Reach::any;  ///< where the checkpoint is to be, of a manager that has a tier

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [metric, attributes, policy, overwrite, reach] = self;
    options.own("metric", metric);
    options.own("attributes", attributes);
    options.validated("policy", policy);
    options.validated("overwrite", overwrite);
    options.validated("reach", reach);
  }
};

/// The mean time between failures of the job.
struct Mtbf {
  enum class Of { job, node, learnt } of = Of::job;
  double seconds = 0;

  static Mtbf job(double seconds) { return {Of::job, seconds}; }
  /// Of one node: the job's is this divided by the number of its nodes.
  static Mtbf per_node(double seconds) { return {Of::node, seconds}; }
  /// From the runs in this directory, as DIRECTORY/.cairn/runs.NAME remembers them: (first_guess +
  /// time of all runs) / (1 + failures). A run that ended without its manager's destructor, or
  /// while an exception was on its way, has failed; one that never saved does not count. The guess
  /// is for the job.
  static Mtbf learnt(double first_guess_seconds = 24 * 3600.0) {
    return {Of::learnt, first_guess_seconds};
  }
};

/// A save is due when any of these members says so; none given: never. Times are rank 0's.
struct SaveInterval {
  /// When a multiple of it is reached or passed.
  std::int64_t steps = 0;
  /// When nothing was saved for so long.
  double seconds = 0;
  /// When optimal_interval(cost, mtbf) has passed since the last save, or as long as the last saves
  /// took until they were durable, if that is longer. cost: the time that a save holds the
  /// application, and what an asynchronous one slows it: how much longer steps take while it is
  /// pending, by rank 0's clock between two should_save or should_stop. Until a save was
  /// measured, the cost is what the newest checkpoint records, or else one second.
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
  /// What should_stop looks at (cairn/stop.hpp); none: it never says yes. Either all ranks have one
  /// or none has; its time limit and file are rank 0's.
  std::shared_ptr<StopRequest> stop = nullptr;
  /// Seconds since 1970, for should_save and should_stop; none: the system's. Rank 0's decides.
  std::function<double()> clock = nullptr;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [interval, stop, clock] = self;
    options.group("interval", interval);
    options.agreed("stop", stop);
    options.own("clock", clock);
  }
};

/// Called before a save looks at the state, in the order given, on all ranks, with the step (of
/// Checkpoint::save its number, of write() 0). It may change values. What it throws on any rank
/// stops the save, as one error on all ranks, which says which callback it was: so one that calls
/// collective operations of its own must fail on all ranks alike. An exception that is no Error
/// becomes one with Code::application. So does an Error with Code::busy, which would speak of the
/// checkpoint's directory; durability_unknown becomes io.
using BeforeSave = std::function<void(std::int64_t step)>;

/// Data that the application writes by itself, as part of a checkpoint.
struct RegisteredSaver {
  std::string name;  ///< kept in the checkpoint
  /// Called on all ranks before the state is written, with the same prefix. It may write bundles
  /// (BundleWriter) whose prefixes begin with this one and lie in its directory, and returns those
  /// that this rank has written; none is fine. They become part of the checkpoint: their data files
  /// are moved into it, with its commit. Several bundles may hold slices of one tensor, which
  /// together must cover it (else invalid_argument, naming the saver). Errors as of BeforeSave.
  std::function<std::vector<std::string>(const std::string& prefix)> save;
  /// Called on all ranks with the checkpoint's prefix (BundleReader reads it), after the state was
  /// restored, if a saver of this name took part in the save. Errors as of BeforeSave, but all with
  /// Code::application except data_loss, which counts as damage of the checkpoint.
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
    options.agreed("before_save", before_save);  // how many
    options.validated("savers", savers);         // their names
    options.agreed("migrate", migrate);          // whether there is one
  }
};

struct ManagerOptions {
  std::string name = "ckpt";  ///< checkpoints are DIRECTORY/NAME-STEP
  Retention keep = {};        ///< what stays
  StoreOptions store = {};    ///< what is stored
  WriteOptions write = {};    ///< who writes it, and how
  AsyncOptions async = {};    ///< of save_async
  WhenOptions when = {};      ///< of should_save and should_stop
  TierOptions tier = {};      ///< checkpoints on the nodes
  FrozenOptions frozen = {};  ///< what is written once
  Hooks hooks = {};
  RestartOptions restore = {};  ///< which checkpoint a restart takes
  bool overwrite = false;       ///< allow save(step) over a live step
  bool read_only = false;       ///< never own, recover, collect or save
  /// Where what saves did when is written as the manager ends, and by write_trace(): each rank's in
  /// TRACE.RANK.json, for chrome://tracing and the like. Empty: nowhere.
  std::filesystem::path trace = {};
  /// Rewritten by rank 0 after each save for monitors, as OpenMetrics: what `cairn stats
  /// --openmetrics` tells, and counts of this manager. In the directory of node_exporter's textfile
  /// collector its name ends in .prom. Empty: none.
  std::filesystem::path metrics = {};

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
