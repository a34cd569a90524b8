// The store in a bucket. Beside the checkpoints' objects, .cairn/owner.NAME has the owner's record
// (lease.hpp), and .cairn/log.NAME the numbers that were given and the steps that count. The log's
// conditional put is the commit, and the fence: a new owner puts the log first, after which the put
// of a former one fails, however late it comes. Data and index are put before it; an index that no
// log names does not count, and recovery removes it. An unfinished save is removed, never
// completed.
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/bucket/bucket_files.hpp"
#include "store/bucket/bucket_log.hpp"
#include "store/bucket/lease.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/format.hpp"
#include "store/directory/marks.hpp"
#include "store/directory/pins.hpp"
#include "store/directory/retention.hpp"

namespace cairn {
namespace {

// The objects of one save, under their own names: a save that no log names does not count.
class BucketDraft : public DraftFiles {
 public:
  BucketDraft(std::shared_ptr<io::FileSystem> files, std::string prefix, std::int64_t count)
      : files_(std::move(files)), prefix_(std::move(prefix)), count_(count) {}

  std::unique_ptr<DraftFiles> copy() const override { return std::make_unique<BucketDraft>(*this); }
  void go_at(io::Pace& pace) override {
    files_ = std::make_shared<io::PacedFileSystem>(files_, pace);
  }
  void make_place() const override {}
  // Nothing is removed first: an object of this name may be another owner's by now.
  commit::PartFile make(int number, std::int64_t) const override {
    return {files_->create(path(number))};
  }
  // An object has one writer (Job::shares_files), so nobody has made it.
  std::unique_ptr<io::File> make_or_open(int number) const override {
    return std::move(make(number, 0).file);
  }
  io::Path path(int number) const override { return commit::data_name(prefix_, number, count_); }
  std::optional<io::Path> shared_path(int) const override { return std::nullopt; }
  bool share(int, const io::Path&) const override { return false; }
  io::Path saver_prefix(int saver) const override { return cat(prefix_, ".saver-", saver); }
  void adopt(const io::Path& data, int to) const override { files_->rename(data, path(to)); }
  int count_with(int data_files) const override { return data_files + 1; }
  void set_num_files(int count) override { count_ = count; }
  void record(int, int, std::string_view) const override {}
  void wrote(int, commit::WrittenBlocks) const override {}  // an object is never written over
  void committed() const override {}
  bool names_data() const override { return false; }
  void name(const std::set<int>&) const override {}

 private:
  std::shared_ptr<io::FileSystem> files_;
  std::string prefix_;
  std::int64_t count_;
};

// Where the objects of one name are.
class BucketPlace {
 public:
  BucketPlace(const Location& place, BucketFiles& files) : place_(place), files_(files) {}

  io::Path own_path(const std::string& what) const {
    const auto& naming = place_.naming;
    return place_.directory / ".cairn" / cat(what, naming.numbered ? "." : "-single.", naming.name);
  }
  void put(const io::Path& path, std::string_view bytes) const {
    files_.client()->put(BucketFiles::key_of(path), std::as_bytes(std::span(bytes)));
  }
  // Whether this key is one of a data file of this store's saves.
  bool is_ours(const std::string& key) const {
    const auto directory = BucketFiles::key_of(place_.directory) + '/';
    if (!key.starts_with(directory)) return false;
    const auto parsed = commit::parse_name(key.substr(directory.size()), place_.naming);
    return parsed.kind == commit::ParsedName::Kind::data;
  }
  // All objects of a step.
  std::vector<bucket::Object> objects_of(std::int64_t step) const {
    return files_.client()->list(BucketFiles::key_of(place_.prefix(step)) + '.', true).objects;
  }
  std::vector<bucket::Object> data_of(std::int64_t step) const {
    auto objects = objects_of(step);
    std::erase_if(objects, [&](const auto& one) { return !is_ours(one.key); });
    return objects;
  }
  // Whether a data object of the step has this save's count in its name.
  static bool is_of(const std::string& key, const DraftId& id) {
    const auto name = commit::data_name("", 0, id.num_files);
    return key.ends_with(name.substr(name.find("-of-")));
  }

