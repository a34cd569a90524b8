#include "exchange/spread.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <unordered_map>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "exchange/sort_by.hpp"

namespace cairn::plan {
namespace {

std::size_t nth(int i) { return static_cast<std::size_t>(i); }

/// So many neighbouring chunks of a source are dealt by one planner.
constexpr int chunks_a_planner = 64;

/// Smaller pieces travel with their neighbours: a message costs about as much as copying this.
constexpr std::int64_t small_piece_bytes = std::int64_t{32} << 10;
/// The most bytes of a message of small pieces.
constexpr std::int64_t joined_bytes = std::int64_t{512} << 10;

// To a planner, behind the source: a box that is wanted of a chunk. `id` -1: it is a chunk of the
// source that somebody has to acquire.
template <class AnyBox>
struct Asking {
  int chunk = 0, id = -1;
  AnyBox box;
};
// To the rank that acquires a chunk, behind the source, and of each piece of it.
struct Decided {
  int chunk = 0;
  std::uint64_t pieces = 0;
};
template <class AnyBox>
struct DecidedPiece {
  int rank = 0, id = 0;
  AnyBox box;
};
// To a rank that wants pieces of a chunk.
struct Promised {
  int source = 0, chunk = 0, round = 0;
};

/// One message to each rank that there is something for.
class MessageWriter {
 public:
  /// `put_source`: as in a setting.
  using PutSource = std::function<void(std::string&, int)>;
  explicit MessageWriter(const PutSource& put_source = nullptr) : put_source_(put_source) {}

  std::string& to(int rank) { return all_[rank].text; }
  /// With a source, of which more is said where it is not the last one's.
  std::string& to(int rank, int source) {
    auto& message = all_[rank];
    pack_into(message.text, source);
    if (put_source_ && message.last != source) put_source_(message.text, source);
    message.last = source;
    return message.text;
  }
  Messages take() {
    Messages messages;
    messages.reserve(all_.size());
    for (auto& [rank, message] : all_) messages.emplace_back(rank, std::move(message.text));
    return messages;
  }

 private:
  struct PieceMessage {
    std::string text;
    int last = -1;
  };
  const PutSource put_source_;
  std::unordered_map<int, PieceMessage> all_;
};

/// The source at the front of what Messages::to() put.
class Sources {
 public:
  explicit Sources(const std::function<void(WireReader&, int)>& get) : get_(get) {}
  int take(WireReader& in) {
    const auto source = in.get<int>();
    if (get_ && source != last_) get_(in, source);
    return last_ = source;
  }

