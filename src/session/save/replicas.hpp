#pragma once
/// Checks that all ranks that hold a slice hold the same bits. Checksums are computed while the
/// save is written. The ranks that have proved the tensors compare them before any part record is
/// left, so that no recovery completes a save that was refused.
///
/// The count of samples begins with the highest sequence, and does not count saves that failed
/// before their comparison. After a difference everything is compared until all replicas agree.
/// Otherwise a save that is tried again would pass.
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

/// How much one save compares. With `sample`, a slice larger than small_replica_bytes is cut into
/// `sample_of` parts. Each round compares one of them, so sample_of consecutive rounds compare all.
struct ReplicaRound {
  ReplicaCheck check = ReplicaCheck::all;
  int sample_of = 1;
  std::int64_t round = 0;
};
constexpr std::int64_t small_replica_bytes = std::int64_t{64} << 10;

/// A box that several ranks hold, to be compared.
struct Comparison {
  std::string key;
  DType dtype{};
  Dims shape;
  Box box;
  std::vector<HeldSlice::Holder> holders;
  std::vector<std::pair<Box, int>> stored;  ///< which rank's bytes are stored, by box
};

/// A slice that this rank and others hold. The weights of its holders add up to 0. So the sum of
/// all weighted checksums over all ranks is 0 if the holders agree, and hardly ever otherwise.
struct Watch {
  std::size_t tensor;  ///< index in the state
  int slice;           ///< index of the slice; unused for strings
  Box box;
  std::int64_t ordinal;  ///< among the slices of which each round compares a part; -1: compared in
                         ///< each round
  std::uint64_t weight;
};

struct ReplicaPlan {
  struct Mine {
    std::size_t tensor;  ///< index in the state
    int slice;           ///< index of the slice; unused for strings
    Box box;
    int planner;  ///< the rank that compares it
  };
  std::int64_t round = 0;       ///< rank 0's
  std::vector<Watch> watches;   ///< this rank's, for all rounds
  bool any = false;             ///< whether any rank has something to compare
  std::vector<Mine> mine;       ///< ascending by planner, then in the order of the planner's `all`
  std::vector<Comparison> all;  ///< what this rank compares as a planner
};

/// Called by a planner for its tensors. `held`: the slices as ranks hold them (needed for samples
/// only). `written`: the same slices as they are written, possibly cut so that holders share the
/// work. `writers`: who writes these.
std::vector<Comparison> choose_comparisons(const std::vector<CoveredTensor>& held,
                                           const std::vector<CoveredTensor>& written,
                                           const Writers& writers, const ReplicaRound&,
                                           std::uint64_t planner = 0);

/// From the same arguments, chooses which slices each rank watches.
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

/// The slices whose checksums a rank computes in every save while the plan stays the same. Made
/// once. Computing the checksums then allocates nothing for contiguous slices that are not strings.
class ReplicaWatch {
 public:
  ReplicaWatch() = default;
  ReplicaWatch(const RefreshedState&, const std::vector<Watch>&, int sample_of);
  /// Local. Computes this rank's summand. The sum over all ranks is 0 if replicas agree.
  std::uint64_t choose(const RefreshedState&, std::int64_t round);

 private:
  struct Part {
    Box box;                          // without elements: nothing in this round
    std::optional<std::int64_t> run;  // offset of its first byte in the slice, if it is contiguous
    std::int64_t bytes = 0;
  };
  struct Watched {
    std::size_t tensor;
    int slice;
    std::uint64_t weight;
    std::vector<Part> parts;  // by round; only one: the same in each round
  };
  std::vector<Watched> all_;
  std::vector<std::byte> buffer_;
};

/// Encoded string tensors, by index in the state.
using StringStore = std::map<std::size_t, bundle::EncodedStrings>;

/// Local. Returns a checksum for each of plan.mine. If this rank has written the box, whole or in
/// consecutive pieces, the checksum comes from its entries. This does not hold for dense tensors,
/// whose bytes may be another rank's. All else is read once, one MiB at a time.
std::vector<std::uint32_t> replica_checksums(const RefreshedState&, const ReplicaPlan&,
                                             const StringStore&,
                                             const std::vector<StoredTensor>& written);

/// The checksum of a part of a slice, in row-major order. The buffer is used if the memory is not
/// contiguous.
std::uint32_t checksum_of(const LocalSlice&, const Box&, std::int64_t element_bytes,
                          std::vector<std::byte>& buffer);

/// Collective; call it if plan.any. If replicas differ, throws disagreement on all ranks or logs a
/// warning on rank 0. Slices that differ are read once more, to report the ranges.
void compare_replicas(const Job&, const RefreshedState&, const ReplicaPlan&,
                      const std::vector<std::uint32_t>& checksums, const std::string& prefix);

/// The strings of a tensor. Throws invalid_argument if there are not as many as its shape says.
std::vector<std::string> string_values(const std::string& key, const LocalTensor&);

}  // namespace cairn
