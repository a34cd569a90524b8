#include "store/directory/recycling.hpp"

#include <algorithm>
#include <utility>

namespace cairn {

void Recycling::begin(const commit::Ownership& owner, bool takes_left) {
  commit::prepare_recycling(*place_.files, place_.directory);
  owner_ = &owner;
  takes_left_ = takes_left;
  process_ = ::getpid();
}

void Recycling::end() noexcept {
  if (!is_on() || ::getpid() != process_) return;
  try {
    remove_left(nullptr);
  } catch (...) {  // the next owner removes it
    for (const auto& one : left()) take(one.step);
  }
  commit::clear_recycled(*place_.files, place_.directory, place_.naming);
  owner_ = nullptr;
}

void Recycling::leave(const commit::LeftData& data) {
  const MutexLock guard(mutex_);
  left_.push_back(data);
}

std::vector<commit::LeftData> Recycling::left() const {
  const MutexLock guard(mutex_);
  return left_;
}

commit::LeftData Recycling::next_left() const {
  const auto all = left();
  return all.empty() ? commit::LeftData{} : all.front();
}

// A save takes files from one place only, so what was left is taken only if none waits in the
// folder. It must have a data file for each that was left; one more has the metadata.
bool Recycling::can_take(const commit::LeftData& some, int data_files) const {
  const auto waits = waits_.files();
  return is_on() && takes_left_ && !some.partly && some.num_files <= data_files + 1 && waits &&
         waits->empty();
}

bool Recycling::can_take_left(int data_files) const {
  const auto all = left();
  return std::all_of(all.begin(), all.end(),
                     [&](const auto& some) { return can_take(some, data_files); });
}

std::optional<commit::LeftData> Recycling::choose_left(int data_files, bool alone, bool higher) {
  const auto all = left();
  if (higher && can_take_left(data_files) && !all.empty()) return all.front();
  remove_left(alone ? waiting() : nullptr);
  return std::nullopt;
}

void Recycling::take(std::int64_t step) {
  const MutexLock guard(mutex_);
  std::erase_if(left_, [&](const auto& one) { return one.step == step; });
}

void Recycling::remove_left(commit::Waiting* waits) {
  for (const auto& one : left()) {
    commit::remove_left(*place_.files, place_.directory, place_.naming, one, *owner_, waits);
    take(one.step);
  }
}

std::int64_t Recycling::trim(std::int64_t data_files) {
  return commit::trim_recycled(*place_.files, place_.directory, place_.naming, data_files, waits_);
}

void Recycling::withdrawn(const std::optional<commit::LeftData>& takes) {
  waits_.forget();
  if (!takes || !is_on()) return;
  auto data = *takes;
  // What it has not taken is still under its old names.
  data.partly = true;
  leave(data);
}

std::int64_t Recycling::set_bytes(std::int64_t bytes) {
  const MutexLock guard(mutex_);
  return std::exchange(bytes_, bytes);
}

}  // namespace cairn
