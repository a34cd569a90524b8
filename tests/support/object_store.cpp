// A second store, to test the kit and the engine: put, get, list, delete, conditional put. Beside
// the checkpoints' own objects, .cairn/NAME.owner has the token of the owner, who put it last;
// .cairn/NAME.log has the numbers that were given and the steps that count: its conditional put is
// the commit. A new process takes over at once. An unfinished save is removed, and never completed.
#include <algorithm>
#include <sstream>

#include "base/text.hpp"
#include "store/directory/marks.hpp"
#include "store/directory/pins.hpp"
#include "store/directory/retention.hpp"
#include "support/object_files.hpp"

namespace cairn::test {
namespace {

// The objects of one save, under their own names: a save that no log names does not count.
class ObjectDraft : public DraftFiles {
 public:
  ObjectDraft(std::shared_ptr<io::FileSystem> files, std::string prefix, std::int64_t count)
      : files_(std::move(files)), prefix_(std::move(prefix)), count_(count) {}

  std::unique_ptr<DraftFiles> copy() const override { return std::make_unique<ObjectDraft>(*this); }
  void go_at(io::Pace& pace) override {
    files_ = std::make_shared<io::PacedFileSystem>(files_, pace);
  }
  void make_place() const override {}
  commit::PartFile make(int number, std::int64_t) const override {
    io::remove_if_there(*files_, path(number));  // of a save that came to nothing
    return {files_->create(path(number))};
  }
  std::unique_ptr<io::File> make_or_open(int number) const override try {
    return files_->create(path(number));
  } catch (const Error& error) {
    if (error.code() != Code::already_exists) throw;
    return files_->open_write(path(number));
  }
  io::Path path(int number) const override { return commit::data_name(prefix_, number, count_); }
  std::optional<io::Path> shared_path(int) const override { return std::nullopt; }
  bool share(int, const io::Path&) const override { return false; }
  io::Path saver_prefix(int saver) const override { return cat(prefix_, ".saver-", saver); }
  void adopt(const io::Path& data, int to) const override { files_->rename(data, path(to)); }
  int count_with(int data_files) const override { return data_files + 1; }
  void set_num_files(int count) override { count_ = count; }
  void record(int, int, std::string_view) const override {}
  bool names_data() const override { return false; }
  void name(const std::set<int>&) const override {}

 private:
  std::shared_ptr<io::FileSystem> files_;
  std::string prefix_;
  std::int64_t count_;
};

class ObjectStore : public Store {
 public:
  ObjectStore(const Location& place, ObjectFiles& objects)
      : Store(place), objects_(objects), server_(objects.server()) {}

  // -- whose it is, and what counts -----------------------------------------------------------
  bool take() override {
    if (policy_.format != Format::bundle || policy_.xdmf) {
      throw Error(Code::unsupported, "only bundles can be saved as objects", "", "");
    }
    if (!policy_.read_only) {
      token_ = commit::uuid_text(commit::random_uuid());
      server_.put(own_key("owner"), token_);
    } else if (!objects_.status(place_.directory)) {
      throw Error(Code::not_found, cat("nothing is at ", place_.directory.string()), "", "");
    }
    return true;
  }
  void check_owner() const override {
    if (token_.empty()) return;
    const auto owner = server_.get(own_key("owner"));
    if (!owner || owner->bytes != token_) throw Error(Code::busy, "another job owns it", "", "");
  }
  void let_go() override {
    token_.clear();
    policy_.read_only = true;
  }
  void leave(bool) override {}
  // Also removes data whose index nobody put, or whose index another save has replaced.
  Recovered recover(const Readers& readers) const override {
    Recovered found;
    if (!readers.root()) return found;
    const auto log = change_log([](Log&) {});
    std::map<std::int64_t, int> counts;  // number of data objects of each step that counts
    for (const auto& entry : scan_catalog(place_)) {
      if (log.uuid.contains(entry.step)) counts[entry.step] = entry.num_files;
    }
    for (const auto& name : objects_.list(place_.directory)) {
      const auto parsed = commit::parse_name(name, place_.naming);
      const bool data = parsed.kind == commit::ParsedName::Kind::data;
      if (!data && parsed.kind != commit::ParsedName::Kind::index) continue;
      const auto counted = counts.find(parsed.step);
      if (counted != counts.end() && (!data || parsed.count == counted->second)) continue;
      objects_.remove(place_.directory / name);
      found.removed.push_back({name, false, "its save was not committed", {}, true});
    }
    return found;
  }
  void begin(Recovered found, const SizesOfSteps&) override {
    history_.begin(read_catalog(), std::move(found.not_completed));
    last_number_ = read_log().given;
    if (!policy_.read_only) change_log([](Log& log) { log.given += 1 << 20; });
  }
  void look_again() override {
    if (policy_.read_only) history_.catalog() = read_catalog();
  }