 private:
  const std::function<void(WireReader&, int)>& get_;
  int last_ = -1;
};

[[noreturn]] void lost(const char* what, int source) {
  throw Error(Code::internal, cat("an exchange lost ", what, " of source ", source));
}

}  // namespace

Spread::Spread(Setting setting) : setting_(std::move(setting)) {}

const ChunkCut& Spread::chunks_of(int source) {
  if (source == cut_source_) return cut_;
  const auto of = setting_.source(source);
  const auto limit =
      of.chunk_bytes > 0 ? std::min(of.chunk_bytes, setting_.chunk_bytes) : setting_.chunk_bytes;
  cut_ = ChunkCut(*of.box, of.element_bytes, limit, of.align_bytes);
  cut_source_ = source;
  cut_element_bytes_ = of.element_bytes;
  return cut_;
}

void Spread::want(int source, int id, const Box& box) {
  chunks_of(source).each_in(box, [&](std::int64_t chunk, Box common) {
    asked_.push_back({source, static_cast<int>(chunk), id, std::move(common)});
  });
}

int Spread::planners(std::int64_t all_pieces) const {
  return static_cast<int>(
      std::clamp<std::int64_t>(all_pieces / setting_.pieces_a_planner, 1, setting_.ranks));
}

int Spread::planner_of(int source, int chunk) const {
  if (planners_ == 1) return 0;
  const auto block = (static_cast<std::uint64_t>(source) << 32) +
                     static_cast<std::uint64_t>(chunk / chunks_a_planner);
  const auto planner = mixed_bits(block) % static_cast<std::uint64_t>(planners_);
  return static_cast<int>(planner * static_cast<std::uint64_t>(setting_.ranks) /
                          static_cast<std::uint64_t>(planners_));
}

void Spread::sort_asked() {
  sort_by(asked_, [](const Asked& one) {
    return std::array{joined_key(one.source, one.chunk), joined_key(one.id, 0)};
  });
}

Messages Spread::ask(int planners) {
  planners_ = planners;
  sort_asked();
  MessageWriter outgoing(setting_.put_source);
  for (std::size_t i = 0; i < asked_.size();) {
    const int source = asked_[i].source;
    const auto count = static_cast<int>(chunks_of(source).count());
    for (int block = 0; block < count; block += chunks_a_planner) {
      if (setting_.only_wanted) {
        if (i == asked_.size() || asked_[i].source != source) break;
        block = asked_[i].chunk / chunks_a_planner * chunks_a_planner;
      }
      const int planner = planner_of(source, block);
      bool any = false;
      for (; i < asked_.size() && asked_[i].source == source &&
             asked_[i].chunk < block + chunks_a_planner;
           ++i) {
        const auto& one = asked_[i];
        pack_into(outgoing.to(planner, source), Asking<const Box&>{one.chunk, one.id, one.box});
        any = true;
      }
      // Somebody acquires these all the same.
      if (!any) pack_into(outgoing.to(planner, source), Asking<Box>{block, -1, {}});
    }
  }
  return outgoing.take();
}

void Spread::hear(const Messages& asked) {
  // The packed size of a request with one dimension, the smallest: so the list never has to grow.
  constexpr std::size_t asked_bytes = 3 * sizeof(int) + 4 * sizeof(std::int64_t);
  std::size_t bytes = 0;
  for (const auto& [rank, message] : asked) bytes += message.size();
  heard_.reserve(bytes / asked_bytes);
  for (const auto& [rank, message] : asked) {
    Sources sources(setting_.get_source);
    for (WireReader in(message); !in.empty();) {
      const int source = sources.take(in);
      auto [chunk, id, box] = in.get<Asking<Box>>();
      heard_.push_back({source, chunk, rank, id, std::move(box)});
    }
  }
  sort_by(heard_, [](const Heard& one) {
    return std::array{joined_key(one.source, one.chunk), joined_key(one.rank, one.id)};
  });
}

// The chunk, of what was heard from `i` on. Returns what is behind it.
std::size_t Spread::offer(int source, int chunk, std::size_t i, int turn) {
  const auto is_of_it = [&] {
    return i < heard_.size() && heard_[i].source == source && heard_[i].chunk == chunk;
  };
  while (is_of_it() && heard_[i].id < 0) ++i;
  const auto first = i;
  const auto& cut = chunks_of(source);
  wishes_.clear();
  for (; is_of_it(); ++i) {
    const auto& one = heard_[i];
    if (one.id < 0) continue;
    const auto acquirer = setting_.served_by.empty() ? one.rank : setting_.served_by[nth(one.rank)];
    wishes_.push_back({acquirer, one.box.count() * cut_element_bytes_});
  }
  if (setting_.only_wanted && wishes_.empty()) return i;
  join_wishes(wishes_);
  offered_.push_back({source, chunk, first, i});
  dealer_->add(cut.chunk(chunk).bytes, -1, wishes_, turn);
  return i;
}

std::vector<std::int64_t> Spread::weigh(const Messages& asked) {
  hear(asked);
  dealer_ = std::make_unique<Dealer>(setting_.ranks, setting_.served_by);
  for (std::size_t i = 0; i < heard_.size();) {
    const int source = heard_[i].source, block = heard_[i].chunk / chunks_a_planner;
    const auto count = static_cast<int>(chunks_of(source).count());
    const auto end = std::min((block + 1) * chunks_a_planner, count);
    const int turn = planners_ == 1
                         ? 0
                         : static_cast<int>(mixed_bits(static_cast<std::uint64_t>(source)) %
                                            static_cast<std::uint64_t>(setting_.ranks));
    for (int c = block * chunks_a_planner; c < end; ++c) i = offer(source, c, i, turn);
    if (i < heard_.size() && heard_[i].source == source &&
        heard_[i].chunk / chunks_a_planner == block) {
      lost("a chunk", source);
    }
  }
  return dealer_->known();
}

Messages Spread::decide(std::span<const std::int64_t> sums) {
  const auto chosen = dealer_->deal(sums);
  MessageWriter outgoing(setting_.put_source);
  for (std::size_t o = 0; o < offered_.size(); ++o) {
    const auto& [source, chunk, first, end] = offered_[o];
    std::uint64_t wanted = 0;
    for (auto i = first; i < end; ++i) wanted += heard_[i].id >= 0;
    auto& message = outgoing.to(chosen[o], source);
    pack_into(message, Decided{chunk, wanted});
    for (auto i = first; i < end; ++i) {
      const auto& one = heard_[i];
      if (one.id >= 0) pack_into(message, DecidedPiece<const Box&>{one.rank, one.id, one.box});
    }
  }
  heard_.clear();
  offered_.clear();
  dealer_.reset();
  return outgoing.take();
}

// Writes what decide() of a planner would write.
Messages Spread::order() {
  sort_asked();
  MessageWriter outgoing(setting_.put_source);
  for (std::size_t i = 0; i < asked_.size();) {
    const auto [source, chunk] = std::pair(asked_[i].source, asked_[i].chunk);
    auto end = i;
    while (end < asked_.size() && asked_[end].source == source && asked_[end].chunk == chunk) ++end;
    auto& message = outgoing.to(setting_.holder(source), source);
    pack_into(message, Decided{chunk, end - i});
    for (; i < end; ++i) {
      const auto& one = asked_[i];
      pack_into(message, DecidedPiece<const Box&>{setting_.rank, one.id, one.box});
    }
  }
  return outgoing.take();
}

// What several ranks order of one chunk comes together; pieces stay ascending by rank.
void Spread::in_order(std::vector<Mine>& mine) const {
  std::stable_sort(mine.begin(), mine.end(), [&](const Mine& a, const Mine& b) {
    if (a.source != b.source) return setting_.before(a.source, b.source);
    return a.chunk < b.chunk;
  });
  if (!setting_.holder) return;
  std::vector<Mine> joined;
  for (auto& one : mine) {
    const bool again =
        !joined.empty() && joined.back().source == one.source && joined.back().chunk == one.chunk;
    if (!again) {
      joined.push_back(std::move(one));
      continue;
    }
    auto& pieces = joined.back().pieces;
    std::move(one.pieces.begin(), one.pieces.end(), std::back_inserter(pieces));
  }
  mine = std::move(joined);
  for (auto& one : mine) {
    one.nearest = setting_.ranks;
    for (const auto& piece : one.pieces) {
      const int distance = (piece.peer - setting_.rank + setting_.ranks) % setting_.ranks;
      one.nearest = std::min(one.nearest, distance);
    }
  }
  std::stable_sort(mine.begin(), mine.end(),
                   [](const Mine& a, const Mine& b) { return a.nearest < b.nearest; });
}

Messages Spread::accept(const Messages& decided) {
  std::vector<Mine> mine;
  std::size_t pieces = 0;
  for (const auto& [planner, message] : decided) {
    Sources sources(setting_.get_source);
    for (WireReader in(message); !in.empty();) {
      auto& one = mine.emplace_back();
      one.source = sources.take(in);
      auto [chunk, left] = in.get<Decided>();
      one.chunk = chunk;
      one.pieces.reserve(in.room_for(left));
      pieces += one.pieces.capacity();
      for (; left > 0; --left) {
        auto [from, id, box] = in.get<DecidedPiece<Box>>();
        one.pieces.push_back({-1, from, one.source, id, std::move(box)});
      }
    }
  }
  in_order(mine);
  for (const auto& one : mine) {
    if (one.chunk < 0 || one.chunk >= chunks_of(one.source).count()) lost("a chunk", one.source);
    plan_.chunks.push_back(chunks_of(one.source).chunk(one.chunk));
    plan_.chunks.back().source = one.source;
    plan_.chunks.back().rank = setting_.rank;
  }
  deal_rounds();
  // As far as is known: to grow it costs more memory than it has in the end.
  travels_.reserve(pieces + asked_.size());
  MessageWriter outgoing;
  for (std::size_t c = 0; c < mine.size(); ++c) {
    int told = setting_.rank;  // the pieces of one rank are neighbours
    for (auto& piece : mine[c].pieces) {
      piece.chunk = static_cast<int>(c);
      piece.bytes = piece.box.count() * setting_.source(piece.source).element_bytes;
      const int to = piece.peer;
      const auto round = round_of_[c];
      const int distance = (to - setting_.rank + setting_.ranks) % setting_.ranks;
      if (to != setting_.rank && to != told) {
        pack_into(outgoing.to(to), Promised{mine[c].source, mine[c].chunk, round.number});
        told = to;
      }
      kept_ += to == setting_.rank;
      travels_.push_back({round, distance, mine[c].chunk, false, std::move(piece)});
    }
  }
  return outgoing.take();
}

void Spread::deal_rounds() {
  RoundId round{0, 0};
  std::int64_t bytes = 0;
  for (const auto& chunk : plan_.chunks) {
    const auto group = setting_.source(chunk.source).group;
    if (group != round.group) {
      round = {group, 0}, bytes = 0;
    } else if (bytes > 0 && bytes > setting_.chunk_bytes - chunk.bytes) {
      ++round.number, bytes = 0;
    }
    bytes += chunk.bytes;
    round_of_.push_back(round);
  }
}

RankPlan Spread::finish(const Messages& accepted) {
  for (const auto& [from, message] : accepted) {
    for (const auto& [source, chunk, number] : unpack_each<Promised>(message)) {
      const RoundId round{setting_.source(source).group, number};
      const auto key = std::pair(source, chunk);
      auto one = std::lower_bound(
          asked_.begin(), asked_.end(), key,
          [](const Asked& a, const auto& b) { return std::pair(a.source, a.chunk) < b; });
      for (; one != asked_.end() && std::pair(one->source, one->chunk) == key; ++one) {
        const auto bytes = one->box.count() * setting_.source(source).element_bytes;
        const int distance = (setting_.rank - from + setting_.ranks) % setting_.ranks;
        travels_.push_back({round,
                            distance,
                            chunk,
                            true,
                            {-1, from, source, one->id, std::move(one->box), bytes}});
        ++kept_;
      }
    }
  }
  if (kept_ != asked_.size()) lost(cat(asked_.size() - kept_, " pieces").c_str(), -1);
  sort_by(travels_, [](const Travel& one) {
    return std::array{joined_key(one.round.group, one.round.number),
                      joined_key(one.distance, one.piece.source),
                      joined_key(one.chunk, one.piece.id)};
  });
  std::size_t chunk = 0;
  for (std::size_t t = 0; t < travels_.size() || chunk < plan_.chunks.size();) {
    auto round = t < travels_.size() ? travels_[t].round : round_of_[chunk];
    if (chunk < plan_.chunks.size()) round = std::min(round, round_of_[chunk]);
    auto& one = plan_.rounds.emplace_back();
    one.group = round.group;
    one.number = round.number;
    one.first = chunk;
    while (chunk < plan_.chunks.size() && round_of_[chunk] == round) ++chunk;
    one.end = chunk;
    const auto first = t;
    while (t < travels_.size() && travels_[t].round == round) ++t;
    fill_steps(one, std::span(travels_).subspan(first, t - first));
  }
  asked_.clear();
  travels_.clear();
  return std::move(plan_);
}

// Joins small pieces of a round. The pieces from one rank to another stand in the same order on
// both, so both ranks join the same ones, whatever else they do in between.
void Spread::join_small(std::span<Travel> travels) const {
  const auto most = std::min(joined_bytes, setting_.chunk_bytes);
  Travel* last[2]{};  // first pieces of the messages that go out and come in
  for (auto& travel : travels) {
    const auto bytes = travel.piece.bytes;
    if (travel.piece.peer == setting_.rank) continue;
    auto*& head = last[travel.arrives];
    if (bytes < small_piece_bytes && head && head->distance == travel.distance &&
        head->message_bytes <= most - bytes) {
      travel.piece.joins = true;
      head->message_bytes += bytes;
      continue;
    }
    travel.message_bytes = bytes;
    head = bytes < small_piece_bytes ? &travel : nullptr;
  }
}

void Spread::fill_steps(OwnRound& round, std::span<Travel> travels) const {
  join_small(travels);
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
    if (travel.piece.peer == setting_.rank) {
      ++local;
      continue;
    }
    auto& bytes = travel.arrives ? received : sent;
    const bool begins = !travel.piece.joins;
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
  // The lists get their final length at once: to grow them would take twice the memory.
  round.local.reserve(local);
  round.steps.resize(counts.size());
  for (std::size_t s = 0; s < counts.size(); ++s) {
    round.steps[s].sends.reserve(counts[s].sends);
    round.steps[s].receives.reserve(counts[s].receives);
  }
  for (std::size_t i = 0; i < travels.size(); ++i) {
    auto& [round_of, distance, chunk, arrives, piece, bytes] = travels[i];
    auto& step_or_local = piece.peer == setting_.rank ? round.local
                          : arrives                   ? round.steps[places[i]].receives
                                                      : round.steps[places[i]].sends;
    step_or_local.push_back(std::move(piece));
  }
}

}  // namespace cairn::plan
