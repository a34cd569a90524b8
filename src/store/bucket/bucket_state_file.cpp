#include "store/bucket/bucket_state_file.hpp"

#include <span>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"

namespace cairn {
namespace {

constexpr int most_tries = 8;

std::string key_of(const Location& place) {
  return BucketFiles::key_of(place.directory / commit::state_file_name);
}

}  // namespace

void BucketStateFile::begin(const std::vector<CatalogEntry>& entries, bool is_completed) {
  if (!place_.naming.numbered) return;
  if (auto got = files_.client()->get(key_of(place_))) {
    tag_ = std::move(got->tag);
    last_ = commit::parse_state_file(got->bytes);
  }
  const auto told = last_ ? commit::split_step(last_->model_checkpoint_path) : std::nullopt;
  const bool is_ours = !last_ || (told && told->name == place_.naming.name);
  if (!is_completed && !is_ours) return;
  if (state_file_of(place_.naming, entries) == last_) return;
  // What was read may be a successor's.
  log_.require_own();
  write(entries);
}

void BucketStateFile::write(const std::vector<CatalogEntry>& entries) {
  auto state = state_file_of(place_.naming, entries);
  if (!state || state == last_) return;
  const auto key = key_of(place_);
  const auto text = commit::print_state_file(*state);
  auto client = files_.client();
  for (int tries = 0;; ++tries) {
    const auto condition = tag_ ? bucket::Condition::same(*tag_) : bucket::Condition::absent();
    if (auto tag = client->put(key, std::as_bytes(std::span(text)), condition)) {
      tag_ = std::move(tag);
      break;
    }
    // By a successor, or by a job of another name, which has as much right to it.
    log_.require_own();
    if (tries == most_tries) {
      throw Error(Code::busy, cat("others replace ", key, " again and again")).at(key);
    }
    const auto there = client->look(key);
    tag_ = there ? std::optional(there->tag) : std::nullopt;
  }
  last_ = std::move(state);
}

}  // namespace cairn
