#pragma once
/// An exchange that no rank plans for all: each rank says what it wants, and learns what it
/// acquires, sends and receives. If one rank planned for all, its time would grow with the pieces
/// of the whole job. Nothing here talks to other ranks: between two calls the caller delivers
/// messages (an all_to_all of all ranks).
///
///     want() on each rank
///       ask()    to the *planners*, each of which deals some of the chunks
///       weigh()  gives numbers to be summed over ranks, if there are several planners
///       decide() to the ranks that acquire
///       accept() to the ranks that want, which learn when and from whom
///       finish()
///
/// One planner chooses exactly as a plan of everything would. Several do not know each other's
/// choices: each assumes that the others give every rank its fair share, which one sum over ranks
/// tells, and begins its choice among equals at another rank.
///
/// If the ranks that want a source know which rank acquires it, order() replaces ask(), weigh() and
/// decide(): each rank requests pieces directly from the holder, and no planner is needed. A holder
/// takes its chunks in the order of the distance to the ranks that want them. If they were sorted
/// by place, all ranks that begin with the same rows would send to one rank first, and then all to
/// the next.
///
/// Rounds are each rank's own: it acquires its chunks of a round, and then passes on the pieces
/// that others want of them. Pieces are in one order over all ranks: by group and round, by the
/// distance from sender to receiver, then by chunk and target. Each rank passes its own pieces in
/// this order, as many at a time as it likes. The first of all pieces that are left is always next
/// on both of its ranks, so no ranks wait in a circle.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/wire.hpp"
#include "exchange/chunks.hpp"
#include "exchange/deal.hpp"
#include "exchange/exchange.hpp"

namespace cairn::plan {

/// Each with the rank that it goes to or comes from.
using Messages = std::vector<std::pair<int, std::string>>;

/// A piece as one of its two ranks sees it.
struct Passed {
  int chunk = -1;  ///< index into RankPlan::chunks; -1: the chunk is another rank's
  int peer = 0;    ///< the other rank; this one if the piece stays
  int source = 0;
  int id = 0;  ///< of the target, on the rank that wants it
  Box box;
  std::int64_t bytes = 0;
  /// Whether the piece is in the message of the piece before it, which goes between the same ranks:
  /// small pieces travel together. The rule looks only at what both ranks know: order and sizes of
  /// the pieces that go between them in a round.
  bool joins = false;
  bool operator==(const Passed&) const = default;
};

/// In a step a rank sends, and receives, no more than the chunk limit (a single element that is
/// larger travels alone).
struct OwnStep {
  std::span<const Passed> sends, receives;
};

struct OwnRound {
  int group = 0, number = 0;       ///< sources' group; the round in it, the same on all ranks
  std::size_t first = 0, end = 0;  ///< chunks that this rank acquires before the steps
  std::span<const Passed> local;
  std::vector<OwnStep> steps;
};

struct RankPlan {
  RankPlan() = default;
  RankPlan(const RankPlan&);  // rounds of the copy point to its own pieces
  RankPlan(RankPlan&&) noexcept = default;
  RankPlan& operator=(RankPlan&&) noexcept = default;

  std::vector<Chunk> chunks;   ///< of this rank, in the order in which it acquires them
  std::vector<Passed> pieces;  ///< of all rounds, which point to parts of this list
  std::vector<OwnRound> rounds;
};

/// One rank's part in the exchange. Numbers of sources mean the same on all ranks.
class Spread {
 public:
  struct SourceBox {
    const Box* box;
    std::int64_t element_bytes;
    std::int64_t chunk_bytes = 0;  ///< limit of its chunks, at most the setting's; 0: that one
    std::int64_t align_bytes = 1;  ///< as in cut_into_chunks
    bool equal = false;            ///< as in ChunkCut
    int group = 0;                 ///< no round has chunks of two groups; must ascend with `before`
  };
  struct Setting {
    int rank = 0, ranks = 1;
    std::int64_t chunk_bytes = 1;
    const std::vector<int>& served_by;  ///< as in plan_exchange
    std::function<SourceBox(int)> source;
    /// Which of two sources is acquired first.
    std::function<bool(int, int)> before;
    std::int64_t pieces_a_planner = 4096;  ///< about so many pieces are worth one more planner
    /// Chunks that no rank wants are not acquired.
    bool only_wanted = false;
    /// For ranks that know only the sources that they want: writes and reads what a rank must know
    /// of a source before it calls `source` or `before` for it. Null: all ranks know all sources.
    std::function<void(std::string&, int)> put_source = nullptr;
    std::function<void(WireReader&, int)> get_source = nullptr;
    /// The rank that has a source, for order(). A rank takes its chunks in the order of the
    /// distance to the ranks that want them, so that ranks that all have something for one rank do
    /// not send to it at once.
    std::function<int(int)> holder = nullptr;
    /// The same by chunk: the rank that acquires the chunk that begins at this byte of the source.
    /// A rank takes its chunks in the order of `before`.
    std::function<int(int source, std::int64_t offset)> writer = nullptr;
  };
  explicit Spread(Setting);

