// The messages of a round, and the steps in which they go.
#include <algorithm>
#include <span>
#include <vector>

#include "exchange/spread.hpp"

namespace cairn::plan {
namespace {

/// Smaller pieces travel with their neighbours: a message costs about as much as copying this many
/// bytes.
constexpr std::int64_t small_piece_bytes = std::int64_t{32} << 10;
/// The most bytes of a message of small pieces.
constexpr std::int64_t joined_bytes = std::int64_t{512} << 10;

}  // namespace

RankPlan::RankPlan(const RankPlan& other)
    : chunks(other.chunks), pieces(other.pieces), rounds(other.rounds) {
  const auto lead_here = [&](std::span<const Passed>& list) {
    if (!list.empty()) list = {pieces.data() + (list.data() - other.pieces.data()), list.size()};
  };
  for (auto& round : rounds) {
    lead_here(round.local);
    for (auto& step : round.steps) lead_here(step.sends), lead_here(step.receives);
  }
}

// Joins small pieces of a round. The pieces from one rank to another stand in the same order on
// both ranks, so both join the same ones, whatever else they do in between.
void Spread::join_small(std::span<Travel> travels) {
  const auto most = std::min(joined_bytes, setting_.chunk_bytes);
  Travel* last[2]{};  // first pieces of the messages that go out and come in
  for (auto& travel : travels) {
    auto& piece = plan_.pieces[travel.piece];
    const auto bytes = piece.bytes;
    if (piece.peer == setting_.rank) continue;
    auto*& head = last[travel.arrives];
    if (bytes < small_piece_bytes && head && head->distance == travel.distance &&
        head->message_bytes <= most - bytes) {
      piece.joins = true;
      head->message_bytes += bytes;
      continue;
    }
    travel.message_bytes = bytes;
    head = bytes < small_piece_bytes ? &travel : nullptr;
  }
}

// Appends the round's pieces to `order`: those that stay, then those of each step.
void Spread::fill_steps(OwnRound& round, std::span<Travel> travels,
                        std::vector<std::uint32_t>& order) {
  join_small(travels);
  const auto& pieces = plan_.pieces;
  struct Counts {
    std::size_t sends = 0, receives = 0;
  };
  std::vector<Counts> counts;                         // of the steps
  std::vector<std::uint32_t> places(travels.size());  // the step of each piece
  std::int64_t sent = 0, received = 0;
  std::uint32_t place_of[2]{};  // of the last message out, and in
  std::size_t local = 0;
  for (std::size_t i = 0; i < travels.size(); ++i) {
    const auto& travel = travels[i];
    const auto& piece = pieces[travel.piece];
    if (piece.peer == setting_.rank) {
      ++local;
      continue;
    }
    auto& bytes = travel.arrives ? received : sent;
    const bool begins = !piece.joins;
    if (begins &&
        (counts.empty() || (bytes > 0 && bytes > setting_.chunk_bytes - travel.message_bytes))) {
      counts.emplace_back();
      sent = received = 0;
    }
    // All of a message goes in one step, even if the other direction has begun a new step
    // meanwhile.
    auto& place = place_of[travel.arrives];
    if (begins) {
      bytes += travel.message_bytes;
      place = static_cast<std::uint32_t>(counts.size() - 1);
    }
    places[i] = place;
    ++(travel.arrives ? counts[place].receives : counts[place].sends);
  }
  // Where the next piece goes in `order`: of those that stay, and of each step's two lists.
  auto next = order.size();
  const auto take = [&](std::size_t count) {
    const auto all = std::span<const Passed>(pieces);  // pieces move within this list
    const auto list = all.subspan(next, count);
    next += count;
    return list;
  };
  auto next_local = next;
  round.local = take(local);
  round.steps.reserve(counts.size());
  for (auto& [sends, receives] : counts) {
    const auto first = next;
    const OwnStep step{take(sends), take(receives)};
    sends = first, receives = first + step.sends.size();
    round.steps.push_back(step);
  }
  order.resize(next);
  for (std::size_t i = 0; i < travels.size(); ++i) {
    const auto& travel = travels[i];
    auto& at = pieces[travel.piece].peer == setting_.rank ? next_local
               : travel.arrives                           ? counts[places[i]].receives
                                                          : counts[places[i]].sends;
    order[at++] = travel.piece;
  }
}

}  // namespace cairn::plan
