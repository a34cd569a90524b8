// How ranks tell each other what a checkpoint holds.
#include <algorithm>
#include <tuple>

#include "layout/bundle/index.hpp"
#include "session/restore/restore.hpp"
#include "session/restore/restore_tensors.hpp"
#include "support/forwarding_files.hpp"
#include "support/manager_kit.hpp"
#include "support/run_lengths.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

// As a node whose cached view of a directory is old.
class OldView : public test::ForwardingFiles {
 public:
  enum class Sees { nothing, less, error };
  OldView(std::shared_ptr<io::FileSystem> files, Sees sees)
      : ForwardingFiles(std::move(files)), sees_(sees) {}

  std::optional<io::Status> status(const io::Path& path) override {
    auto found = files_->status(path);
    if (!found || path.string().find(".data-") == std::string::npos) return found;
    ++looks;
    if (sees_ == Sees::nothing) return std::nullopt;
    if (sees_ == Sees::error) throw Error(Code::io, "the server does not answer");
    found->size -= found->size > 0;
    return found;
  }

  int looks = 0;

 private:
  const Sees sees_;
};

// Applies to all restores of this program: even indexes of a few slices are dealt to ranks, as
// large ones are, and restored in several batches.
const bool dealt = [] {
  index_sharing() = {0, 16};
  restore_batches() = {3, 0};
  return true;
}();

class TellContents : public Manager {};

TEST_P(TellContents, AnOldViewOfDataFilesIsNoDamage) {
  job([](Rank& rank) { rank.save(7); });
  for (const auto sees : {OldView::Sees::nothing, OldView::Sees::less, OldView::Sees::error}) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      auto options = options_;
      const auto old = std::make_shared<OldView>(files_, sees);
      if (group->rank() > 0) options.write.file_system = old;
      Rank rank(group, options);
      EXPECT_EQ(rank.latest(), 7);
      if (group->rank() == 1) {
        EXPECT_GT(old->looks, 0);
      }
    });
  }
}

TEST_P(TellContents, AFileThatIsGoneIsDamageOnAllRanks) {
  job([](Rank& rank) {
    rank.save(1);
    rank.save(2);
  });
  const auto gone = cat("/run/ckpt-2.data-00000-of-0000", GetParam() + 1);
  ASSERT_TRUE(files_->status(gone));
  files_->remove(gone);
  job([](Rank& rank) {
    expect_error(rank, Code::data_loss, "is missing", [&] { rank.manager.restore(2, rank.state); });
    EXPECT_EQ(rank.value, 0);
    EXPECT_EQ(rank.latest(), 1);
  });
}

// Rows of two tensors, of which one is cut finely, and a string.
struct TwoTensors {
  static constexpr std::int64_t rows = 100;
  TwoTensors(int rank, int ranks) : u(rows * 3), v(rows) {
    for (auto i = rows * rank / ranks; i < rows * (rank + 1) / ranks; ++i) {
      const auto at = static_cast<std::size_t>(i);
      fine.push_back(slice(u.data() + 3 * at, {rows, 3}, {i, 0}, {1, 3}));
      for (std::size_t j = 0; j < 3; ++j) u[3 * at + j] = value(i) + static_cast<double>(j);
    }
    const auto first = rows * rank / ranks, end = rows * (rank + 1) / ranks;
    for (auto i = first; i < end; ++i) v[static_cast<std::size_t>(i)] = value(i);
    auto coarse = slice(v.data() + first, {rows}, {first}, {end - first});
    coarse.storage = Storage::sliced;
    auto patched = patches(fine);
    patched.storage = Storage::sliced;
    state.add("u", std::move(patched));
    state.add("v", std::move(coarse));
    state.add("name", name);
  }
  static double value(std::int64_t row) { return 1000.0 + 10 * static_cast<double>(row); }

  std::vector<double> u, v;
  std::vector<LocalTensor> fine;
  std::string name = "of all ranks";
  State state;
};

class DealtIndex : public test::MemoryRun {
 protected:
  void save() {
    run_threads(GetParam(), [&](auto group) {
      TwoTensors mine(group->rank(), group->size());
      CheckpointManager(group, "/run", options_).save(1, mine.state);
    });
  }
  CheckpointContents contents() { return read_contents(*files_, "/run/ckpt-1"); }
  void put_index(const CheckpointContents& changed) {
    auto tensors = changed.tensors;
    tensors.insert(tensors.end(), changed.own.begin(), changed.own.end());
    files_->remove("/run/ckpt-1.index");
    io::write_file(*files_, "/run/ckpt-1.index", bundle::build_index(changed.num_files, tensors));
  }
  static StoredTensor& fine(CheckpointContents& contents) {
    return *std::find_if(contents.tensors.begin(), contents.tensors.end(),
                         [](const auto& tensor) { return tensor.key == "u"; });
  }
  void restore() {
    run_threads(GetParam() + 1, [&](auto group) {
      TwoTensors mine(group->rank(), group->size());
      const auto u = mine.u, v = mine.v;
      std::fill(mine.u.begin(), mine.u.end(), 0);
      std::fill(mine.v.begin(), mine.v.end(), 0);
      mine.name.clear();
      CheckpointManager(group, "/run", options_).restore(1, mine.state);
      EXPECT_EQ(mine.u, u);
      EXPECT_EQ(mine.v, v);
      EXPECT_EQ(mine.name, "of all ranks");
    });
  }
  void expect_refused(const std::string& text) {
    run_threads(GetParam() + 1, [&](auto group) {
      TwoTensors mine(group->rank(), group->size());
      std::fill(mine.u.begin(), mine.u.end(), -1);
      CheckpointManager manager(group, "/run", options_);
      test::expect_error(Code::data_loss, testing::HasSubstr(text),
                         [&] { manager.restore(1, mine.state); });
      EXPECT_EQ(std::count(mine.u.begin(), mine.u.end(), -1), TwoTensors::rows * 3);
    });
  }
};

