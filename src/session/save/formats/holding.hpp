#pragma once
/// Collects from all ranks which device task holds which slices of the stored tensors. This does
/// not say who wrote the bytes, which the exchange plan decides. Only tools read it.
#include <map>
#include <string>
#include <vector>

#include "base/wire.hpp"
#include "layout/hdf5/holders.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

/// What a rank contributes to these tensors, and which devices hold its slices.
struct RankHolding {
  struct Part {
    int tensor = 0, slice = 0;
    Box box;
  };
  /// Pairs of tensor and slice, one after the other. Slice -1: all slices of the tensor that are
  /// not named.
  struct OnTask {
    std::string task;
    std::vector<int> slices;
  };
  std::vector<Part> parts;
  std::vector<OnTask> tasks;  ///< the first one has all that the others do not name
};
RankHolding holding_of(const Job&, const RefreshedState&, const std::vector<DenseTensor>&);

/// Joins the messages of all ranks.
class Holding {
 public:
  void take_rank(RankHolding);
  void add(const std::string& key, Box box, const std::string& task);  ///< not dense
  hdf5::Holders finish(const std::vector<DenseTensor>&);

 private:
  // Most ranks have one device task for everything that they hold.
  struct Rank {
    std::size_t task = 0;
    std::map<std::pair<int, int>, std::size_t> others;  // by tensor and slice; -1: the rest
    std::vector<RankHolding::Part> parts;
  };
  std::size_t number_of(const std::string& task);

  std::vector<Rank> ranks_;
  std::map<std::string, std::size_t> numbers_;
  hdf5::Holders holders_;
};

}  // namespace cairn
