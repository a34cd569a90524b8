// The store in a bucket. Beside the checkpoints' objects, .cairn/owner.NAME has the owner's record
// (lease.hpp), and .cairn/log.NAME the numbers that were given and the steps that count. The log's
// conditional put is the commit, and the fence: a new owner puts the log first, after which the put
// of a former one fails, however late it comes. Data and index are put before it; an index that no
// log names does not count. Recovery completes what all writers have left records of, and removes
// what the log proves to be of a dead save. Anything else was brought, and stays until a save of
// its step.
//
// No two saves put objects of equal bytes, so a tag tells whose an object is: a data file ends with
// its save's id, and metadata and index hold it. What is removed was listed before a look, or a
// put, that proved the log to be this owner's, so it is not a later owner's; and its tag goes with
// the deletion, which spares what has been put under that name since.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "store/bucket/bucket_draft.hpp"
#include "store/bucket/bucket_files.hpp"
#include "store/bucket/bucket_log.hpp"
#include "store/bucket/bucket_place.hpp"
#include "store/bucket/bucket_records.hpp"
#include "store/bucket/bucket_recovery.hpp"
#include "store/bucket/bucket_state_file.hpp"
#include "store/bucket/lease.hpp"
#include "store/bucket/limited_requests.hpp"
#include "store/bucket/put_new.hpp"
#include "store/bucket/shared_objects.hpp"
#include "store/contents/data_file.hpp"
#include "store/contents/format.hpp"
#include "store/directory/marks.hpp"
#include "store/directory/pins.hpp"
#include "store/directory/retention.hpp"

namespace cairn {
namespace {

void require_supported(const Location& place, const Policy& policy) {
  const auto refuse = [&](const char* what, const char* way_out) {
    throw Error(Code::unsupported, cat(place.directory.string(), " cannot have ", what),
                "it is in a bucket", way_out)
        .at(place.directory.string());
  };
  if (policy.xdmf) refuse("an XDMF file", "Leave out store.xdmf.");
  if (policy.has_savers) refuse("the files of savers", "Give no hooks.savers.");
  if (policy.part_records) refuse("part records", "Leave out write.part_records.");
  if (!policy.keep.keys.empty()) refuse("thinned checkpoints", "Leave out keep.keys.");
  if (!policy.metrics.empty()) refuse("a file for monitors", "Leave out metrics.");
}

// As a tag may be, but of no object.
constexpr const char* no_tag = "\"00000000000000000000000000000000\"";

// The owner's record is there, so a put must fail that wants nothing there, or another tag.
void require_conditions(const Location& place, BucketFiles& files) {
  const auto key = BucketFiles::key_of(Lease::path_of(place));
  auto client = files.client();
  const auto there = client->get(key);
  if (!there) return;
  const auto is_done = [&](const bucket::Condition& condition) {
    return client->put(key, std::as_bytes(std::span(there->bytes)), condition).has_value();
  };
  const auto* ignored = is_done(bucket::Condition::absent())       ? "If-None-Match"
                        : is_done(bucket::Condition::same(no_tag)) ? "If-Match"
                                                                   : nullptr;
  if (!ignored) return;
  throw Error(Code::unsupported,
              cat("the server of ", place.directory.string(), " ignores ", ignored, " of a PUT"),
              "then a job that was stopped could damage what another one saves",
              "Use another server, or promise with write.sole_writer (cairn gc --sole-writer) that "
              "no other job ever saves here.")
      .at(place.directory.string());
}

// What follows a commit: the save has succeeded, whatever happens to older ones, and the next save
// tries again.
template <class Function>
void logged(const Location& place, Function function) {
  try {
    function();
  } catch (const Error& error) {
    log(LogLevel::warning,
        cat("not all is up to date in ", place.directory.string(), ": ", error.what()));
  }
}

// The checkpoint that a save replaces.
struct Replaced {
  int num_files = 0;  // 0: none
  std::string uuid = {};
};

std::optional<Replaced> taken_from(std::map<std::int64_t, Replaced>& all, std::int64_t step) {
  auto taken = all.extract(step);
  return taken ? std::optional(std::move(taken.mapped())) : std::nullopt;
}

void require_replaceable(const Location& place, const History& history, const Intent& intent,
                         const std::optional<CatalogEntry>& there) {
  if (!there) return;
  require_unpinned(place, *there);
  if (intent.may_overwrite || !history.is_taken(intent.step)) return;
  throw Error(Code::already_exists,
              cat("step ", intent.step, " exists in ", place.directory.string()), "",
              "Save another step, or set ManagerOptions::overwrite.");
}

// No commit could replace a checkpoint in another format, whose index has another name.
void require_same_format(const Location& place, const BucketPlace& at,
                         const CheckpointFormat& format, std::int64_t step,
                         const std::vector<bucket::Object>& objects) {
  const auto own = BucketFiles::key_of(format.main_file(place.prefix(step)));
  for (const auto& one : objects) {
    if (at.step_of(one.key) != step || at.is_data(one.key) || one.key == own) continue;
    throw Error(Code::already_exists,
                cat("step ", step, " is in ", place.directory.string(), " in another format"),
                cat(one.key, " is there, and no commit could replace it"),
                "Save another step, or in the same format, or remove what is there.")
        .at(place.prefix(step).string());
  }
}

// With what is heard once. `limited`: these files have a limit on time, which those of the place
// need not have.
Location viewed(Location place, BucketFiles& files, bool limited) {
  if (limited || io::has_views(*place.files)) {
    place.files = files.view({std::shared_ptr<void>(), &files});
  }
  return place;
}

class BucketStore : public Store {
 public:
  // `limited`: if given, all requests are made with it.
  BucketStore(const Location& place, BucketFiles& files, std::unique_ptr<BucketFiles> limited)
      : Store(place),
        limited_(std::move(limited)),
        files_(limited_ ? *limited_ : files),
        log_(files_, BucketLog::path_of(place)),
        at_(place, files_, log_),
        put_new_{place_, files_, log_, at_, *this},
        state_file_(place_, files_, log_) {}

