#pragma once
/// Whether all ranks that hold a slice hold the same bits. Their checksums are taken while the save
/// is written and compared, on the ranks that have proved the tensors, before any part record says
/// that the save is whole, so that no recovery completes one that was refused.
///
/// The count of samples begins with the highest sequence, and leaves out saves that did not come to
/// compare. After a difference nothing is sampled until all replicas agree; else the save that is
/// tried again would pass.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/contents.hpp"
#include "exchange/coverage.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "model/refreshed_state.hpp"
#include "session/job/job.hpp"

namespace cairn {

/// How much one save compares. In `sample`, what is larger than small_replica_bytes is cut in
/// `sample_of` parts, of which each round has one; any sample_of rounds in a row have all of them.
struct ReplicaRound {
  ReplicaCheck check = ReplicaCheck::all;
  int sample_of = 1;
  std::int64_t round = 0;
};
constexpr std::int64_t small_replica_bytes = std::int64_t{64} << 10;

/// A box that several ranks hold.
struct Comparison {
  std::string key;
  DType dtype{};
  Dims shape;
  Box box;
  std::vector<HeldSlice::Holder> holders;
  std::vector<std::pair<Box, int>> stored;  ///< of which ranks the bytes of which boxes are stored
};

/// A slice that this rank and others hold. Weights of its holders add up to 0: so do, over all
/// ranks, the checksums of all slices times these, if holders agree (and hardly ever else).
struct Watch {
  std::size_t tensor;  ///< index in the state
  int slice;           ///< index of the slice; of no meaning for strings
  Box box;
  std::int64_t ordinal;  ///< among those of which each round has a part; -1: compared at each round
  std::uint64_t weight;
};

struct ReplicaPlan {
  struct Mine {
    std::size_t tensor;  ///< index in the state
    int slice;           ///< index of the slice; of no meaning for strings
    Box box;
    int planner;  ///< the rank that compares it
  };
  std::int64_t round = 0;       ///< that of rank 0
  std::vector<Watch> watches;   ///< of this rank, for all rounds
  bool any = false;             ///< whether any rank has something to compare
  std::vector<Mine> mine;       ///< ascending by planner, those of one in the order of its `all`
  std::vector<Comparison> all;  ///< of this rank as a planner
};

/// Of the tensors of a planner: `held` are the slices as ranks hold them (only samples need them),
/// `written` the same as they are written (cut, perhaps, for holders to share the work), with the
/// writers of these.
std::vector<Comparison> choose_comparisons(const std::vector<CoveredTensor>& held,
                                           const std::vector<CoveredTensor>& written,
                                           const Writers& writers, const ReplicaRound&,
                                           std::uint64_t planner = 0);

/// From the same: what each rank watches.
struct WatchOrder {
  std::string key;
  HeldSlice::Holder holder;
  Box box;
  std::int64_t ordinal;
  std::uint64_t weight;
};
std::vector<WatchOrder> choose_watches(const std::vector<CoveredTensor>& held,
                                       const std::vector<CoveredTensor>& written, ReplicaCheck,
                                       std::uint64_t planner = 0);

/// What a rank compares at one save after the other as long as the slices stay the same. Made once;
/// then each look allocates nothing for slices that are one run of bytes, and are no strings.
class ReplicaWatch {
 public:
  ReplicaWatch() = default;
  ReplicaWatch(const RefreshedState&, const std::vector<Watch>&, int sample_of);
  /// Local. This rank's part of a sum that is 0 over all ranks where replicas agree.
  std::uint64_t choose(const RefreshedState&, std::int64_t round);

 private:
  struct Part {
    Box box;                          // empty of elements: none at this round
    std::optional<std::int64_t> run;  // its first byte in the slice, if it is one run
    std::int64_t bytes = 0;
  };
  struct Watched {
    std::size_t tensor;
    int slice;
    std::uint64_t weight;
    std::vector<Part> parts;  // by round; one: of each round
  };
  std::vector<Watched> all_;
  std::vector<std::byte> buffer_;
};

/// String tensors as they are stored, by index in the state.
using StringStore = std::map<std::size_t, bundle::EncodedStrings>;

/// Local: a checksum for each of plan.mine. Those of boxes that this rank wrote itself, as a whole
/// or in pieces that follow each other, come from its entries (not those of dense tensors, whose
/// bytes may be another rank's); all else is read once, a megabyte at a time.
std::vector<std::uint32_t> replica_checksums(const RefreshedState&, const ReplicaPlan&,
                                             const StringStore&,
                                             const std::vector<StoredTensor>& written);

/// Of a part of a slice, row-major. The buffer is for memory that is not one run of bytes.
std::uint32_t checksum_of(const LocalSlice&, const Box&, std::int64_t element_bytes,
                          std::vector<std::byte>& buffer);

/// Collective, where plan.any. Throws disagreement on all ranks, or logs a warning on rank 0, if
/// there are differences; what differs is then looked at once more, for the ranges.
void compare_replicas(const Job&, const RefreshedState&, const ReplicaPlan&,
                      const std::vector<std::uint32_t>& checksums, const std::string& prefix);

/// The strings of a tensor, as many as its shape says. Throws invalid_argument otherwise.
std::vector<std::string> string_values(const std::string& key, const LocalTensor&);

}  // namespace cairn