  /// This rank wants the part of a source that lies in this box. If any rank wants a part of a
  /// source, all of it is acquired, unless only_wanted is set.
  void want(int source, int id, const Box& box);
  /// About so many boxes will be wanted. So their table need not grow, which takes twice its
  /// memory.
  void expect(std::size_t boxes) { asked_.reserve(boxes); }
  std::int64_t pieces() const { return static_cast<std::int64_t>(asked_.size()); }

  /// The number of planners, from the pieces of all ranks. One planner deals as plan_exchange does.
  int planners(std::int64_t all_pieces) const;
  Messages ask(int planners);
  std::vector<std::int64_t> weigh(const Messages& asked);
  /// `sums`: the sums of weigh() over all ranks; empty with one planner.
  Messages decide(std::span<const std::int64_t> sums);
  /// Requests for what this rank wants, to the ranks that have it.
  Messages order();
  /// Each message is freed when it has been read.
  Messages accept(Messages decided);
  RankPlan finish(const Messages& accepted);

 private:
  // A piece that this rank wants, as it asks for it.
  struct Asked {
    int source, chunk, id;
    Box box;
  };
  // What another rank asked of this rank as a planner.
  struct Heard {
    int source, chunk, rank, id;  // id -1: wants nothing of these chunks, but of the source
    Box box;
  };
  // A chunk that this rank deals as a planner, and who wants it.
  struct Offered {
    int source, chunk;
    std::size_t first, end;  // of heard_
  };
  struct RoundId {
    int group, number;
    auto operator<=>(const RoundId&) const = default;
  };
  // One piece's place in the order in which pieces travel.
  struct Travel {
    RoundId round;
    int distance, chunk;  // the chunk's number within the source
    bool arrives;
    std::uint32_t piece;             // index of the piece in the order in which pieces came
    std::int64_t message_bytes = 0;  // of the message that begins with this piece
  };
  // A chunk that this rank acquires, with the pieces that one message named. A chunk may have
  // several of these until in_order() puts them side by side.
  struct Mine {
    int source, chunk;
    std::size_t first, end;  // of the plan's pieces
    int nearest = 0;         // distance to the nearest rank that wants it
    bool is_of(const Mine& other) const { return source == other.source && chunk == other.chunk; }
  };
  const ChunkCut& chunks_of(int source);
  int planner_of(int source, int chunk) const;
  void sort_asked();
  void end_asking();
  void hear(const Messages& asked);
  std::size_t offer(int source, int chunk, std::size_t i, int turn);
  std::vector<Mine> read(Messages decided);
  void in_order(std::vector<Mine>&) const;
  void deal_rounds();
  void join_small(std::span<Travel>);
  void fill_steps(OwnRound&, std::span<Travel>, std::vector<std::uint32_t>& order);
  int distance_to(int rank) const {
    return (rank - setting_.rank + setting_.ranks) % setting_.ranks;
  }

  const Setting setting_;
  int planners_ = 1;
  // Kept until finish(), which finds in it the pieces that come from other ranks.
  std::vector<Asked> asked_;
  // From here to dealer_: what this rank needs as a planner, in weigh() and decide().
  std::vector<Heard> heard_;
  std::vector<Wish> wishes_;  // of one chunk
  std::vector<Offered> offered_;
  std::unique_ptr<Dealer> dealer_;
  int cut_source_ = -1;  // the source of cut_
  std::int64_t cut_element_bytes_ = 0;
  // The cut of one source, as neighbouring pieces mostly have the same one.
  ChunkCut cut_;
  RankPlan plan_;
  std::vector<RoundId> round_of_;  // of this rank's chunks
  // Filled by accept() and finish().
  std::vector<Travel> travels_;
  std::size_t wanted_ = 0, kept_ = 0;  // pieces that this rank wants: in all, and found so far
};

}  // namespace cairn::plan