  // -- whose it is, and what counts -----------------------------------------------------------
  bool take() override {
    if (!policy_.read_only) require_supported(place_, policy_);
    if (!policy_.read_only) {
      lease_ = Lease::take(files_, Lease::path_of(place_), policy_.owner_wait_seconds);
      if (!policy_.sole_writer) require_conditions(place_, files_);
    } else if (!files_.status(place_.directory)) {
      throw Error(Code::not_found, cat("nothing is at ", place_.directory.string()))
          .at(place_.directory.string());
    }
    return true;
  }
  void check_owner() const override {
    if (lease_) lease_->check();
  }
  void let_go() override {
    lease_.reset();
    policy_.read_only = true;
  }
  void leave(bool) override {}
  Recovered recover(const Readers& readers) const override {
    const auto complete = [&](const Candidate& one) {
      DraftId id{.step = one.save.step, .sequence = one.meta.sequence};
      id.uuid = commit::parse_uuid(one.save.uuid);
      id.data_files = one.data_files;
      id.num_files = one.save.num_files;
      Prepared save{draft_of(id, Format::bundle), one.meta};
      commit(save, one.data_files, {one.tensors, {}});
    };
    return BucketRecovery{place_,  files_, log_, at_, policy_.read_only, [&] { check_owner(); },
                          complete}
        .run(readers);
  }
  void begin(Recovered found, const SizesOfSteps&) override {
    auto entries = read_catalog();
    for (const auto& one : entries) {
      if (one.file) at_.has_index(one.step, one.file->inode);
      if (one.damage.empty()) continue;
      log(LogLevel::warning,
          cat("step ", one.step, " in ", place_.directory.string(), " is damaged: ", one.damage));
    }
    history_.begin(std::move(entries), std::move(found.not_completed));
    if (!policy_.read_only && policy_.keeps_state_file) {
      logged(place_, [&] { state_file_.begin(history_.catalog(), found.any); });
    }
    last_number_ = log_.given();
    if (!policy_.read_only) last_number_ -= BucketLog::numbers_at_once;  // recover() took them
  }
  void look_again() override {
    if (policy_.read_only) history_.catalog() = read_catalog();
  }

