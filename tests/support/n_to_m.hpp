#pragma once
/// One random case of N → M: what each rank holds and saves, and what each rank wants and checks.
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "support/sample_state.hpp"

namespace cairn::test {

/// The language interface that a rank uses.
enum class Face { cpp, c };

/// Random samples, held by n ranks and wanted by m: irregular boxes, patches, replicas, halos,
/// ranks without data. For a quarter of the tensors, every rank wants everything.
struct NToMCase {
  NToMCase(int n, int m, unsigned seed);

  /// Collective over n ranks: saves step 7, with 4-KiB chunks.
  void save(std::shared_ptr<Group>, const std::filesystem::path&, ManagerOptions) const;
  /// Collective over m ranks: restores the newest step. Returns "" or what is wrong on this rank.
  std::string restore(std::shared_ptr<Group>, const std::filesystem::path&, ManagerOptions) const;

  unsigned seed;
  Storage storage = Storage::automatic;  ///< of the tensors that are saved
  bool asynchronous = false;             ///< save by save_async and wait
  Face saves = Face::cpp, restores = Face::cpp;
  std::vector<Sample> samples;
  std::vector<std::vector<std::vector<Box>>> held, wanted;  ///< [sample][rank]
  std::vector<std::string> words{"", "two words", std::string(300, 'x')};
};

}  // namespace cairn::test
