#include "exchange/spread.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/checksum.hpp"
#include "base/let_go.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "exchange/sort_by.hpp"

namespace cairn::plan {
namespace {

std::size_t nth(int i) { return static_cast<std::size_t>(i); }

/// One planner deals this many neighbouring chunks of a source.
constexpr int chunks_a_planner = 64;

// To a planner, after the source: a box that a rank wants of a chunk. `id` -1: the rank wants
// nothing of the block of chunks that begins with this one, but the source is acquired whole.
template <class AnyBox>
struct Asking {
  int chunk = 0, id = -1;
  AnyBox box;
};
// To the rank that acquires a chunk, after the source; then follow the pieces of the chunk.
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

/// Writes one message to each rank that there is something for.
class MessageWriter {
 public:
  /// `put_source`: as in Setting.
  using PutSource = std::function<void(std::string&, int)>;
  explicit MessageWriter(const PutSource& put_source = nullptr) : put_source_(put_source) {}

  std::string& to(int rank) { return all_[rank].text; }
  /// Begins with the source; put_source() says more of it if the last one was another.
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

/// Reads the source that MessageWriter::to() put first.
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
  cut_ = ChunkCut(*of.box, of.element_bytes, limit, of.align_bytes, of.equal);
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

// The same on all ranks, without a message: a hash of source and block of chunks.
int Spread::planner_of(int source, int chunk) const {
  if (planners_ == 1) return 0;
  const auto block = (static_cast<std::uint64_t>(source) << 32) +
                     static_cast<std::uint64_t>(chunk / chunks_a_planner);
  const auto planner = mixed_bits(block) % static_cast<std::uint64_t>(planners_);
  return static_cast<int>(planner * static_cast<std::uint64_t>(setting_.ranks) /
                          static_cast<std::uint64_t>(planners_));
}

// By source and chunk: so the pieces of one block are neighbours, and finish() can search for them.
void Spread::sort_asked() {
  sort_by(asked_, [](const Asked& one) {
    return std::array{joined_key(one.source, one.chunk), joined_key(one.id, 0)};
  });
}

// Goes through the blocks of chunks of each source, and sends what this rank wants of a block to
// the planner of the block.
Messages Spread::ask(int planners) {
  planners_ = planners;
  sort_asked();
  MessageWriter outgoing(setting_.put_source);
  for (std::size_t i = 0; i < asked_.size();) {
    const int source = asked_[i].source;
    const auto count = static_cast<int>(chunks_of(source).count());
    for (int block = 0; block < count; block += chunks_a_planner) {
      if (setting_.only_wanted) {
        // Skips to the next block of which this rank wants something.
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
      // A source is acquired whole: some rank must acquire these chunks, too.
      if (!any) pack_into(outgoing.to(planner, source), Asking<Box>{block, -1, {}});
    }
  }
  end_asking();
  return outgoing.take();
}

// finish() finds in asked_ the pieces that come from other ranks; a single rank has none.
void Spread::end_asking() {
  wanted_ = asked_.size();
  if (setting_.ranks == 1) let_go(asked_);
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
  // Puts all requests for a chunk side by side.
  sort_by(heard_, [](const Heard& one) {
    return std::array{joined_key(one.source, one.chunk), joined_key(one.rank, one.id)};
  });
}

// Offers a chunk to the dealer, with what was heard of it from `i` on. Returns the index after
// that.
std::size_t Spread::offer(int source, int chunk, std::size_t i, int turn) {
  const auto is_of_it = [&] {
    return i < heard_.size() && heard_[i].source == source && heard_[i].chunk == chunk;
  };
  // A request with the id -1 names its block only. Those that come first are passed over here,
  // others below.
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
  // One turn for each block of which this rank has heard. Its chunks are all offered, unless
  // only_wanted is set.
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
  let_go(heard_);
  let_go(offered_);
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
    const int to = setting_.writer ? setting_.writer(source, chunks_of(source).chunk(chunk).offset)
                                   : setting_.holder(source);
    auto& message = outgoing.to(to, source);
    pack_into(message, Decided{chunk, end - i});
    for (; i < end; ++i) {
      const auto& one = asked_[i];
      pack_into(message, DecidedPiece<const Box&>{setting_.rank, one.id, one.box});
    }
  }
  end_asking();
  return outgoing.take();
}

// Puts what several ranks want of one chunk together, in the order of these ranks. With order(),
// chunks then follow the distance to the nearest rank that wants them.
void Spread::in_order(std::vector<Mine>& mine) const {
  std::stable_sort(mine.begin(), mine.end(), [&](const Mine& a, const Mine& b) {
    if (a.source != b.source) return setting_.before(a.source, b.source);
    return a.chunk < b.chunk;
  });
  if (!setting_.holder) return;
  for (auto first = mine.begin(); first != mine.end();) {
    const auto end =
        std::find_if(first, mine.end(), [&](const auto& one) { return !one.is_of(*first); });
    int nearest = setting_.ranks;
    for (auto one = first; one != end; ++one) {
      for (auto i = one->first; i < one->end; ++i) {
        nearest = std::min(nearest, distance_to(plan_.pieces[i].peer));
      }
    }
    for (; first != end; ++first) first->nearest = nearest;
  }
  std::stable_sort(mine.begin(), mine.end(),
                   [](const Mine& a, const Mine& b) { return a.nearest < b.nearest; });
}

std::vector<Spread::Mine> Spread::read(Messages decided) {
  // As in hear(): a list that grows takes twice its memory, and room that is not used takes none.
  constexpr std::size_t piece_bytes = 2 * sizeof(int) + 4 * sizeof(std::int64_t);
  std::size_t bytes = 0;
  for (const auto& [planner, message] : decided) bytes += message.size();
  plan_.pieces.reserve(bytes / piece_bytes + asked_.size());
  std::vector<Mine> mine;
  for (auto& [planner, text] : decided) {
    const auto message = std::exchange(text, {});
    Sources sources(setting_.get_source);
    for (WireReader in(message); !in.empty();) {
      const int source = sources.take(in);
      auto [chunk, left] = in.get<Decided>();
      const auto first = plan_.pieces.size();
      for (; left > 0; --left) {
        auto [from, id, box] = in.get<DecidedPiece<Box>>();
        kept_ += from == setting_.rank;
        plan_.pieces.push_back({-1, from, source, id, std::move(box)});
      }
      mine.push_back({source, chunk, first, plan_.pieces.size()});
    }
  }
  if (kept_ == wanted_) let_go(asked_);  // nothing comes from other ranks
  return mine;
}

Messages Spread::accept(Messages decided) {
  auto mine = read(std::move(decided));
  in_order(mine);
  plan_.chunks.reserve(mine.size());
  for (std::size_t m = 0; m < mine.size(); ++m) {
    const auto& one = mine[m];
    if (m > 0 && one.is_of(mine[m - 1])) continue;
    if (one.chunk < 0 || one.chunk >= chunks_of(one.source).count()) lost("a chunk", one.source);
    plan_.chunks.push_back(chunks_of(one.source).chunk(one.chunk));
    plan_.chunks.back().source = one.source;
    plan_.chunks.back().rank = setting_.rank;
  }
  deal_rounds();
  // As many as are known at this point.
  travels_.reserve(plan_.pieces.size() + asked_.size());
  MessageWriter outgoing;
  int told = setting_.rank;  // the pieces of one rank are neighbours
  std::size_t c = 0;
  // Each rank that wants pieces of a chunk is told once in which round they come; it knows the
  // pieces itself.
  for (std::size_t m = 0; m < mine.size(); ++m) {
    const auto& one = mine[m];
    if (m > 0 && !one.is_of(mine[m - 1])) ++c, told = setting_.rank;
    for (auto i = one.first; i < one.end; ++i) {
      auto& piece = plan_.pieces[i];
      piece.chunk = static_cast<int>(c);
      piece.bytes = piece.box.count() * setting_.source(piece.source).element_bytes;
      const int to = piece.peer;
      const auto round = round_of_[c];
      if (to != setting_.rank && to != told) {
        pack_into(outgoing.to(to), Promised{one.source, one.chunk, round.number});
        told = to;
      }
      travels_.push_back({round, distance_to(to), one.chunk, false, static_cast<std::uint32_t>(i)});
    }
  }
  return outgoing.take();
}

// Fills rounds with this rank's chunks, in order, up to the chunk limit; numbers begin anew in each
// group.
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
  auto& pieces = plan_.pieces;
  // Adds the pieces that come from other ranks, which this rank finds in what it asked for.
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
        travels_.push_back(
            {round, distance, chunk, true, static_cast<std::uint32_t>(pieces.size())});
        pieces.push_back({-1, from, source, one->id, std::move(one->box), bytes});
        ++kept_;
      }
    }
  }
  if (kept_ != wanted_) lost(cat(wanted_ - kept_, " pieces").c_str(), -1);
  let_go(asked_);
  // The order of all pieces that spread.hpp promises.
  sort_by(travels_, [&](const Travel& one) {
    return std::array{joined_key(one.round.group, one.round.number),
                      joined_key(one.distance, pieces[one.piece].source),
                      joined_key(one.chunk, pieces[one.piece].id)};
  });
  std::vector<std::uint32_t> order;  // of the pieces in the rounds
  order.reserve(pieces.size());
  // A round exists if this rank acquires chunks in it or passes pieces of it.
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
    fill_steps(one, std::span(travels_).subspan(first, t - first), order);
  }
  let_go(travels_);
  std::vector<std::uint32_t> place_of(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place_of[order[i]] = static_cast<std::uint32_t>(i);
  }
  // Spans in the rounds were made for this order, in which the pieces have to lie at last.
  sort_by(pieces, [&](const Passed& one) {
    return std::array{place_of[static_cast<std::size_t>(&one - pieces.data())]};
  });
  return std::move(plan_);
}

}  // namespace cairn::plan