  // -- a save -----------------------------------------------------------------------------------
  std::int64_t number_elsewhere(std::int64_t) override { return ++last_number_; }
  bool is_simple(std::int64_t step, int) const override { return !history_.find(step); }
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
      throw Error(Code::already_exists, cat("step ", intent.step, " exists"), "", "");
    }
    auto id = offer(intent.data_files);
    id.step = intent.step;
    const auto data = data_of(id.step);
    while (std::any_of(data.begin(), data.end(), [&](auto& one) { return is_of(one, id); })) {
      ++id.num_files;
    }
    if (intent.sequence < 0) use(id);
    if (intent.sequence >= 0) id.sequence = intent.sequence;
    return join(id);
  }
  Draft join(const DraftId& id) const override {
    const auto prefix = place_.prefix(id.step);
    return {std::make_unique<ObjectDraft>(place_.files, prefix.string(), id.num_files), id,
            Format::bundle, prefix};
  }
  void remove_untaken(const Draft&, int, int) const override {}
  std::optional<io::FileId> publish(Prepared& save, int data_files, JoinedEntries joined,
                                    const std::optional<CatalogEntry>&) override {
    const auto& draft = save.draft;
    const auto sealed = seal_index(std::move(joined), save.meta, data_files, draft.num_files());
    check_owner();
    for (const auto& own : sealed.own_files) {
      server_.put(draft.path(own.file).string(), own.bytes.whole());
    }
    server_.put(commit::index_name(draft.prefix().string()), sealed.index.whole());
    change_log([&](Log& log) { log.uuid[draft.step()] = draft.uuid(); });
    return std::nullopt;
  }
  void committed(const Prepared& save, bool, const std::optional<io::FileId>&,
                 bool is_new) override {
    history_.committed(entry_of(save), is_new);
  }
  Withdrawn withdraw(const Draft& draft) override try {
    check_owner();
    for (int file = 0; file < draft.num_files(); ++file) {
      io::remove_if_there(objects_, draft.path(file));
    }
    return Withdrawn::gone;
  } catch (const Error&) {
    return Withdrawn::not_ours;
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
  struct Log {
    std::int64_t given = 0;                    // numbers up to this one were given
    std::map<std::int64_t, std::string> uuid;  // of the steps that count
  };
  std::string own_key(const std::string& what) const {
    return (place_.directory / ".cairn" / cat(place_.naming.name, '.', what)).string();
  }
  Log read_log(std::int64_t* generation = nullptr) const {
    const auto object = server_.get(own_key("log"));
    if (generation) *generation = object ? object->generation : 0;
    Log log;
    std::istringstream text(object ? object->bytes : "0");
    text >> log.given;
    std::int64_t step;
    for (std::string uuid; text >> step >> uuid;) log.uuid[step] = uuid;
    return log;
  }
  // The fence: a new owner puts the log, after which a put that is based on an earlier read fails.
  Log change_log(const std::function<void(Log&)>& change) const {
    for (;;) {
      std::int64_t generation = 0;
      auto log = read_log(&generation);
      check_owner();
      change(log);
      auto text = cat(log.given, '\n');
      for (const auto& [step, uuid] : log.uuid) text += cat(step, ' ', uuid, '\n');
      if (server_.put_if(own_key("log"), text, generation)) return log;
    }
  }
  std::vector<CatalogEntry> read_catalog() const {
    auto entries = scan_catalog(place_);
    std::erase_if(entries, [log = read_log()](auto& one) { return !log.uuid.contains(one.step); });
    return entries;
  }
  std::vector<std::string> data_of(std::int64_t step) const {
    return server_.list(place_.prefix(step).string() + ".data-");
  }
  // Whether a data object of the step has this save's count in its name.
  static bool is_of(const std::string& key, const DraftId& id) {
    const auto name = commit::data_name("", 0, id.num_files);
    return key.substr(0, key.find('@')).ends_with(name.substr(name.find("-of-")));
  }
  // The steps that expire; other programs are told which stay.
  std::vector<std::int64_t> expired(std::vector<CatalogEntry> entries) const {
    refresh_pins(entries);
    std::vector<std::int64_t> steps;
    for (const auto& one : decide_retention(entries, policy_.keep)) {
      if (!one.stays) steps.push_back(one.step);
    }
    std::erase_if(entries, [&](auto& one) { return std::ranges::count(steps, one.step) > 0; });
    if (policy_.keeps_state_file) update_state_file(place_, entries);
    return steps;
  }
  // First the steps do not count any more, then they cannot be read, then they are removed.
  void remove(const std::vector<std::int64_t>& steps) {
    if (steps.empty()) return;
    change_log([&](Log& log) {
      for (const auto step : steps) log.uuid.erase(step);
    });
    for (const auto step : steps) {
      server_.remove(commit::index_name(place_.prefix(step).string()));
      for (const auto& data : data_of(step)) server_.remove(data);
    }
    history_.tidied(steps);
  }
  void remove(const Draft& draft, const std::vector<std::int64_t>& steps) {
    for (const auto& data : data_of(draft.step())) {
      if (!is_of(data, draft.id())) server_.remove(data);
    }
    remove(steps);
  }
  void mark_damaged(const CatalogEntry& entry, const std::string& reason) override {
    cairn::mark_damaged(place_, entry, reason);
  }

  ObjectFiles& objects_;
  ObjectServer& server_;
  std::string token_;                  // empty if it owns nothing
  std::vector<std::int64_t> expires_;  // of the current save
};

}  // namespace

std::unique_ptr<Store> ObjectFiles::make_store(const Location& place) {
  return std::make_unique<ObjectStore>(place, *this);
}

}  // namespace cairn::test