  // -- a save -----------------------------------------------------------------------------------
  std::int64_t number_elsewhere(std::int64_t) override { return ++last_number_; }
  bool is_simple(std::int64_t step, int) const override {
    return !history_.find(step) && !failed_.contains(step) && !at_.was_beside(step);
  }
  DraftId offer(int data_files) override {
    DraftId id{.sequence = last_number_ + 1, .uuid = log_.next_uuid()};
    id.data_files = data_files;
    id.num_files = is_one_object() ? 1 : data_files + 1;
    return id;
  }
  void use(const DraftId& id) override { last_number_ = id.sequence; }
  void look_before(Draft&, std::int64_t) const override { check_owner(); }
  // The number of data objects in their names differs from that of the step's committed data, which
  // stays until the commit.
  Draft begin_save(const Intent& intent) override {
    check_owner();
    auto there = history_.copy_of(intent.step);
    require_replaceable(place_, history_, intent, there);
    auto id = offer(intent.data_files);
    id.step = intent.step;
    id.records = intent.records;
    id.slot = intent.slot;
    // A listing may be older than what this owner has put.
    std::set<std::int64_t> taken;
    if (const auto failed = failed_.find(id.step); failed != failed_.end()) taken = failed->second;
    if (there) taken.insert(there->num_files);
    // A save in the background has looked which steps are there after the last one.
    const bool looks = !intent.background || !is_simple(id.step, intent.data_files);
    const auto objects = looks ? at_.objects_of(id.step) : std::vector<bucket::Object>();
    require_same_format(place_, at_, format_of(policy_.format), id.step, objects);
    at_.add_counts(objects, taken);
    const bool is_beside = at_.is_beside(id.step, objects);
    if (is_beside) {
      log(LogLevel::warning, cat("step ", id.step, " in ", place_.directory.string(),
                                 ", which somebody has put there, is replaced: it did not count"));
      there = look_at_step(place_, id.step);
    }
    {
      const MutexLock guard(mutex_);
      is_beside ? void(brought_.insert(id.step)) : void(brought_.erase(id.step));
    }
    if (!taken.empty()) {
      crowded_[id.step] = there ? Replaced{there->num_files, there->save.identity} : Replaced{};
    }
    while (!is_one_object() && taken.contains(id.num_files)) ++id.num_files;
    intent.sequence < 0 ? use(id) : void(id.sequence = intent.sequence);
    return join(id);
  }
  Draft join(const DraftId& id) const override { return draft_of(id, policy_.format); }
  void remove_untaken(const Draft&, int, int) const override {}
  std::optional<io::FileId> publish(Prepared& save, int data_files, JoinedEntries joined,
                                    const std::optional<CatalogEntry>&) override {
    commit(save, data_files, std::move(joined));
    return std::nullopt;
  }
  void commit(Prepared& save, int data_files, JoinedEntries joined) const {
    const auto& draft = save.draft;
    auto& shared = shared_objects(draft.files());
    std::optional<Sealed> sealed;  // of a bundle
    const auto& format = format_of(draft.format());
    if (!format.has_data_files()) {
      const auto read = [&](std::int64_t at, auto bytes) { shared.read_tail(at, bytes); };
      shared.write_tail(seal_hdf5(read, std::move(joined.tensors), &save.meta));
    } else {
      sealed = seal_index(std::move(joined), save.meta, data_files, draft.num_files());
    }
    check_owner();
    if (sealed) {
      shared.complete();
      for (const auto& own : sealed->own_files) {
        auto bytes = own.bytes.whole();
        put_new_(draft, draft.path(own.file), bytes.empty() ? save_id(draft.uuid()) : bytes);
      }
    } else {
      shared.send_tail();
    }
    // What somebody has brought counts as it is until the new index is there.
    const bool is_brought = [&] {
      const MutexLock guard(mutex_);
      return brought_.erase(draft.step()) > 0;
    }();
    if (is_brought) log_.commit(draft.step(), draft.uuid());
    // From here on a failure may come after the deed. An index that no log names does no harm, but
    // one that has replaced that of a step that counts needs its data.
    bool may_count = log_.counts(draft.step());
    try {
      const auto path = format.main_file(draft.prefix());
      const auto tag = sealed ? put_new_(draft, path, sealed->index.whole())
                              : put_new_(draft, path, [&](const bucket::Condition& condition) {
                                  return shared.complete_enclosed(condition, draft.uuid());
                                });
      at_.has_index(draft.step(), BucketFiles::number_of(tag));
      may_count = true;
      if (!is_brought) log_.commit(draft.step(), draft.uuid());
    } catch (const Error& error) {
      if (error.code() == Code::busy || !may_count) throw;
      log_.failed(draft.uuid());  // unless it turns out to count
      logged(place_, [&] { shared.abort(); });
      throw Error(Code::durability_unknown,
                  cat("whether step ", draft.step(), " is committed is not known"), error.what(),
                  "When the server answers again, the next save or job finds out.")
          .at(draft.prefix().string());
    }
  }
  void committed(const Prepared& save, bool, const std::optional<io::FileId>&,
                 bool is_new) override {
    history_.committed(entry_of(save), is_new);
  }
  // Nobody completes a save that the log says is dead, so it is gone even if its objects stay; a
  // later save of the step removes them, or the next owner. Objects of these names may be another
  // owner's by now: then nothing is removed.
  Withdrawn withdraw(const Draft& draft) override {
    failed_[draft.step()].insert(draft.id().num_files);
    log_.failed(draft.uuid());
    auto done = Withdrawn::gone;
    try {
      if (may_be_completed(draft.files())) {
        done = Withdrawn::stays;
        log_.withdraw(draft.uuid());
        done = Withdrawn::gone;
      }
      shared_objects(draft.files()).abort();
      auto objects = at_.objects_of(draft.step());
      std::erase_if(objects, [&](const auto& one) {
        return at_.is_data(one.key) && at_.count_of(one.key) != draft.num_files();
      });
      objects = at_.of_save(std::move(objects), draft.uuid());
      log_.require_own();
      at_.remove(objects);
    } catch (const Error& error) {
      if (error.code() == Code::busy) return Withdrawn::not_ours;
      log(LogLevel::warning, cat("objects of a save that failed stay: ", error.what()));
    }
    return done;
  }
  void spoil(bool) override {}  // a late put has another generation

