// Checkpoint and LoadStatus: TensorFlow's interface to the engine.
#include "cairn/checkpoint.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "cairn/ragged.hpp"
#include "group/collectives.hpp"
#include "session/engine.hpp"
#include "session/job/prefix.hpp"
#include "session/objects.hpp"
#include "session/on_mesh.hpp"
#include "session/pending_saves.hpp"
#include "session/restore/resolve_restore.hpp"
#include "session/restore/restore.hpp"
#include "session/shared_engines.hpp"

namespace cairn {
namespace {

constexpr const char* counter_key = "save_counter";

std::string list_text(const std::vector<std::string>& keys) {
  constexpr std::size_t shown = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, keys.size()); ++i) {
    text += cat(i ? ", '" : "'", keys[i], "'");
  }
  if (keys.size() > shown) text += cat(" and ", keys.size() - shown, " more");
  return text;
}

bool is_ragged(const LocalTensor& tensor) {
  return tensor.unresolved && tensor.unresolved->kind == Unresolved::Kind::ragged;
}

// A SavedModel has its checkpoint in a folder inside.
Address checkpoint_in(const Address& path) {
  const bool is_directory = path.is_directory();
  for (const char* graph : {"saved_model.pb", "saved_model.pbtxt"}) {
    if (is_directory && (path / graph).exists()) return path / "variables" / "variables";
  }
  if (is_directory && !has_checkpoint(path)) {
    throw Error(Code::not_found, cat("there is no checkpoint ", path.string()),
                "it is a directory, and not a SavedModel's",
                "Give a checkpoint's prefix; latest_checkpoint finds the newest one's.")
        .at(path.string());
  }
  return path;
}

}  // namespace

struct LoadStatus::Impl {
  Job job;
  std::shared_ptr<CallGroup> calls;
  State* state;
  // Of the restored checkpoint. Later fills ask the holders of its parts, so it stays as long as
  // the status does.
  SharedIndex index{CheckpointContents()};
  RestoreOptions options;
  std::set<std::string> seen;   // keys of this rank's state that were looked for
  std::set<std::string> dealt;  // ragged keys whose rows this rank has received
  std::vector<std::string> unused, missing;
  bool matched = false;  // some rank's state has a key of it
  // The destructor does not warn of unused keys: an assertion has checked them, or the application
  // has said that they are meant.
  bool expected = false;

  const CheckpointContents& contents() const { return index.contents(); }

  ~Impl() {
    if (expected || !job.root() || unused.empty()) return;
    try {
      log(LogLevel::warning,
          cat(unused.size(), " keys of ", contents().prefix, " were not used: ", list_text(unused),
              ". LoadStatus::expect_partial() says that this is meant"));
    } catch (...) {  // a lost message is better than the end of the process
    }
  }

  // Collective. `first`: the first call of a restore, which also reads the counter if `counter` is
  // given.
  void fill(bool first, std::int64_t* counter = nullptr) {
    // Only keys that were not looked for before: since then the application may have changed the
    // others.
    State added;
    for (const auto& [key, tensor] : state->tensors()) {
      if (!seen.count(key)) added.add(key, tensor);
    }
    for (const auto& [key, name] : state->objects().names) {
      if (added.find(key)) added.name(key, name);
    }
    const auto ours = static_cast<std::int64_t>(added.tensors().size());
    // The first fill goes on even without keys: it also finds the unused keys and calls the savers.
    if (all_reduce(*job.group, ours, Group::Op::max) == 0 && !first) return;
    if (!first) require_not_dealt(added);
    if (counter) {
      run_and_agree(*job.group, [&] { added.add(counter_key, *counter); });
    }
    // Savers restore only once, since the application may have changed their data after that.
    auto report = restore_state(job, index, added, fitting(added), {.savers = first});
    std::int64_t found = 0;
    for (const auto& [key, tensor] : added.tensors()) {
      seen.insert(key);
      if (std::binary_search(report.kept_keys.begin(), report.kept_keys.end(), key)) continue;
      // The counter alone is no match for assert_nontrivial_match().
      found += key != counter_key;
      if (is_ragged(tensor)) dealt.insert(key);
    }
    matched |= all_reduce(*job.group, found, Group::Op::max) > 0;
    if (first) {
      unused = std::move(report.unused_keys);
    } else {
      // A key stays unused only if none of the fills wanted it.
      std::erase_if(unused, [&](const auto& key) {
        return !std::binary_search(report.unused_keys.begin(), report.unused_keys.end(), key);
      });
    }
    // Checkpoints by names, as TensorFlow 1 made them, keep their counter under another key.
    const bool of_names = !contents().find(object_graph_key) && !contents().meta;
    if (counter && of_names) std::erase(report.kept_keys, counter_key);
    missing.insert(missing.end(), report.kept_keys.begin(), report.kept_keys.end());
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  }

