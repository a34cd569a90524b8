#pragma once
/// Which device task holds which slices of the tensors that a save stores: from all ranks to one.
/// Not who wrote the bytes: the exchange plan chooses that. Only tools read it.
#include <map>
#include <string>
#include <vector>

#include "base/wire.hpp"
#include "layout/hdf5/holders.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

/// What a rank brings to these tensors, and where its slices live.
struct RankHolding {
  struct Part {
    int tensor = 0, slice = 0;
    Box box;
  };
  /// Tensor and slice, in turns; slice -1: all of the tensor's that are not named.
  struct OnTask {
    std::string task;
    std::vector<int> slices;
  };
  std::vector<Part> parts;
  std::vector<OnTask> tasks;  ///< the first has all that is not said of others
};
RankHolding holding_of(const Job&, const RefreshedState&, const std::vector<DenseTensor>&);

/// Collects the messages of all ranks.
class Holding {
 public:
  void take_rank(RankHolding);
  void add(const std::string& key, Box box, const std::string& task);  ///< of a tensor not dense
  hdf5::Holders finish(const std::vector<DenseTensor>&);

 private:
  // Most ranks have one device task for all they hold.
  struct Rank {
    std::size_t task = 0;
    std::map<std::pair<int, int>, std::size_t> others;  // by tensor and slice; -1: its other ones
    std::vector<RankHolding::Part> parts;
  };
  std::size_t number_of(const std::string& task);

  std::vector<Rank> ranks_;
  std::map<std::string, std::size_t> numbers_;
  hdf5::Holders holders_;
};

}  // namespace cairn
