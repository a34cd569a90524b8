#include "exchange/exchange.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/deal.hpp"
#include "model/box_index.hpp"

namespace cairn::plan {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// The targets of one tensor, for a search by box.
struct TargetsOfTensor {
  std::vector<int> targets;
  std::vector<Box> boxes;
};

// Plans the whole exchange in one place. Spread (spread.hpp) plans the same in parts; tests compare
// the two.
class Planner {
 public:
  Planner(const std::vector<Source>& sources, const std::vector<Target>& targets, int ranks,
          std::int64_t chunk_bytes, const std::vector<int>& served_by)
      : sources_(sources),
        targets_(targets),
        ranks_(ranks),
        limit_(chunk_bytes),
        served_by_(served_by) {}

  ExchangePlan run(Packing packing) {
    check_ranks();
    cut();
    find_pieces();
    assign();
    deal_rounds(packing);
    for (auto& round : plan_.rounds) schedule(round);
    return std::move(plan_);
  }

 private:
  void check_ranks() const {
    const auto refuse = [&](const char* what, int rank) {
      throw Error(Code::internal,
                  cat("an exchange among ", ranks_, " ranks has ", what, " rank ", rank));
    };
    for (const auto& source : sources_) {
      if (source.rank < -1 || source.rank >= ranks_) refuse("a source on", source.rank);
    }
    for (const auto& target : targets_) {
      if (target.rank < 0 || target.rank >= ranks_) refuse("a target on", target.rank);
    }
    if (ranks_ < 1) refuse("no", 0);
    if (served_by_.empty()) return;
    if (served_by_.size() != at(ranks_)) refuse("nobody to acquire for", ranks_ - 1);
    for (const auto rank : served_by_) {
      if (rank < 0 || rank >= ranks_ || served_by_[at(rank)] != rank) refuse("served by", rank);
    }
  }

  void cut() {
    plan_.chunks.reserve(sources_.size());
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      for (auto& chunk : cut_into_chunks(sources_[s].box, sources_[s].element_bytes, limit_)) {
        chunk.source = static_cast<int>(s);
        chunk.rank = sources_[s].rank;
        plan_.chunks.push_back(std::move(chunk));
      }
    }
  }

  /// Finds the pieces, ascending by chunk, then by target.
  void find_pieces() {
    std::map<int, TargetsOfTensor> wanted;
    for (std::size_t t = 0; t < targets_.size(); ++t) {
      // Targets are looked for by tensor, then by box: a chunk finds those that it touches without
      // looking at all.
      auto& of_tensor = wanted[targets_[t].tensor];
      of_tensor.targets.push_back(static_cast<int>(t));
      of_tensor.boxes.push_back(targets_[t].box);
    }
    std::map<int, BoxIndex> indices;
    for (const auto& [tensor, of_tensor] : wanted) indices.emplace(tensor, of_tensor.boxes);
    first_piece_.reserve(plan_.chunks.size() + 1);
    first_piece_.push_back(0);
    pieces_.reserve(plan_.chunks.size());
    for (std::size_t c = 0; c < plan_.chunks.size(); ++c) {
      const auto& chunk = plan_.chunks[c];
      const auto& source = sources_[at(chunk.source)];
      if (const auto index = indices.find(source.tensor); index != indices.end()) {
        const auto& of_tensor = wanted.at(source.tensor);
        for (const auto hit : index->second.query(chunk.box)) {
          auto box = *intersect(chunk.box, of_tensor.boxes[hit]);
          const auto bytes = box.count() * source.element_bytes;
          pieces_.push_back({static_cast<int>(c), of_tensor.targets[hit], std::move(box), bytes});
        }
      }
      first_piece_.push_back(pieces_.size());
    }
  }

  int acquirer_for(int rank) const { return served_by_.empty() ? rank : served_by_[at(rank)]; }

  // Gives each chunk to a rank, by the rule that plan_exchange states.
  void assign() {
    Dealer dealer(ranks_, served_by_);
    std::vector<Wish> wishes;
    for (std::size_t c = 0; c < plan_.chunks.size(); ++c) {
      wishes.clear();
      for (auto p = first_piece_[c]; p < first_piece_[c + 1]; ++p) {
        wishes.push_back({acquirer_for(targets_[at(pieces_[p].target)].rank), pieces_[p].bytes});
      }
      join_wishes(wishes);
      dealer.add(plan_.chunks[c].bytes, plan_.chunks[c].rank, wishes);
    }
    const auto chosen = dealer.deal();
    for (std::size_t c = 0; c < plan_.chunks.size(); ++c) plan_.chunks[c].rank = chosen[c];
  }