TEST_P(DealtIndex, RanksKnowTheSlicesThatTheyAskFor) {
  save();
  run_threads(GetParam() + 1, [&](auto group) {
    auto job = make_job(group, "/run", {"ckpt"}, options_);
    agree_on_nodes(job);
    agree_on_io_ranks(job);
    const auto index = share_index(job, "/run/ckpt-1");
    ASSERT_TRUE(index.is_dealt());
    const auto whole = contents();
    ASSERT_EQ(index.contents().tensors.size(), whole.tensors.size());
    const auto u = static_cast<int>(index.contents().find("u") - index.contents().tensors.data());
    ASSERT_TRUE(index.is_dealt(u));
    EXPECT_EQ(index.slices(u), TwoTensors::rows);
    EXPECT_TRUE(index.contents().find("u")->slices.empty());
    const std::int64_t row = 7 * group->rank() + 3;
    const auto found = index.find(*group, {{u, {{{row, 0}, {2, 1}}, {{row + 1, 0}, {1, 3}}}}});
    ASSERT_EQ(found.size(), 1u);
    ASSERT_EQ(found[0].size(), 2u);
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto& [number, slice] = found[0][static_cast<std::size_t>(i)];
      const auto& same = whole.find("u")->slices[static_cast<std::size_t>(row + i)];
      EXPECT_EQ(number, row + i);
      EXPECT_EQ(slice.box, same.box);
      EXPECT_EQ(std::tie(slice.file, slice.offset, slice.stored_bytes, slice.crc32c),
                std::tie(same.file, same.offset, same.stored_bytes, same.crc32c));
    }
  });
}

TEST_P(DealtIndex, RangeThatManyRanksWantGoesToAll) {
  save();
  run_threads(GetParam() + 1, [&](auto group) {
    auto job = make_job(group, "/run", {"ckpt"}, options_);
    agree_on_nodes(job);
    agree_on_io_ranks(job);
    const auto index = share_index(job, "/run/ckpt-1");
    const auto u = static_cast<int>(index.contents().find("u") - index.contents().tensors.data());
    const auto found = index.find(*group, {{u, {{{0, 0}, {TwoTensors::rows, 3}}}}});
    ASSERT_EQ(found[0].size(), static_cast<std::size_t>(TwoTensors::rows));
    for (std::int64_t i = 0; i < TwoTensors::rows; ++i) {
      EXPECT_EQ(found[0][static_cast<std::size_t>(i)].number, i);
    }
  });
}

TEST_P(DealtIndex, Restores) {
  save();
  restore();
}

// The stored size of a piece does not tell where its chunks are.
TEST_P(DealtIndex, RestoresWhatIsEncoded) {
  const test::RunLengthLayout layout;
  save();
  const auto before = contents();
  for (const auto& slice : before.find("u")->slices) {
    EXPECT_EQ(slice.codec, test::run_lengths_codec);
  }
  restore();
}

// Over all ranks, the decoded pieces have more than 2^63 bytes.
TEST_P(DealtIndex, WhatIsDecodedCounts) {
  save();
  auto changed = contents();
  const std::int64_t all = std::int64_t{1} << 61, most = std::int64_t{1} << 57;
  StoredTensor x{"x", DType::float64, {all}, true, {}, ""};
  for (std::int64_t at = 0; at < all; at += most) {
    x.slices.push_back({{{at}, {most}}, {}, 0, 0, 1, most * 8, 1, test::run_lengths_codec});
  }
  changed.tensors.push_back(x);
  put_index(changed);
  run_threads(GetParam() + 1, [&](auto group) {
    auto job = make_job(group, "/run", {"ckpt"}, options_);
    agree_on_nodes(job);
    agree_on_io_ranks(job);
    const auto index = share_index(job, "/run/ckpt-1");
    EXPECT_FALSE(index.is_dealt());
    EXPECT_THAT(index.contents().find("x")->problem, test::Says("2^63 bytes or more"));
  });
}

// Overlaps of neighbours, within a part and across two (the first has 15 slices, others 16), and of
// slices far from each other.
TEST_P(DealtIndex, OverlapIsRefusedOnAllRanks) {
  save();
  const auto sound = contents();
  for (const std::int64_t row : {5, 14, 15, 30, 46, 98}) {
    auto changed = sound;
    auto& slices = fine(changed).slices;
    slices[static_cast<std::size_t>(row)].box.extent[0] = 2;
    slices[static_cast<std::size_t>(row)].stored_bytes *= 2;
    put_index(changed);
    expect_refused("overlap");
  }
  auto changed = sound;
  fine(changed).slices[3].box.extent[0] = 90;
  fine(changed).slices[3].stored_bytes *= 90;
  fine(changed).slices[3].offset = 0;
  put_index(changed);
  expect_refused("overlap");
}

TEST_P(DealtIndex, SliceBeyondItsFileIsRefusedOnAllRanks) {
  save();
  for (const std::size_t row : {0, 40, 99}) {
    auto changed = contents();
    fine(changed).slices[row].offset += std::int64_t{1} << 40;
    put_index(changed);
    expect_refused("leave data file");
    changed = contents();
    fine(changed).slices[row].offset -= std::int64_t{1} << 40;
    put_index(changed);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DealtIndex, testing::Values(1, 2, 4, 11));
INSTANTIATE_TEST_SUITE_P(Ranks, TellContents, testing::Values(1, 2, 3, 7));

}  // namespace
}  // namespace cairn