 private:
  const Location& place_;
  BucketFiles& files_;
};

class BucketStore : public Store {
 public:
  BucketStore(const Location& place, BucketFiles& files)
      : Store(place), files_(files), at_(place, files), log_(files, at_.own_path("log")) {}

  // -- whose it is, and what counts -----------------------------------------------------------
  bool take() override {
    if (!policy_.read_only) require_supported();
    if (!policy_.read_only) {
      lease_ = Lease::take(files_, at_.own_path("owner"), policy_.owner_wait_seconds);
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
  // Removes what belongs to no step that counts. Of a step that counts everything stays, since its
  // index may be lost or damaged, and a former owner may still put one over it, of a save whose
  // data are complete.
  Recovered recover(const Readers& readers) const override {
    Recovered found;
    if (!readers.root()) return found;
    // The fence comes first: from here on no former owner commits, and what it has begun may go.
    log_.read();
    log_.take_numbers();
    auto client = files_.client();
    for (const auto& upload : client->uploads(BucketFiles::key_of(place_.directory) + '/')) {
      if (at_.is_ours(upload.key)) client->abort(upload);
    }
    std::set<std::int64_t> readable;
    for (const auto& entry : scan_catalog(place_)) {
      if (entry.damage.empty()) readable.insert(entry.step);
    }
    for (const auto step : log_.steps()) {
      if (!readable.contains(step)) {
        log(LogLevel::warning, cat("the index of step ", step, " in ", place_.directory.string(),
                                   " is missing or damaged; its data stay"));
      }
    }
    for (const auto& name : files_.list(place_.directory)) {
      const auto parsed = commit::parse_name(name, place_.naming);
      const bool data = parsed.kind == commit::ParsedName::Kind::data;
      if (!data && parsed.kind != commit::ParsedName::Kind::index) continue;
      if (log_.counts(parsed.step)) continue;
      client->remove(BucketFiles::key_of(place_.directory / name));
      found.removed.push_back({name, false, "its save was not committed", {}, true});
    }
    return found;
  }
  void begin(Recovered found, const SizesOfSteps&) override {
    history_.begin(read_catalog(), std::move(found.not_completed));
    last_number_ = log_.given();
    if (!policy_.read_only) last_number_ -= BucketLog::numbers_at_once;  // recover() took them
  }
  void look_again() override {
    if (policy_.read_only) history_.catalog() = read_catalog();
  }

  // -- a save -----------------------------------------------------------------------------------
  std::int64_t number_elsewhere(std::int64_t) override { return ++last_number_; }
  bool is_simple(std::int64_t step, int) const override {
    return !history_.find(step) && !failed_.contains(step);
  }
  DraftId offer(int data_files) override {
    DraftId id{.sequence = last_number_ + 1, .uuid = commit::random_uuid()};
    id.data_files = data_files;
    id.num_files = data_files + 1;
    id.records = 0;
    return id;
  }
  void use(const DraftId& id) override { last_number_ = id.sequence; }
  void look_before(Draft&, std::int64_t) const override { check_owner(); }
  // The number of data objects in their names differs from that of the step's committed data, which
  // stays until the commit.
  Draft begin_save(const Intent& intent) override {
    check_owner();
    auto there = history_.copy_of(intent.step);
    if (there &&
        (is_pinned(place_, *there) || (history_.is_taken(intent.step) && !intent.may_overwrite))) {
      throw Error(Code::already_exists,
                  cat("step ", intent.step, " exists in ", place_.directory.string()), "",
                  "Save another step, or set ManagerOptions::overwrite.");
    }
    auto id = offer(intent.data_files);
    id.step = intent.step;
    const auto data = at_.data_of(id.step);
    while (
        std::any_of(data.begin(), data.end(), [&](auto& one) { return at_.is_of(one.key, id); })) {
      ++id.num_files;
    }
    if (intent.sequence < 0) use(id);
    if (intent.sequence >= 0) id.sequence = intent.sequence;
    return join(id);
  }
  Draft join(const DraftId& id) const override {
    const auto prefix = place_.prefix(id.step);
    return {std::make_unique<BucketDraft>(place_.files, prefix.string(), id.num_files), id,
            Format::bundle, prefix};
  }
  void remove_untaken(const Draft&, int, int) const override {}
  std::optional<io::FileId> publish(Prepared& save, int data_files, JoinedEntries joined,
                                    const std::optional<CatalogEntry>&) override {
    const auto& draft = save.draft;
    const auto sealed = seal_index(std::move(joined), save.meta, data_files, draft.num_files());
    check_owner();
    for (const auto& own : sealed.own_files) at_.put(draft.path(own.file), own.bytes.whole());
    put_index(draft, sealed.index.whole());
    try {
      log_.change([&](auto& log) { log.uuid[draft.step()] = draft.uuid(); });
    } catch (const Error& error) {
      if (error.code() == Code::busy) throw;
      throw Error(Code::durability_unknown,
                  cat("whether step ", draft.step(), " is committed is not known"), error.what(),
                  "When the server answers again, the next save or job finds out.")
          .at(draft.prefix().string());
    }
    return std::nullopt;
  }
  void committed(const Prepared& save, bool, const std::optional<io::FileId>&,
                 bool is_new) override {
    history_.committed(entry_of(save), is_new);
  }
  // Nobody completes a save that no log names, so it is gone even if its objects stay; a later save
  // of the step removes them, or the next owner. Objects of these names may be another owner's by
  // now: then nothing is removed.
  Withdrawn withdraw(const Draft& draft) override {
    failed_.insert(draft.step());
    try {
      log_.require_own();
      for (const auto& one : at_.data_of(draft.step())) {
        if (at_.is_of(one.key, draft.id())) files_.client()->remove(one.key, one.tag);
      }
    } catch (const Error& error) {
      if (error.code() == Code::busy) return Withdrawn::not_ours;
      log(LogLevel::warning, cat("objects of a save that failed stay: ", error.what()));
    }
    return Withdrawn::gone;
  }
  void spoil(bool) override {}  // a late put has another generation

  // -- what goes --------------------------------------------------------------------------------
  void save_failed(std::int64_t, const Error&) override {}
  void saved_elsewhere(std::int64_t) override {}
  void tell(const Draft&) override { expires_ = expired(history_.catalog()); }
  void tidy(const Draft* draft) override {
    const auto steps = std::exchange(expires_, {});
    if (draft) remove(*draft, steps);
    history_.apply_tidied();
  }
  std::function<bool()> tidy_later(const Draft& draft, int, bool durable, Meanwhile now) override {
    return [this, draft, durable, entries = history_.catalog(), now] {
      auto steps = expired(entries);
      std::erase_if(steps, [&](auto step) { return std::ranges::count(now.steps, step) > 0; });
      if (durable) remove(draft, steps);
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
    cairn::refresh_pins(place_, entries);
    refresh_marks(place_, entries);
  }

 private:
  // A former owner that was stopped may put its index of the same step at any time. So an index is
  // put only where the one is that this save replaces, or none; what no log names is in the way,
  // and goes.
  void put_index(const Draft& draft, std::string_view bytes) const {
    const auto key = BucketFiles::key_of(commit::index_path(draft.prefix()));
    auto client = files_.client();
    constexpr int most_tries = 3;
    for (int tries = 0; tries < most_tries; ++tries) {
      const bool counts = log_.counts(draft.step());
      auto condition = bucket::Condition::absent();
      if (counts || tries > 0) {
        const auto there = client->look(key);
        if (there && counts) condition = bucket::Condition::same(there->tag);
        if (there && !counts) {
          log_.require_own();  // else it is the index of another owner, which counts
          client->remove(key, there->tag);
        }
      }
      if (client->put(key, std::as_bytes(std::span(bytes)), condition)) return;
      check_owner();
    }
    throw Error(Code::busy, cat("another job writes step ", draft.step()),
                "its index comes and goes", "Let that job end, or save elsewhere.")
        .at(commit::index_path(draft.prefix()).string());
  }
  void require_supported() const {
    const auto refuse = [&](const char* what, const char* way_out) {
      throw Error(Code::unsupported, cat(place_.directory.string(), " cannot have ", what),
                  "it is in a bucket", way_out)
          .at(place_.directory.string());
    };
    if (!format_of(policy_.format).has_data_files()) {
      refuse("HDF5 files", "Save bundles (store.format = bundle), or in a directory.");
    }
    if (policy_.xdmf) refuse("an XDMF file", "Leave out store.xdmf.");
    if (policy_.has_savers) refuse("the files of savers", "Give no hooks.savers.");
    if (policy_.part_records) refuse("part records", "Leave out write.part_records.");
    if (!policy_.keep.keys.empty()) refuse("thinned checkpoints", "Leave out keep.keys.");
    if (!policy_.metrics.empty()) refuse("a file for monitors", "Leave out metrics.");
  }
  std::vector<CatalogEntry> read_catalog() const {
    auto entries = scan_catalog(place_);
    if (policy_.read_only) log_.read();
    std::erase_if(entries, [&](auto& one) { return !log_.counts(one.step); });
    return entries;
  }
  // The steps that expire; other programs are told which stay.
  std::vector<std::int64_t> expired(std::vector<CatalogEntry> entries) const {
    refresh_pins(entries);
    std::vector<std::int64_t> steps;
    for (const auto& one : decide_retention(entries, policy_.keep)) {
      if (!one.stays) steps.push_back(one.step);
    }
    std::erase_if(entries, [&](auto& one) { return std::ranges::count(steps, one.step) > 0; });
    if (policy_.keeps_state_file) write_state_file(entries);
    return steps;
  }
  void write_state_file(const std::vector<CatalogEntry>& entries) const {
    auto state = state_file_of(place_.naming, entries);
    if (!state || state == last_state_) return;
    at_.put(place_.directory / commit::state_file_name, commit::print_state_file(*state));
    last_state_ = std::move(state);
  }
  // First the steps do not count any more, then they cannot be read, then they are removed.
  void remove(const std::vector<std::int64_t>& steps) {
    if (steps.empty()) return;
    log_.change([&](auto& log) {
      for (const auto step : steps) log.uuid.erase(step);
    });
    auto client = files_.client();
    for (const auto step : steps) {
      // The index first: without it nobody reads the data.
      auto there = at_.objects_of(step);
      const auto index = BucketFiles::key_of(commit::index_path(place_.prefix(step)));
      std::stable_partition(there.begin(), there.end(),
                            [&](const auto& one) { return one.key == index; });
      for (const auto& one : there) {
        if (one.key == index || at_.is_ours(one.key)) client->remove(one.key, one.tag);
      }
    }
    history_.tidied(steps);
  }
  void remove(const Draft& draft, const std::vector<std::int64_t>& steps) {
    auto others = at_.data_of(draft.step());
    std::erase_if(others, [&](const auto& one) { return at_.is_of(one.key, draft.id()); });
    if (!others.empty()) log_.require_own();
    for (const auto& one : others) files_.client()->remove(one.key, one.tag);
    remove(steps);
  }
  void mark_damaged(const CatalogEntry& entry, const std::string& reason) override {
    cairn::mark_damaged(place_, entry, reason);
  }

  BucketFiles& files_;
  const BucketPlace at_;
  std::unique_ptr<Lease> lease_;  // null if it owns nothing
  mutable BucketLog log_;
  // Used by the thread that tells others what stays.
  mutable std::optional<commit::StateFile> last_state_;
  std::vector<std::int64_t> expires_;  // of the current save
  std::set<std::int64_t> failed_;      // steps of which objects may lie there under the usual count
};

}  // namespace

std::unique_ptr<Store> BucketFiles::make_store(const Location& place) {
  return std::make_unique<BucketStore>(place, *this);
}

}  // namespace cairn