  int group_of(const Chunk& chunk) const { return sources_[at(chunk.source)].group; }

  // Puts each chunk into the present round of its rank or, if that is full, into the next one. A
  // new group begins in a new round, on all ranks.
  void deal_rounds(Packing packing) {
    struct Open {
      std::size_t round = 0;
      std::int64_t bytes = 0;  // in that round
    };
    std::vector<Open> open(at(ranks_));
    for (std::size_t c = 0; c < plan_.chunks.size(); ++c) {
      const auto& chunk = plan_.chunks[c];
      if (c > 0 && group_of(chunk) != group_of(plan_.chunks[c - 1])) {
        open.assign(at(ranks_), Open{plan_.rounds.size(), 0});
      }
      auto& [round, bytes] = open[at(chunk.rank)];
      const bool full = packing == Packing::one_chunk || bytes > limit_ - chunk.bytes;
      if (bytes > 0 && full) ++round, bytes = 0;
      bytes += chunk.bytes;
      if (plan_.rounds.size() <= round) plan_.rounds.resize(round + 1);
      plan_.rounds[round].chunks.push_back(static_cast<int>(c));
    }
    for (auto& round : plan_.rounds) {
      std::stable_sort(round.chunks.begin(), round.chunks.end(), [&](int a, int b) {
        return plan_.chunks[at(a)].rank < plan_.chunks[at(b)].rank;
      });
    }
  }

  /// Sorts the pieces of a round by (target rank − source rank) mod ranks, then fills steps: within
  /// one such distance each rank sends to one rank and receives from one.
  void schedule(Round& round) {
    struct Travel {
      int distance;
      std::size_t piece;
    };
    std::vector<Travel> travels;
    for (const auto c : round.chunks) {
      const auto from = plan_.chunks[at(c)].rank;
      for (auto p = first_piece_[at(c)]; p < first_piece_[at(c) + 1]; ++p) {
        const auto to = targets_[at(pieces_[p].target)].rank;
        if (to == from) {
          round.local.push_back(std::move(pieces_[p]));
        } else {
          travels.push_back({(to - from + ranks_) % ranks_, p});
        }
      }
    }
    std::stable_sort(travels.begin(), travels.end(),
                     [](const Travel& a, const Travel& b) { return a.distance < b.distance; });
    // Each rank's latest step and the bytes in it; steps only go forward, so this is linear.
    struct End {
      std::size_t step = 0;
      std::int64_t bytes = 0;
    };
    std::vector<End> sends(at(ranks_)), receives(at(ranks_));
    for (const auto& travel : travels) {
      auto& piece = pieces_[travel.piece];
      auto& send = sends[at(plan_.chunks[at(piece.chunk)].rank)];
      auto& receive = receives[at(targets_[at(piece.target)].rank)];
      auto step = std::max(send.step, receive.step);
      for (const auto* end : {&send, &receive}) {
        if (end->step == step && end->bytes > 0 && end->bytes > limit_ - piece.bytes) {
          ++step;
          break;
        }
      }
      for (auto* end : {&send, &receive}) {
        if (end->step < step) *end = {step, 0};
        end->bytes += piece.bytes;
      }
      if (round.steps.size() <= step) round.steps.resize(step + 1);
      round.steps[step].push_back(std::move(piece));
    }
  }

  const std::vector<Source>& sources_;
  const std::vector<Target>& targets_;
  const int ranks_;
  const std::int64_t limit_;
  const std::vector<int>& served_by_;
  ExchangePlan plan_;
  // Ascending by chunk; schedule() moves them into rounds.
  std::vector<Transfer> pieces_;
  std::vector<std::size_t> first_piece_;  ///< of each chunk, into pieces_; and one past the last
};

}  // namespace

ExchangePlan plan_exchange(const std::vector<Source>& sources, const std::vector<Target>& targets,
                           int ranks, std::int64_t chunk_bytes, Packing packing,
                           const std::vector<int>& served_by) {
  return Planner(sources, targets, ranks, chunk_bytes, served_by).run(packing);
}

}  // namespace cairn::plan
