#include "store/bucket/bucket_state_file.hpp"

#include <utility>

#include "store/commit/names.hpp"

namespace cairn {

void BucketStateFile::begin(const std::vector<CatalogEntry>& entries, bool is_completed) {
  if (!place_.naming.numbered) return;
  last_ = commit::read_state_file(files_, place_.directory);
  const auto told = last_ ? commit::split_step(last_->model_checkpoint_path) : std::nullopt;
  const bool is_ours = !last_ || (told && told->name == place_.naming.name);
  if (is_completed || is_ours) write(entries);
}

void BucketStateFile::write(const std::vector<CatalogEntry>& entries) {
  auto state = state_file_of(place_.naming, entries);
  if (!state || state == last_) return;
  files_.replace(place_.directory / commit::state_file_name, commit::print_state_file(*state));
  last_ = std::move(state);
}

}  // namespace cairn
