#include "store/bucket/bucket_log.hpp"

#include <algorithm>
#include <locale>
#include <sstream>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/names.hpp"

namespace cairn {

namespace {

constexpr std::string_view numbered = "log.", single = "log-single.";
// What an owner before these has left is not known any more, and stays.
constexpr std::size_t most_owners = 64, most_dead = 256;

constexpr std::string_view checksum_begin = "crc32c ";

// The first line has two numbers; "STEP UUID" counts, "= OWNER NUMBER" is an owner and its last
// save, and "- UUID" is dead. The last line is a checksum of the others.
std::string print(const BucketLog::Contents& log) {
  auto text = cat(log.given, ' ', log.changes, '\n');
  for (const auto& [step, uuid] : log.uuid) text += cat(step, ' ', uuid, '\n');
  for (const auto& [owner, last] : log.owners) text += cat("= ", owner, ' ', last, '\n');
  for (const auto& uuid : log.dead) text += cat("- ", uuid, '\n');
  return text + cat(checksum_begin, hex(crc32c(text)), '\n');
}

// Nothing: it is damaged.
std::optional<BucketLog::Contents> parse(const std::string& bytes) {
  const auto end = bytes.rfind(checksum_begin);
  if (end == bytes.npos) return std::nullopt;
  const auto lines = bytes.substr(0, end);
  if (bytes.substr(end) != cat(checksum_begin, hex(crc32c(lines)), '\n')) return std::nullopt;
  BucketLog::Contents log;
  std::istringstream text(lines);
  text.imbue(std::locale::classic());
  text >> log.given >> log.changes;
  for (std::string first; text >> first;) {
    std::string second;
    text >> second;
    if (first == "-") {
      log.dead.push_back(second);
    } else if (std::uint64_t owner = 0, last = 0; first == "=") {
      if (text >> last && parse_number(second, owner)) log.owners.emplace_back(owner, last);
    } else if (std::int64_t step = 0; parse_number(first, step)) {
      log.uuid[step] = second;
    }
  }
  return log;
}

template <class T>
void keep_last(std::vector<T>& all, std::size_t most) {
  if (all.size() > most) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
}

}  // namespace

io::Path BucketLog::path_of(const Location& place) {
  const auto& naming = place.naming;
  return place.directory / commit::private_directory_name /
         cat(naming.numbered ? numbered : single, naming.name);
}

std::optional<commit::Naming> BucketLog::naming_of(std::string_view file) {
  for (const auto begin : {numbered, single}) {
    if (file.starts_with(begin))
      return commit::Naming(std::string(file.substr(begin.size())), begin == numbered);
  }
  return std::nullopt;
}

// Else what is copied back later would be taken for the rest of a removal.
BucketLog::~BucketLog() {
  {
    const MutexLock guard(mutex_);
    if (!has_news_) return;
  }
  try {
    change([](auto&) {});
  } catch (...) {  // it is another owner's by now
  }
}

bool BucketLog::read() {
  const auto object = files_.client()->get(BucketFiles::key_of(path_));
  auto read = object ? parse(object->bytes) : std::nullopt;
  const MutexLock guard(mutex_);
  unsure_.reset();
  is_damaged_ = object && !read;
  contents_ = read ? *std::move(read) : Contents();
  tag_ = object ? object->tag : "";
  return object && !is_damaged_;
}

bool BucketLog::is_damaged() const {
  const MutexLock guard(mutex_);
  return is_damaged_;
}

void BucketLog::tell_if_damaged() const {
  if (!is_damaged()) return;
  log(LogLevel::warning,
      cat("the list of checkpoints ", path_.string(), " is damaged: all that are whole count"));
}

Error BucketLog::another_owner() const {
  return Error(Code::busy, cat(path_.parent_path().parent_path().string(), " has another owner"),
               "its list of checkpoints was changed", "Let that job end, or save elsewhere.")
      .at(path_.string());
}

// After an answer that was lost: finds out whether the log is the one that was to be put.
void BucketLog::settle() {
  if (!unsure_) return;
  const auto there = files_.client()->get(BucketFiles::key_of(path_));
  if (there && there->bytes == unsure_->second) {
    for (auto& uuid : contents_.dead) {  // some may have failed since
      auto& dead = unsure_->first.dead;
      if (std::ranges::count(dead, uuid) == 0) dead.push_back(std::move(uuid));
    }
    contents_ = std::move(unsure_->first);
    tag_ = there->tag;
  }
  unsure_.reset();
}

BucketLog::Contents BucketLog::change(const std::function<void(Contents&)>& change) {
  const MutexLock guard(mutex_);
  settle();
  auto changed = contents_;
  change(changed);
  ++changed.changes;
  keep_last(changed.owners, most_owners);
  keep_last(changed.dead, most_dead);
  auto text = print(changed);
  const auto condition = tag_.empty() ? bucket::Condition::absent() : bucket::Condition::same(tag_);
  std::optional<std::string> tag;
  try {
    tag =
        files_.client()->put(BucketFiles::key_of(path_), std::as_bytes(std::span(text)), condition);
  } catch (const Error&) {
    unsure_.emplace(std::move(changed), std::move(text));
    throw;
  }
  if (!tag) throw another_owner();
  contents_ = changed;
  has_news_ = false;
  tag_ = *std::move(tag);
  return changed;
}

void BucketLog::take_numbers(const Contents& there) {
  change([&](auto& log) {
    log.given = std::max(log.given, there.given) + numbers_at_once;
    log.uuid.insert(there.uuid.begin(), there.uuid.end());
    log.owners.emplace_back(me_, 0);
  });
}

commit::Uuid BucketLog::next_uuid() {
  const MutexLock guard(mutex_);
  return {me_, ++given_saves_};
}

void BucketLog::commit(std::int64_t step, const std::string& uuid) {
  if (commit::parse_uuid(uuid).high != me_) {
    const MutexLock guard(mutex_);
    completed_.insert(uuid);
  }
  change([&](auto& log) {
    auto& there = log.uuid[step];
    if (commit::is_uuid(there)) log.dead.push_back(there);
    there = uuid;
    const auto save = commit::parse_uuid(uuid);
    for (auto& [owner, last] : log.owners) {
      if (owner == save.high) last = std::max(last, save.low);
    }
  });
}

std::map<std::int64_t, std::string> BucketLog::retire(const std::vector<std::int64_t>& steps) {
  std::map<std::int64_t, std::string> uuids;
  change([&](auto& log) {
    for (const auto step : steps) {
      const auto found = log.uuid.find(step);
      if (found == log.uuid.end()) continue;
      if (commit::is_uuid(found->second)) log.dead.push_back(found->second);
      uuids.insert(log.uuid.extract(found));
    }
  });
  return uuids;
}

void BucketLog::are_gone(const std::vector<std::string>& uuids) {
  const MutexLock guard(mutex_);
  for (const auto& uuid : uuids) {
    if (!completed_.contains(uuid)) std::erase(contents_.dead, uuid);
  }
  has_news_ = has_news_ || !uuids.empty();
}

void BucketLog::failed(const std::string& uuid) {
  const MutexLock guard(mutex_);
  contents_.dead.push_back(uuid);
}

void BucketLog::withdraw(const std::string& uuid) {
  change([&](auto& log) {
    if (std::ranges::count(log.dead, uuid) == 0) log.dead.push_back(uuid);
  });
}

// Whether its owner has committed nothing after it, and has not withdrawn it.
bool BucketLog::is_last(std::string_view uuid) const {
  if (!commit::is_uuid(uuid) || std::ranges::count(contents_.dead, uuid) > 0) return false;
  const auto save = commit::parse_uuid(uuid);
  return std::ranges::any_of(contents_.owners, [&](const auto& one) {
    return one.first == save.high && save.low > one.second;
  });
}

bool BucketLog::may_be_completed(std::string_view uuid, std::int64_t step) const {
  const MutexLock guard(mutex_);
  return !contents_.uuid.contains(step) && is_last(uuid);
}

bool BucketLog::is_over_another(std::string_view uuid, std::int64_t step) const {
  const MutexLock guard(mutex_);
  const auto there = contents_.uuid.find(step);
  return there != contents_.uuid.end() && there->second != uuid && is_last(uuid);
}

bool BucketLog::knows(std::string_view uuid) const {
  const auto high = commit::parse_uuid(uuid).high;
  const MutexLock guard(mutex_);
  return std::ranges::any_of(contents_.owners, [&](const auto& one) { return one.first == high; });
}

bool BucketLog::is_dead(std::string_view uuid) const {
  if (!commit::is_uuid(uuid)) return false;
  const MutexLock guard(mutex_);
  for (const auto& [step, counts] : contents_.uuid) {
    if (counts == uuid) return false;
  }
  if (std::ranges::count(contents_.dead, uuid) > 0) return true;
  const auto save = commit::parse_uuid(uuid);
  return std::ranges::any_of(contents_.owners, [&](const auto& one) {
    return one.first == save.high && save.low > one.second;
  });
}

void BucketLog::require_own() {
  bool is_own = false;
  {
    const MutexLock guard(mutex_);
    settle();
    const auto there = files_.client()->look(BucketFiles::key_of(path_));
    is_own = there && there->tag == tag_;
  }
  if (!is_own) throw another_owner();
}

bool BucketLog::counts(std::int64_t step) const {
  const MutexLock guard(mutex_);
  return contents_.uuid.contains(step);
}

std::vector<std::int64_t> BucketLog::steps() const {
  const MutexLock guard(mutex_);
  std::vector<std::int64_t> steps;
  for (const auto& [step, uuid] : contents_.uuid) steps.push_back(step);
  return steps;
}

std::int64_t BucketLog::given() const {
  const MutexLock guard(mutex_);
  return contents_.given;
}

}  // namespace cairn