  // -- what goes --------------------------------------------------------------------------------
  void save_failed(std::int64_t, const Error&) override {}
  void saved_elsewhere(std::int64_t) override {}
  void tell(const Draft&) override {
    logged(place_, [&] { expires_ = expired(history_.catalog()); });
  }
  void tidy(const Draft* draft) override {
    const auto steps = std::exchange(expires_, {});
    if (draft) logged(place_, [&] { remove(*draft, taken_from(crowded_, draft->step()), steps); });
    history_.apply_tidied();
  }
  std::function<bool()> tidy_later(const Draft& draft, int, bool durable, Meanwhile now) override {
    const auto crowded = durable ? taken_from(crowded_, draft.step()) : std::nullopt;
    return [this, draft, crowded, durable, entries = history_.catalog(), now] {
      logged(place_, [&] {
        auto steps = expired(entries);
        std::erase_if(steps, [&](auto step) { return std::ranges::count(now.steps, step) > 0; });
        if (durable) remove(draft, crowded, steps);
        at_.look_beside();
      });
      return durable;
    };
  }
  std::optional<std::int64_t> step_to_prove(const std::vector<std::int64_t>& saving,
                                            const std::set<std::int64_t>& tried) override {
    refresh_pins(history_.catalog());
    return history_.step_to_prove(policy_.keep, saving, tried);
  }
  std::size_t remove_surplus(std::int64_t proved,
                             const std::vector<std::int64_t>& saving) override {
    auto steps = expired(history_.catalog());
    history_.spare(steps, proved, saving);
    remove(steps);
    return steps.size();
  }
  void pin(std::int64_t step) override {
    check_owner();
    if (!history_.find(step)) throw Error(Code::not_found, cat("no step ", step), "", "");
    add_pin(place_, *history_.find(step));
  }
  void unpin(std::int64_t step) override { remove_pin(place_, step); }
  void mark(std::int64_t step, std::optional<StepMark> mark) override {
    check_owner();
    if (!history_.find(step)) throw Error(Code::not_found, cat("no step ", step), "", "");
    if (!mark) return remove_mark(place_, step);
    add_mark(place_, *history_.find(step), *mark);
  }
  void refresh_pins(std::vector<CatalogEntry>& entries) const override {
    const auto seen =
        viewed(place_, files_, limited_ != nullptr);  // one answer tells that there are neither
    cairn::refresh_pins(seen, entries);
    refresh_marks(seen, entries);
  }

