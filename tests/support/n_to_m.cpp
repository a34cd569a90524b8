#include <filesystem>

#include "support/n_to_m.hpp"

#include "base/text.hpp"
#include "support/c_state.hpp"

namespace cairn::test {
namespace {

std::vector<Sample> random_samples(std::mt19937& random) {
  static constexpr DType dtypes[] = {DType::float32,   DType::float64,    DType::int8,
                                     DType::boolean,   DType::float16,    DType::int64,
                                     DType::uint16,    DType::complex128, DType::bfloat16,
                                     DType::complex64, DType::float8_e5m2};
  std::vector<Sample> all;
  const int count = 2 + static_cast<int>(random() % 4);
  for (int i = 0; i < count; ++i) {
    Sample sample{cat("group/t", i), dtypes[random() % std::size(dtypes)], {}};
    const auto rank = random() % 5;
    for (unsigned d = 0; d < rank; ++d) {
      sample.shape.push_back(static_cast<std::int64_t>(random() % 20 == 0 ? 0 : 1 + random() % 13));
    }
    all.push_back(std::move(sample));
  }
  all.push_back({"scalar", DType::float64, {}});
  return all;
}

}  // namespace

NToMCase::NToMCase(int n, int m, unsigned s) : seed(s) {
  std::mt19937 random(seed * 1000 + static_cast<unsigned>(n * 10 + m));
  samples = random_samples(random);
  const auto pieces = [&](const Sample& sample) {
    return guillotine(sample.shape, 1 + static_cast<int>(random() % 9), random);
  };
  for (const auto& sample : samples) {
    held.push_back(deal(pieces(sample), n, true, random));
    if (random() % 4 == 0) {
      wanted.push_back({static_cast<std::size_t>(m), {Box::whole(sample.shape)}});
    } else {
      wanted.push_back(deal(pieces(sample), m, true, random));
    }
  }
}

void NToMCase::save(std::shared_ptr<Group> group, const std::filesystem::path& directory,
                    ManagerOptions options) const {
  options.write.chunk_bytes = 4096;
  SampleState mine(seed);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    mine.add(samples[i], held[i][static_cast<std::size_t>(group->rank())],
             static_cast<int>(seed % 3));
  }
  mine.add_string("words", words);
  mine.state().store(storage);
  mine.fill();
  if (saves == Face::c) {
    CState(mine, samples, words, storage).save(group, directory, options, 7, asynchronous);
    return;
  }
  CheckpointManager manager(group, directory, options);
  if (!asynchronous) {
    manager.save(7, mine.state());
    return;
  }
  manager.save_async(7, mine.state());
  manager.wait();
}

std::string NToMCase::restore(std::shared_ptr<Group> group, const std::filesystem::path& directory,
                              ManagerOptions options) const {
  options.write.chunk_bytes = 4096;
  options.restore.verify_first = seed % 2 == 1;
  SampleState mine(seed);
  std::vector<std::string> read(words.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    mine.add(samples[i], wanted[i][static_cast<std::size_t>(group->rank())],
             static_cast<int>((seed + 1) % 3));
  }
  if (restores == Face::c) {
    CState state(mine, samples, read, Storage::automatic);
    const auto wrong = state.restore(group, directory, options, 7);
    if (!wrong.empty()) return wrong;
    return state.words() == words ? mine.check(seed) : "the strings differ";
  }
  mine.state().add("words", read);
  CheckpointManager manager(group, directory, options);
  const auto report = manager.restore_latest(mine.state());
  if (!report) return "nothing to restore";
  if (report->step != 7) return cat("restored step ", report->step);
  if (!report->unused_keys.empty()) return "unused: " + report->unused_keys.front();
  if (read != words) return "the strings differ";
  return mine.check(seed);
}

}  // namespace cairn::test
