#include "store/bucket/bucket_log.hpp"

#include <algorithm>
#include <locale>
#include <sstream>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"

namespace cairn {

namespace {

constexpr std::string_view numbered = "log.", single = "log-single.";

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

bool BucketLog::read() {
  const auto object = files_.client()->get(BucketFiles::key_of(path_));
  Contents read;
  std::istringstream text(object ? object->bytes : "0 0");
  text.imbue(std::locale::classic());
  text >> read.given >> read.changes;
  std::int64_t step;
  for (std::string uuid; text >> step >> uuid;) read.uuid[step] = uuid;
  const MutexLock guard(mutex_);
  unsure_.reset();
  contents_ = std::move(read);
  tag_ = object ? object->tag : "";
  return object.has_value();
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
  auto text = cat(changed.given, ' ', changed.changes, '\n');
  for (const auto& [step, uuid] : changed.uuid) text += cat(step, ' ', uuid, '\n');
  const auto condition = tag_.empty() ? bucket::Condition::absent() : bucket::Condition::same(tag_);
  std::optional<std::string> tag;
  try {
    tag =
        files_.client()->put(BucketFiles::key_of(path_), std::as_bytes(std::span(text)), condition);
  } catch (const Error& error) {
    unsure_.emplace(std::move(changed), std::move(text));
    // busy is for another owner only.
    if (error.code() != Code::busy) throw;
    throw Error(Code::io, error.problem(), error.reason(), error.way_out()).at(path_.string());
  }
  if (!tag) throw another_owner();
  contents_ = changed;
  tag_ = *std::move(tag);
  return changed;
}

void BucketLog::take_numbers(const Contents& there) {
  change([&](auto& log) {
    log.given = std::max(log.given, there.given) + numbers_at_once;
    log.uuid.insert(there.uuid.begin(), there.uuid.end());
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
