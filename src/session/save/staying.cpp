#include "session/save/staying.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/text.hpp"
#include "model/runs.hpp"

namespace cairn {
namespace {

// Smaller pieces of a state are copied at the call even if they may stay, up to so many bytes, and
// numbers always: counters and the like may change at once, and few bytes have no price.
constexpr std::int64_t number_bytes = 64, small_piece_bytes = 4096,
                       most_small_bytes = std::int64_t{16} << 20;
// Nobody need know of fewer bytes that are copied.
constexpr std::int64_t told_bytes = std::int64_t{1} << 20;

// The pieces that are whole runs, by run; null: several pieces make up the run.
std::vector<const plan::Passed*> whole_runs(const DensePlan& plan) {
  std::vector<const plan::Passed*> whole(plan.exchange.chunks.size());
  for (const auto& round : plan.exchange.rounds) {
    for (const auto& piece : round.local) {
      if (piece.box == plan.run(piece.chunk).box) {
        whole[static_cast<std::size_t>(piece.chunk)] = &piece;
      }
    }
  }
  return whole;
}

}  // namespace

Staying::Place Staying::of(const LocalTensor& tensor, std::size_t number, std::int64_t bytes,
                           bool is_run) {
  if (tensor.captured || tensor.strings || bytes <= number_bytes) return Place::copied;
  if (bytes <= small_piece_bytes && small_ + bytes <= most_small_bytes) {
    small_ += bytes;
    return Place::copied;
  }
  // A fill, which is the library's own.
  if (number >= tensor.slices.size()) return Place::stays;
  const SliceMemory& memory = *tensor.slices[number].memory;
  const bool readable = (is_run && memory.contiguous()) || memory.for_any_thread();
  return readable ? Place::stays : Place::refused;
}

void CopiedWhole::add(std::string_view key, const char* why, std::int64_t bytes) {
  bytes_ += bytes;
  if (!why_) {
    key_ = key;
    why_ = why;
  } else if (key_ != key) {
    are_more_ = true;
  }
}

std::string CopiedWhole::text() const {
  if (bytes_ < told_bytes) return "";
  return cat("tensor '", key_, "'", are_more_ ? " and others are" : " is",
             " copied at the call: ", why_);
}

StayingRuns::StayingRuns(const RefreshedState& state, const DensePlan& plan, Until until,
                         CopiedWhole* told)
    : plan_(plan) {
  if (until == Until::captured || !plan.writes()) return;
  std::unordered_map<std::string_view, RefreshedState::Named> by_key;
  for (const auto& named : state.tensors()) by_key.emplace(named.first, named);
  const auto whole = whole_runs(plan);
  Staying staying;
  for (std::size_t c = 0; c < whole.size();) {
    const auto source = plan.exchange.chunks[c].source;
    const auto& tensor = plan.tensors[static_cast<std::size_t>(source)];
    const auto mine = by_key.find(tensor.key);
    const char* why = nullptr;
    std::int64_t bytes = 0;
    const auto before = runs_.size();
    for (; c < whole.size() && plan.exchange.chunks[c].source == source; ++c) {
      bytes += plan.exchange.chunks[c].bytes;
      if (mine == by_key.end() || !whole[c]) {
        if (!why) why = CopiedWhole::shared;
      } else if (take(*whole[c], mine->second, staying) == Staying::Place::refused) {
        why = CopiedWhole::refused;
      }
    }
    if (told && why && runs_.size() == before) told->add(tensor.key, why, bytes);
  }
}

// Decides for a run that is one piece.
Staying::Place StayingRuns::take(const plan::Passed& piece, const RefreshedState::Named& mine,
                                 Staying& staying) {
  const auto& [key, tensor] = mine;
  const auto& run = plan_.run(piece.chunk);
  const auto number =
      static_cast<std::size_t>(plan_.slices[static_cast<std::size_t>(piece.id)].slice);
  const bool is_run =
      number < tensor.slices.size() &&
      run_in_box(run.box, tensor.slices[number].box.start, tensor.slices[number].box.extent);
  const auto place = staying.of(tensor, number, run.bytes, is_run);
  if (place == Staying::Place::stays) {
    runs_.push_back({piece.chunk, &key, &tensor, number});
    bytes_ += run.bytes;
  }
  return place;
}

bool StayingRuns::has(int chunk) const {
  const auto at = std::lower_bound(runs_.begin(), runs_.end(), chunk,
                                   [](const Run& run, int number) { return run.chunk < number; });
  return at != runs_.end() && at->chunk == chunk;
}

void StayingRuns::leave(Window& window) const {
  for (const auto& [chunk, key, tensor, number] : runs_) {
    const auto& run = plan_.run(chunk);
    const auto& box = tensor->slices[number].box;
    const auto at = run_in_box(run.box, box.start, box.extent);
    const auto item = static_cast<std::int64_t>(dtype_size(tensor->dtype));
    window.add(piece_of(*key, *tensor, number, at ? *at * item : -1, run.bytes,
                        [&] { return run.box.relative_to(box.start); }));
  }
}

}  // namespace cairn