 private:
  // Whether checkpoints are saved as one object, which is both index and data.
  bool is_one_object() const { return !format_of(policy_.format).has_data_files(); }
  Draft draft_of(const DraftId& id, Format format) const {
    const auto prefix = place_.prefix(id.step);
    auto draft = make_bucket_draft(place_.files, files_, prefix.string(), records_directory(place_),
                                   id, format);
    return {std::move(draft), id, format, prefix};
  }
  // By the log, and not by a listing, which may be older than it. Without one all steps count.
  std::vector<CatalogEntry> read_catalog() const {
    const auto seen = viewed(place_, files_, limited_ != nullptr);
    const bool has_view = seen.files != place_.files;
    if (has_view) seen.files->list(place_.directory);  // which tells of all data files
    if (policy_.read_only) {
      if (auto listed = look_at_listed(seen, files_)) return *std::move(listed);
    }
    auto entries = look_at_steps(seen, policy_.read_only ? at_.steps_there() : log_.steps());
    if (!has_view) return entries;
    // A listing may show an older index than was read.
    for (auto& one : entries) {
      const auto status =
          seen.files->status(format_of(one.format).main_file(place_.prefix(one.step)));
      if (one.file && status) one.file = status->id;
    }
    return entries;
  }
  // The steps that expire; other programs are told which stay.
  std::vector<std::int64_t> expired(std::vector<CatalogEntry> entries) const {
    refresh_pins(entries);
    std::vector<std::int64_t> steps;
    // A save whose commit was not known may turn out not to count.
    std::erase_if(entries, [&](const auto& one) { return !log_.counts(one.step); });
    for (const auto& one : decide_retention(entries, policy_.keep)) {
      if (!one.stays) steps.push_back(one.step);
    }
    std::erase_if(entries, [&](auto& one) { return std::ranges::count(steps, one.step) > 0; });
    if (policy_.keeps_state_file) state_file_.write(entries);
    return steps;
  }
  // First the steps do not count any more, then they cannot be read, then they are removed.
  void remove(const std::vector<std::int64_t>& steps) {
    if (steps.empty()) return;
    std::vector<bucket::Object> there;
    std::set<std::int64_t> listed;  // with all that is there
    for (const auto step : steps) {
      auto objects = at_.objects_of(step);
      std::erase_if(objects, [&](const auto& one) { return at_.step_of(one.key) != step; });
      there.insert(there.end(), objects.begin(), objects.end());
      if (at_.is_new(step, objects)) listed.insert(step);
    }
    const auto retired = log_.retire(steps);
    history_.tidied(steps);
    at_.remove(there);
    std::vector<std::string> gone;
    for (const auto& [step, uuid] : retired) {
      if (listed.contains(step)) gone.push_back(uuid);
    }
    log_.are_gone(gone);
  }
  // `crowded`: objects of other saves of the step may be there.
  void remove(const Draft& draft, const std::optional<Replaced>& crowded,
              const std::vector<std::int64_t>& steps) {
    auto others = crowded ? at_.objects_of(draft.step()) : std::vector<bucket::Object>();
    const bool is_new = at_.is_new(draft.step(), others);
    std::erase_if(others, [&](const auto& one) {
      if (!at_.is_data(one.key)) return true;
      const auto count = at_.count_of(one.key);
      return count == draft.num_files() || (count != crowded->num_files && !at_.is_dead(one));
    });
    if (!others.empty()) log_.require_own();
    at_.remove(others);
    if (is_new) log_.are_gone({crowded->uuid});
    remove(steps);
  }
  void mark_damaged(const CatalogEntry& entry, const std::string& reason) override {
    cairn::mark_damaged(place_, entry, reason);
  }

  const std::unique_ptr<BucketFiles> limited_;
  BucketFiles& files_;
  std::unique_ptr<Lease> lease_;  // null if it owns nothing
  mutable BucketLog log_;
  BucketPlace at_;
  const PutNew put_new_;
  mutable BucketStateFile state_file_;
  std::vector<std::int64_t> expires_;  // of the current save
  // Steps of which objects of other saves may lie there, and what the save replaces.
  std::map<std::int64_t, Replaced> crowded_;
  // Of steps whose saves have failed: the counts in the names of objects that may lie there.
  std::map<std::int64_t, std::set<std::int64_t>> failed_;
  mutable Mutex mutex_;
  // Steps whose index somebody has brought, and a save may replace.
  mutable std::set<std::int64_t> brought_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Store> BucketFiles::make_store(const Location& place) {
  std::unique_ptr<BucketFiles> limited;
  if (auto limits = std::dynamic_pointer_cast<io::LimitedFileSystem>(place.files)) {
    limited = std::make_unique<BucketFiles>(
        [limits, connect = connect_] { return limited_requests(limits, connect); }, part_bytes_);
  }
  return std::make_unique<BucketStore>(place, *this, std::move(limited));
}

}  // namespace cairn
