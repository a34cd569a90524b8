// Runs each target of the fuzz campaign with its first inputs, and with changes of them by a fixed
// generator: flipped bits, cut ends, inserted bytes, joined pieces of two. A finding of a target
// ends the program; scripts/campaign fuzz searches for much longer.
#include <gmock/gmock.h>

#include <random>

#include "fuzz/bounded.hpp"
#include "fuzz/json_changes.hpp"
#include "fuzz/seeds.hpp"

namespace cairn::fuzz {
namespace {

class Mutations {
 public:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  std::string of(std::string bytes, const std::string& other) {
    switch (below(4)) {
      case 0:
        for (std::size_t i = 0; i < 1 + below(4) && !bytes.empty(); ++i) {
          bytes[below(bytes.size())] ^= static_cast<char>(1u << below(8));
        }
        break;
      case 1:
        bytes.resize(below(bytes.size()));
        break;
      case 2: {
        const auto from = below(bytes.size());
        const auto more = bytes.substr(from, 1 + below(40));
        bytes.insert(below(bytes.size()), below(2) ? more : std::string(more.size(), '\xff'));
        break;
      }
      default:
        bytes = bytes.substr(0, below(bytes.size())) + other.substr(below(other.size()));
    }
    return bytes;
  }

 private:
  std::mt19937 random_{20261126};
};

const Target* find(const std::string& name) {
  for (const auto& target : targets()) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

TEST(Fuzz, FirstInputsAndWhatIsLikeThem) {
  // Fewer changes of inputs for which a directory is opened, or a whole file is verified.
  const auto times = [](const Seed& seed) {
    return seed.target == "small" ? 6 : seed.target == "hdf5" ? 40 : 100;
  };
  const auto all = seeds();
  Mutations mutations;
  std::map<std::string, int> inputs;
  for (const auto& seed : all) {
    if (seed.target == "arguments") continue;  // tests/cli has the tool
    const auto* target = find(seed.target);
    ASSERT_NE(target, nullptr) << seed.target;
    SCOPED_TRACE(seed.target + "/" + seed.name);
    read_bounded(*target, seed.bytes);
    for (int i = 0; i < times(seed); ++i) {
      const auto& other = all[mutations.below(all.size())].bytes;
      read_bounded(*target, mutations.of(mutations.of(seed.bytes, other), other));
    }
    ++inputs[seed.target];
  }
  EXPECT_EQ(inputs.size(), targets().size()) << "a target without an input to begin with";
}

// Each member of a checkpoint's metadata is removed, renamed, and given some of the types that the
// campaign gives it.
TEST(Fuzz, MembersOfMetadata) {
  const auto* target = find("metadata");
  ASSERT_NE(target, nullptr);
  std::size_t inputs = 0;
  for (const auto& seed : seeds()) {
    if (seed.target != "metadata") continue;
    const JsonChanges changes(seed.bytes);
    for (std::size_t i = 0; i < changes.count(); ++i) {
      const auto place = i / JsonChanges::kinds(), kind = i % JsonChanges::kinds();
      if (kind >= 3 && (kind + place) % 4 != 0) continue;
      ++inputs;
      const auto changed = changes.at(i);
      SCOPED_TRACE(changed);
      read_bounded(*target, changed);
    }
  }
  EXPECT_GT(inputs, 500u);
}

}  // namespace
}  // namespace cairn::fuzz