  // Collective. Rows are dealt among the ranks that have the key at that fill. A rank that adds the
  // key later would receive rows that other ranks have already.
  void require_not_dealt(const State& added) const {
    Packed<std::string> message;
    for (const auto& [key, tensor] : added.tensors()) {
      if (is_ragged(tensor)) message.add(key);
    }
    const auto all = all_gather(*job.group, message.bytes);
    run_and_agree(*job.group, [&] {
      for (int rank = 0; rank < job.group->size(); ++rank) {
        for (const auto& key : unpack_each<std::string>(all[static_cast<std::size_t>(rank)])) {
          if (!dealt.count(key)) continue;
          throw Error(Code::invalid_argument,
                      cat("ragged tensor '", key, "' was added on rank ", rank,
                          " after its rows had been dealt to other ranks"),
                      "each row goes to one rank",
                      "Add a ragged key on all ranks before the same restore or fill.")
              .of_tensor(key);
        }
      }
    });
  }

  // Collective. The options for these keys. A key that the options name may be missing from the
  // state now, since it may come later.
  RestoreOptions fitting(const State& added) const {
    auto fit = options;
    fit.all_may_be_missing = true;
    fit.may_be_missing.clear();
    std::set<std::string> named;
    for (const auto& [key, stored] : options.rename) named.insert(key);
    for (const auto& [key, offset] : options.offset) named.insert(key);
    for (const auto& [key, how] : options.convert_keys) named.insert(key);
    std::vector<std::int64_t> known;
    for (const auto& key : named) known.push_back(added.find(key) != nullptr);
    if (!known.empty()) job.group->all_reduce(known, Group::Op::max);
    for (std::size_t i = 0; const auto& key : named) {
      if (known[i++] != 0) continue;
      fit.rename.erase(key);
      fit.offset.erase(key);
      fit.convert_keys.erase(key);
    }
    return fit;
  }

  [[noreturn]] void refuse(const std::string& problem, const std::vector<std::string>& keys,
                           const std::string& way_out) const {
    throw Error(Code::not_found, problem, keys.empty() ? "" : list_text(keys), way_out)
        .at(contents().prefix);
  }
  void require_all_found() const {
    if (options.all_may_be_missing) return;
    auto lacking = missing;
    std::erase_if(lacking, [&](const auto& key) { return options.may_be_missing.count(key) != 0; });
    if (lacking.empty()) return;
    std::string meant;
    for (std::size_t i = 0; i < lacking.size() && meant.empty(); ++i) {
      Nearest nearest(lacking[i]);
      offer_keys(contents(), nearest);
      meant = nearest.word();
      if (!meant.empty()) {
        meant = cat("For '", lacking[i], "' there may be '", meant, "'. ");
      }
    }
    refuse(cat(lacking.size(), " keys of the state are not in ", contents().prefix), lacking,
           cat(meant,
               "They keep what is in memory; fill them from other keys with "
               "RestoreOptions::rename, or allow it in RestoreOptions::may_be_missing, or by not "
               "asserting."));
  }
};

