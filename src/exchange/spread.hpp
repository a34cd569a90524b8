#pragma once
/// An exchange that no rank plans for all: each rank says what it wants, and learns what it
/// acquires, sends and receives. One rank that plans for all would take as long as there are pieces
/// in the job. Nothing here talks to other ranks: what goes between two calls are messages, which
/// the caller delivers (an all_to_all of all ranks).
///
///     want() on each rank
///       ask()    to the *planners*, each of which deals some of the chunks
///       weigh()  gives numbers to be summed over ranks, if there are several planners
///       decide() to the ranks that acquire
///       accept() to the ranks that want, which learn when and from whom
///       finish()
///
/// One planner chooses exactly as a plan of everything would. Several cannot know each other's
/// choices: each assumes that the others give every rank its fair share, as one sum over ranks
/// tells, and begins its choice among equals at another rank.
///
/// Where each source lies on a rank that is known to whoever wants it, order() goes there in place
/// of ask(), weigh() and decide(): no planner is needed. A holder then takes its chunks in the
/// order of the distance to who wants them. Sorted by place, all ranks that begin with the same
/// rows would send to one rank first, and then all to the next.
///
/// Rounds are each rank's own: it acquires its chunks of a round, and then passes on what others
/// want of them. Pieces are in one order over all ranks: by group and round, by the distance from
/// sender to receiver, then by chunk and target. Each rank does its own ones in this order, as many
/// at a time as it likes: the first piece of all that are left is always next on both of its ranks,
/// so nobody waits in a circle.
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

/// To or from a rank.
using Messages = std::vector<std::pair<int, std::string>>;

/// A piece as one of its two ranks sees it.
struct Passed {
  int chunk = -1;  ///< index into RankPlan::chunks; -1: another rank's
  int peer = 0;    ///< the other rank; this one, where the piece stays
  int source = 0;
  int id = 0;  ///< of the target, on the rank that wants it
  Box box;
  std::int64_t bytes = 0;
  /// In the message of the piece before it, which goes between the same ranks. Small pieces travel
  /// together. The rule looks only at what both ranks know: order and sizes of the pieces that go
  /// between them in a round.
  bool joins = false;
  bool operator==(const Passed&) const = default;
};

/// In a step no more than the chunk limit is sent, nor received (a single element that is larger
/// travels alone).
struct OwnStep {
  std::span<const Passed> sends, receives;
};

struct OwnRound {
  int group = 0, number = 0;       ///< of the sources; the round in it, the same on all ranks
  std::size_t first = 0, end = 0;  ///< chunks that this rank acquires before the steps
  std::span<const Passed> local;
  std::vector<OwnStep> steps;
};

struct RankPlan {
  RankPlan() = default;
  RankPlan(const RankPlan&);  // rounds of the copy lead to its own pieces
  RankPlan(RankPlan&&) noexcept = default;
  RankPlan& operator=(RankPlan&&) noexcept = default;

  std::vector<Chunk> chunks;   ///< of this rank, in the order in which it acquires them
  std::vector<Passed> pieces;  ///< of the rounds, which have parts of it
  std::vector<OwnRound> rounds;
};

/// One rank's part in it. The sources have numbers that mean the same on all ranks.
class Spread {
 public:
  struct SourceBox {
    const Box* box;
    std::int64_t element_bytes;
    std::int64_t chunk_bytes = 0;  ///< of its chunks, if less than the setting's; 0: as that
    std::int64_t align_bytes = 1;  ///< as in cut_into_chunks
    int group = 0;                 ///< no round has chunks of two groups; ascends with `before`
  };
  struct Setting {
    int rank = 0, ranks = 1;
    std::int64_t chunk_bytes = 1;
    const std::vector<int>& served_by;  ///< as in plan_exchange
    std::function<SourceBox(int)> source;
    /// Of two sources: which is acquired first.
    std::function<bool(int, int)> before;
    std::int64_t pieces_a_planner = 4096;  ///< about so many are worth one more planner
    /// Every chunk is wanted by some rank, or is not to be acquired.
    bool only_wanted = false;
    /// Where ranks know only the sources that they want: says what another one has to know before
    /// it asks `source` or `before` of this one, and hears it. Null: all know all.
    std::function<void(std::string&, int)> put_source = nullptr;
    std::function<void(WireReader&, int)> get_source = nullptr;
    /// Who has a source, for order(). A rank takes its chunks in the order of the distance to who
    /// wants them, so that ranks which all have something for one rank do not go there at once.
    std::function<int(int)> holder = nullptr;
  };
  explicit Spread(Setting);

  /// This rank wants the part of a source that lies in this box. A source is acquired whole where
  /// any rank wants a part of it.
  void want(int source, int id, const Box& box);
  /// About so many boxes will be wanted: their table need not grow, which takes twice its memory.
  void expect(std::size_t boxes) { asked_.reserve(boxes); }
  std::int64_t pieces() const { return static_cast<std::int64_t>(asked_.size()); }

  /// How many planners there are, from the pieces of all ranks. One deals as plan_exchange does.
  int planners(std::int64_t all_pieces) const;
  Messages ask(int planners);
  std::vector<std::int64_t> weigh(const Messages& asked);
  /// `sums`: of what weigh() gave on all ranks; empty with one planner.
  Messages decide(std::span<const std::int64_t> sums);
  /// What this rank wants, to the ranks that have it.
  Messages order();
  /// Messages go as soon as they are read.
  Messages accept(Messages decided);
  RankPlan finish(const Messages& accepted);

 private:
  struct Asked {
    int source, chunk, id;
    Box box;
  };
  struct Heard {
    int source, chunk, rank, id;  // id -1: nothing of these chunks, but of the source
    Box box;
  };
  struct Offered {
    int source, chunk;
    std::size_t first, end;  // of what was heard
  };
  struct RoundId {
    int group, number;
    auto operator<=>(const RoundId&) const = default;
  };
  struct Travel {
    RoundId round;
    int distance, chunk;  // number within the source
    bool arrives;
    std::uint32_t piece;             // of the plan's, in the order in which they came
    std::int64_t message_bytes = 0;  // of the message that begins with it
  };
  struct Mine {
    int source, chunk;
    std::size_t first, end;  // of the plan's pieces
    int nearest = 0;         // distance to who wants it
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
  std::vector<Asked> asked_;
  std::vector<Heard> heard_;
  std::vector<Wish> wishes_;  // of one chunk
  std::vector<Offered> offered_;
  std::unique_ptr<Dealer> dealer_;
  int cut_source_ = -1;  // whose chunks these are
  std::int64_t cut_element_bytes_ = 0;
  ChunkCut cut_;
  RankPlan plan_;
  std::vector<RoundId> round_of_;  // of this rank's chunks
  std::vector<Travel> travels_;
  std::size_t wanted_ = 0, kept_ = 0;  // of what this rank wants: all, and what has its place
};

}  // namespace cairn::plan
