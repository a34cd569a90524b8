// Forged files on a node, whose checksums are right: they count as damage, and cost no more than
// files of their size may.
#include <gmock/gmock.h>

#include <functional>

#include "cairn/sparse.hpp"
#include "session/nodes/node_file.hpp"
#include "session/nodes/tier_kit.hpp"
#include "store/nodes/home_id.hpp"
#include "store/nodes/place.hpp"

namespace cairn {
namespace {

using test::nth;
using test::TierTest;

class Hostile : public TierTest {
 protected:
  Hostile() { protection_ = Protection::none; }

  static State state_of(std::vector<double>& values, std::vector<double>& sparse, int rank,
                        int ranks) {
    State state;
    const auto rows = 2 / ranks;
    state.add("x", slice(values.data(), {2, 100}, {rank * rows, 0}, {rows, 100}));
    state.add("gaps",
              cairn::sparse(slice(sparse.data(), {3, 10}, {rank * rows, 0}, {rows, 10}), -2.0));
    return state;
  }
  // Two ranks of one node; step 1 is at home.
  void save_two() {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      std::vector<double> values(100, 1 + group->rank()), sparse(10, 3);
      auto state = state_of(values, sparse, group->rank(), 2);
      CheckpointManager manager(group, "/run", options(group->rank(), 2));
      manager.save(1, state);
      manager.save(2, state);
    });
  }
  // Which step one rank of that node restores, after a check of the values: those of rank 0 are
  // `first`.
  std::int64_t restored(double first = 1) {
    std::int64_t step = 0;
    run_threads(1, [&](std::shared_ptr<Group> group) {
      std::vector<double> values(200), sparse(20);
      auto state = state_of(values, sparse, 0, 1);
      CheckpointManager manager(group, "/run", options(0, 1));
      step = manager.restore_latest(state)->step;
      for (std::size_t i = 0; i < 200; ++i) ASSERT_EQ(values[i], i < 100 ? first : 2) << i;
      for (std::size_t i = 0; i < 20; ++i) ASSERT_EQ(sparse[i], i < 10 && first == 0 ? 0 : 3) << i;
    });
    return step;
  }
  // Writes a part that `change` has altered, and a map that knows its size.
  void forge(int rank, const std::function<void(bundle::PartRecord&)>& change) {
    const auto path = find("/nodes/n0", cat("part-", rank)).at(0);
    const auto folder = path.parent_path().parent_path();
    auto map = tier::list_maps({*files_, folder}).at(0);
    Outgoing out;
    auto record = tier::NodeFile({*files_, path}, map.uuid).record();
    change(record);
    const std::vector<std::byte> bytes(1 << 16);
    for (auto& tensor : record.tensors) {
      const auto size = nth(static_cast<int>(tensor.slices.at(0).stored_bytes));
      out.bytes.emplace_back().run = std::span(bytes).first(size);
      out.entries.push_back(tensor);
    }
    files_->remove(path);
    map.part_bytes[nth(rank)] = tier::write_part({*files_, path}, record, out, false);
    io::replace_file(*files_, path.parent_path() / tier::map_name, encode(map));
  }
  static StoredTensor& x_of(bundle::PartRecord& record) {
    for (auto& one : record.tensors) {
      if (one.key == "x") return one;
    }
    throw Error(Code::internal, "no x");
  }
};

TEST_F(Hostile, PartsThatDisagreeAreDamage) {
  for (const int rank : {0, 1}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    save_two();
    EXPECT_EQ(restored(), 2);
    forge(rank, [](auto& record) {
      auto& x = x_of(record);
      x.dtype = DType::complex128;
      x.slices.at(0).stored_bytes *= 2;
    });
    EXPECT_EQ(restored(), 1) << "dtype of rank " << rank;
    files_ = std::make_shared<io::MemoryFileSystem>();
    save_two();
    forge(rank, [](auto& record) { x_of(record).shape = {2, 101}; });
    EXPECT_EQ(restored(), 1) << "shape of rank " << rank;
  }
}

// Nothing on a node is encoded.
TEST_F(Hostile, AnEncodedPieceIsDamage) {
  save_two();
  EXPECT_EQ(restored(), 2);
  forge(0, [](auto& record) { x_of(record).slices.at(0).codec = Codec{1000}; });
  EXPECT_EQ(restored(), 1);
}

TEST_F(Hostile, AFillValueOfAnotherSizeIsDamage) {
  save_two();
  EXPECT_EQ(restored(), 2);
  forge(0, [](auto& record) {
    GapsByKey gaps;
    gaps["gaps"] = std::make_shared<StoredGaps>(StoredGaps{"\1", {}});
    record.meta.gaps = std::move(gaps);
  });
  EXPECT_EQ(restored(), 1);
}

// Another version may have allowed a name that this version does not accept from an application.
TEST_F(Hostile, AnAttributeOfANameThatIsNotWrittenIsNoDamage) {
  save_two();
  forge(0, [](auto& record) { record.meta.descriptions.attributes = {{"_nc3_title", "a run"}}; });
  EXPECT_EQ(restored(0), 2);  // forge() writes zeros
}

// No work is done block by block for bytes that do not exist.
TEST_F(Hostile, AMapOfMoreThanAnyDiskCostsNothing) {
  constexpr std::int64_t huge = std::int64_t{1} << 52;
  for (const int parity : {0, 1, 2}) {
    tier::SaveMap map;
    map.uuid = std::string(32, 'a');
    map.node_of = {0, 0, 1, 1, 2};
    map.part_bytes = {5, huge, 7, 9, 11};
    map.set_nodes = 4;
    map.parity = parity;
    std::vector<tier::LocalSave> saves;
    tier::add_copies(saves, tier::decode_map(encode(map)), 0, {{0, 2, 3, 4}, {}}, 9);
    tier::resolve_saves(saves);
    EXPECT_EQ(saves.at(0).margin(), -1) << parity;
  }
}

// A note that is too large to be one keeps no job and no tidying away.
TEST_F(Hostile, NotesTooLargeForWhatTheyHoldAreNone) {
  io::MemoryFileSystem disk;
  const std::string id(32, 'a'), large(std::size_t{1} << 17, 'x');
  io::create_directories(disk, "/home/.cairn");
  io::create_directories(disk, "/node/" + id);
  io::write_file(disk, "/home/.cairn/home-id", large);
  io::write_file(disk, "/node/" + id + "/.home", "/" + large);
  EXPECT_EQ(tier::home_id({disk, "/home"}, false), "");
  const auto made = tier::home_id({disk, "/home"}, true);
  EXPECT_EQ(tier::home_id({disk, "/home"}, false), made);
  EXPECT_FALSE(tier::noted_home(disk, "/node", id));
  tier::note_home(disk, "/node", id, "/home", disk);
  EXPECT_EQ(tier::noted_home(disk, "/node", id).value().path, "/home");
}

}  // namespace
}  // namespace cairn