LoadStatus::LoadStatus(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
const std::string& LoadStatus::prefix() const { return impl_->contents().prefix; }
const std::vector<std::string>& LoadStatus::unused_keys() const { return impl_->unused; }
const std::vector<std::string>& LoadStatus::missing_keys() const { return impl_->missing; }

const std::shared_ptr<const ObjectGraph>& LoadStatus::graph() const {
  return impl_->contents().graph;
}

const LoadStatus& LoadStatus::fill() const {
  collective_call(*impl_->job.group, "LoadStatus::fill", [&] {
    impl_->calls->check_entry();
    impl_->fill(false);
  });
  return *this;
}

const LoadStatus& LoadStatus::assert_consumed() const {
  fill();
  impl_->expected = true;
  impl_->require_all_found();
  if (!impl_->unused.empty()) {
    impl_->refuse(
        cat(impl_->unused.size(), " keys of ", impl_->contents().prefix, " are in no rank's state"),
        impl_->unused, "Add them to the state, or assert less.");
  }
  return *this;
}

const LoadStatus& LoadStatus::assert_existing_objects_matched() const {
  fill();
  impl_->expected = true;
  impl_->require_all_found();
  return *this;
}

const LoadStatus& LoadStatus::assert_nontrivial_match() const {
  fill();
  impl_->expected = true;
  if (!impl_->matched) {
    impl_->refuse(cat("nothing of the state is in ", impl_->contents().prefix), {},
                  "cairn show lists its keys; RestoreOptions::rename maps them.");
  }
  return *this;
}

const LoadStatus& LoadStatus::expect_partial() const {
  impl_->expected = true;
  return *this;
}

struct Checkpoint::Impl {
  std::shared_ptr<SharedEngines> shared;
  std::shared_ptr<CallGroup> group;
  // This object's number in the shared engines (EngineSlot::user).
  std::uint64_t user = 0;
  State* state;
  ManagerOptions options;
  // The number of the last save, as in TensorFlow; a restore sets it.
  std::int64_t counter = 0;
  std::shared_ptr<EngineSlot> numbered, single;  // of the last save() and write()
  io::Path restored;                             // by the last restore(), until the next save

  Engine* saving() const { return numbered ? numbered->engine.get() : nullptr; }

  // Collective. `tensors` has a counter already, or none is wanted.
  State stored(const Engine& engine, const State& tensors) const {
    if (!options.store.object_graph) return tensors;
    return with_object_graph(*group, tensors, std::nullopt, engine.parts().job.row_plans.get());
  }

  // Collective. Gives the next number to a save. `save` returns whether it has used the number.
  template <class Save>
  void save_next(const PathText& prefix, const Save& save) {
    group->check_entry();
    const auto whole = checked_prefix(*group, prefix);
    require_same(*group, "the save counter", cat(counter));
    auto& engine = shared->use(numbered, user, whole, true, options);
    go_on_from_restored(engine);
    engine.call_before_save(counter + 1);
    // The counter is raised before the save, since the save stores it. A save that fails or is
    // skipped gives the number back.
    ++counter;
    try {
      const auto with_counter = run_and_agree(*group, [&] {
        auto all = *state;
        auto number = cairn::whole(&counter, {});
        // Sharding policies see the counter without an owner, since it is no tensor of the
        // application.
        number.made_by_save = true;
        all.add(counter_key, std::move(number));
        return all;
      });
      if (!save(engine, stored(engine, with_counter))) --counter;
    } catch (const Error& error) {
      // With durability_unknown the checkpoint may be there, so its number stays used.
      if (error.code() != Code::durability_unknown) --counter;
      throw;
    }
  }

  // Rank 0. The run continues from the restored checkpoint, so checkpoints saved after it are
  // superseded. Their numbers are free again, also that of a save which a recovery completed.
  void go_on_from_restored(Engine& engine) {
    const auto& job = engine.parts().job;
    auto& store = engine.parts().store;
    const auto went_on = std::exchange(restored, {});
    if (!job.root() || job.directory != went_on.parent_path()) return;
    const auto number = commit::parse_prefix(went_on.filename().string(), job.naming);
    if (!number) return;
    if (const auto* entry = store.history().find(*number)) {
      store.history().went_back_to(*number, entry->save.sequence);
    }
  }

  // Unused keys are known only after the last fill, so a restore cannot make them an error.
  static void require_no_verdict(const RestoreOptions& restore) {
    if (restore.unused != Unused::error) return;
    throw Error(Code::invalid_argument, "RestoreOptions::unused cannot be error here",
                "keys that are added later may still use what is stored",
                "Call LoadStatus::assert_consumed() when all keys are there.");
  }

  // Collective. restore() and read(). Works without an engine: a restore may read any directory,
  // and owns none. The index is kept in the status, for fills that follow.
  LoadStatus load(const io::Path& path, const RestoreOptions& restore, bool with_counter) {
    return exclusive_call(*group, with_counter ? "Checkpoint::restore" : "Checkpoint::read", [&] {
      group->check_entry();
      if (auto* engine = saving()) {  // a pending save may be the one to restore
        engine->complete_pending();
        engine->throw_earlier_failure();
      }
      const auto whole = checked_prefix(*group, path.has_filename() ? path : path.parent_path());
      require_same_options(*group, restore);
      require_no_verdict(restore);
      require_same(*group, "CheckpointOptions",
                   {{"write.chunk_bytes", cat(options.write.chunk_bytes)},
                    {"verify_first", options.restore.verify_first ? "true" : "false"}});
      require_savers(*group, options.hooks.savers);
      auto status = std::make_shared<LoadStatus::Impl>();
      status->job = make_job(group, whole.parent_path(), whole.filename().string(), options);
      status->calls = group;
      agree_on_nodes(status->job);
      agree_on_io_ranks(status->job);
      status->state = state;
      status->options = restore;
      const auto files = std::exchange(status->job, viewed(status->job)).files;
      const auto found = from_root(*group, [&] {
        return checkpoint_in({status->job.files, whole}).string();
      });
      status->index = share_index(status->job, found);
      status->expected = true;          // no warnings before this is known
      auto restored_counter = counter;  // a restore may fail half-way
      status->fill(true, with_counter ? &restored_counter : nullptr);
      status->job.files = files;
      if (with_counter) {
        counter = restored_counter;
        restored = io::Path(found);
      }
      status->expected = restore.unused == Unused::silent;
      return LoadStatus(std::move(status));
    });
  }
};

Checkpoint::Checkpoint(std::shared_ptr<Group> group, State& state, CheckpointOptions options)
    : impl_(std::make_unique<Impl>()) {
  if (!group) throw Error(Code::invalid_argument, "the group of a Checkpoint is null");
  impl_->shared = SharedEngines::of(std::move(group));
  impl_->group = impl_->shared->group();
  impl_->user = impl_->shared->new_user();
  impl_->state = &state;
  // A Checkpoint removes nothing: last = 0 keeps all checkpoints.
  impl_->options = {.keep = {.last = 0},
                    .store = std::move(options.store),
                    .write = std::move(options.write),
                    .async = std::move(options.async),
                    .hooks = std::move(options.hooks),
                    .restore = {.verify_first = options.verify_first},
                    .overwrite = options.overwrite};
}

Checkpoint::Checkpoint(std::shared_ptr<Group> group, const Mesh& mesh, State& state,
                       CheckpointOptions options)
    : Checkpoint(std::move(group), state, std::move(options)) {
  collective_call(*impl_->group, "Checkpoint::Checkpoint", [&] {
    impl_->group->check_entry();
    require_mesh(*impl_->group, mesh);
  });
}

Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

std::string Checkpoint::save(const PathText& prefix, const SaveOptions& options) {
  auto& self = *impl_;
  return exclusive_call(*self.group, "Checkpoint::save", [&] {
    std::string path;
    self.save_next(prefix, [&](Engine& engine, const State& state) {
      path = engine.save(self.counter, state, options);
      return true;
    });
    return path;
  });
}

SaveHandle Checkpoint::save_async(const PathText& prefix, const SaveOptions& options) {
  auto& self = *impl_;
  return exclusive_call(*self.group, "Checkpoint::save_async", [&] {
    std::optional<SaveHandle> handle;
    self.save_next(prefix, [&](Engine& engine, const State& state) {
      handle = engine.save_async(self.counter, state, options);
      return handle->stage() != SaveStage::skipped;
    });
    return *handle;
  });
}

bool Checkpoint::poll() {
  auto& self = *impl_;
  return exclusive_call(*self.group, "Checkpoint::poll", [&] {
    auto* engine = self.saving();
    if (!engine) return true;
    engine->advance(false);
    engine->throw_earlier_failure();
    return engine->parts().pending_saves.empty();
  });
}

void Checkpoint::wait() {
  auto& self = *impl_;
  exclusive_call(*self.group, "Checkpoint::wait", [&] {
    auto* engine = self.saving();
    if (!engine) return;
    engine->complete_pending();
    engine->throw_earlier_failure();
  });
}

std::string Checkpoint::write(const PathText& prefix, const SaveOptions& options) {
  auto& self = *impl_;
  return exclusive_call(*self.group, "Checkpoint::write", [&] {
    self.group->check_entry();
    const auto whole = checked_prefix(*self.group, prefix);
    auto& engine = self.shared->use(self.single, self.user, whole, false, self.options);
    // A single checkpoint has no number; step 0 stands for it in the engine.
    engine.call_before_save(0);
    return engine.save(0, self.stored(engine, *self.state), options);
  });
}

LoadStatus Checkpoint::restore(const PathText& path, const RestoreOptions& options) {
  return impl_->load(path, options, true);
}

LoadStatus Checkpoint::read(const PathText& path, const RestoreOptions& options) {
  return impl_->load(path, options, false);
}

std::int64_t Checkpoint::save_counter() const { return impl_->counter; }

}  // namespace cairn
