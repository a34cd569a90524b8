#pragma once
/// Tries whether a file system does what Cairn relies on (docs/reliability.md), as far as two
/// processes can see: what a power failure leaves they cannot see.
#include <memory>
#include <string>
#include <vector>

#include "tools/second_process.hpp"

namespace cairn {

/// What became of a requirement, from best to worst.
enum class Fitness {
  good,
  without,  ///< Cairn does without it, in the way that is told
  option,   ///< checkpoints may be kept there with the option or setting that is told
  unfit,    ///< no option helps: no checkpoints should be kept there
};
const char* word_of(Fitness);

struct Trial {
  std::string what;  ///< "locks"
  Fitness fitness = Fitness::good;
  std::string found;
  std::string way_out = {};  ///< empty for good
};

struct TrialOptions {
  bool other_host = false;       ///< the second process is on another host: tries only what it sees
  double patience_seconds = 10;  ///< for what another process did to become visible
  int renames = 1000;            ///< while another process reads
  double renames_seconds = 2;    ///< no more are begun after this time
};

/// Tries all requirements, in an empty directory, which the second process has too. It is ended
/// by the last of them. Throws if that process is gone. What it has made it leaves there.
std::vector<Trial> try_file_system(const Address& directory, SecondProcess& other,
                                   const TrialOptions& options = {});

/// The worst of them.
Fitness worst_of(const std::vector<Trial>&);

}  // namespace cairn
