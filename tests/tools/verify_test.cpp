// Every byte of our own checkpoints is accounted for.
#include <gmock/gmock.h>

#include <limits>
#include <span>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "session/save/save_steps.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/seal.hpp"
#include "support/sample_state.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string words(const Verification& checked) {
  std::string text;
  for (const auto& finding : checked.findings) {
    text += cat(static_cast<int>(finding.kind), ' ', finding.what, " [", finding.file, " at ",
                finding.offset, "]\n");
  }
  return text;
}

class Verify : public testing::Test {
 protected:
  Verify() { set_log_sink({}); }

  std::string read(const io::Path& path) { return io::read_file(*files_, path, 1 << 30); }
  void replace(const io::Path& path, const std::string& bytes) {
    if (files_->status(path)) files_->remove(path);
    io::write_file(*files_, path, bytes);
  }
  Verification verify() { return verify_checkpoint({*files_, prefix_}); }

  std::vector<io::Path> all_files() {
    std::vector<io::Path> found;
    for (const auto& name : files_->list("/run")) {
      if (name.starts_with("ckpt-5.")) found.push_back(io::Path("/run") / name);
    }
    return found;
  }

  // Three ranks save slices, strings and scalars.
  void save() {
    run_threads(3, [&](std::shared_ptr<Group> group) {
      ManagerOptions options;
      options.write.file_system = files_;
      CheckpointManager manager(group, "/run", options);
      SampleState sample(5);
      const auto r = group->rank();
      sample.add({"u", DType::float32, {9, 4}}, {Box{{r * 3, 0}, {3, 4}}}, 1);
      sample.add({"flag", DType::boolean, {}}, {Box{{}, {}}}, 0);
      sample.add({"none", DType::int32, {0, 3}}, {Box{{0, 0}, {0, 3}}}, 0);
      if (r == 1) sample.add_string("words", {"some", "", "text"});
      sample.fill();
      manager.save(5, sample.state());
    });
  }

  // Writes a checkpoint as a save does, but with these entries and data.
  void forge(std::vector<StoredTensor> tensors, const std::string& data) {
    CheckpointMeta meta;
    meta.step = 5, meta.sequence = 1, meta.ranks = 1;
    meta.version = "test", meta.policy = "none", meta.uuid = std::string(32, 'a');
    const auto sealed = seal_index({std::move(tensors), {}}, meta, 1, 2);
    io::create_directories(*files_, "/run");
    replace("/run/ckpt-5.index", sealed.index.whole());
    replace("/run/ckpt-5.data-00000-of-00002", data);
    for (const auto& own : sealed.own_files) {
      replace(cat("/run/ckpt-5.data-0000", own.file, "-of-00002"), own.bytes.whole());
    }
  }

  static StoredTensor bytes_at(const std::string& key, const std::string& data, std::int64_t offset,
                               std::int64_t size) {
    Piece slice;
    slice.box = Box::whole({size});
    slice.offset = offset;
    slice.stored_bytes = slice.raw_bytes = size;
    slice.crc32c = crc32c(std::string_view(data).substr(static_cast<std::size_t>(offset),
                                                        static_cast<std::size_t>(size)));
    return {key, DType::uint8, {size}, false, {slice}, ""};
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  io::Path prefix_ = "/run/ckpt-5";
};

TEST_F(Verify, WholeAfterASaveOfThreeRanks) {
  save();
  const auto checked = verify();
  EXPECT_EQ(checked.verdict(), Verdict::whole) << words(checked);
  EXPECT_THAT(checked.findings, IsEmpty());
  EXPECT_TRUE(checked.ours);
  EXPECT_EQ(checked.tensors, 4);
  std::int64_t bytes = 0;
  for (const auto& file : all_files()) {
    if (file.extension() != ".index") bytes += files_->status(file)->size;
  }
  EXPECT_EQ(checked.bytes, bytes);
}

TEST_F(Verify, EveryFlippedBitOfEveryByteIsFound) {
  save();
  for (const auto& file : all_files()) {
    const auto right = read(file);
    for (std::size_t at = 0; at < right.size(); ++at) {
      auto wrong = right;
      wrong[at] = static_cast<char>(wrong[at] ^ (1 << at % 8));
      replace(file, wrong);
      EXPECT_EQ(verify().verdict(), Verdict::damaged) << file << " at " << at;
    }
    replace(file, right);
  }
  EXPECT_EQ(verify().verdict(), Verdict::whole);
}

TEST_F(Verify, EveryCutIsFound) {
  save();
  for (const auto& file : all_files()) {
    const auto right = read(file);
    for (std::size_t size = 0; size < right.size(); ++size) {
      replace(file, right.substr(0, size));
      EXPECT_EQ(verify().verdict(), Verdict::damaged) << file << " cut to " << size;
    }
    replace(file, right + '\0');
    EXPECT_EQ(verify().verdict(), Verdict::damaged) << file << " with one byte more";
    replace(file, right);
  }
}

TEST_F(Verify, MissingFilesAreNamed) {
  save();
  for (const auto& file : all_files()) {
    const auto right = read(file);
    files_->remove(file);
    const auto checked = verify();
    EXPECT_EQ(checked.verdict(), Verdict::damaged);
    EXPECT_THAT(words(checked), HasSubstr(file.string()));
    replace(file, right);
  }
}

TEST_F(Verify, GapsMustBeZero) {
  std::string data(200, '\0');
  data.replace(0, 10, "0123456789");
  data.replace(64, 10, "abcdefghij");
  const std::vector<StoredTensor> tensors = {bytes_at("a", data, 0, 10),
                                             bytes_at("b", data, 64, 10)};
  forge(tensors, data.substr(0, 74));
  EXPECT_EQ(verify().verdict(), Verdict::whole) << words(verify());
  data[40] = 1;
  forge(tensors, data.substr(0, 74));
  auto checked = verify();
  ASSERT_EQ(checked.findings.size(), 1u) << words(checked);
  EXPECT_EQ(checked.verdict(), Verdict::damaged);
  EXPECT_EQ(checked.findings[0].offset, 40);
  EXPECT_THAT(checked.findings[0].what, test::Says("the gap is 10..63"));
  data[40] = 0;
  forge(tensors, data.substr(0, 75));
  checked = verify();
  ASSERT_EQ(checked.findings.size(), 1u) << words(checked);
  EXPECT_THAT(checked.findings[0].what, test::Says("1 bytes at the end belong to no tensor"));
  EXPECT_EQ(checked.findings[0].offset, 74);
}

TEST_F(Verify, DamagedMetadataAreToldOnce) {
  save();
  const auto contents = read_contents(*files_, prefix_);
  for (const auto& tensor : contents.own) {
    if (tensor.key != bundle::meta_key) continue;
    const auto& slice = tensor.slices.at(0);
    const auto path = data_path(contents, slice.file);
    auto bytes = read(path);
    bytes[static_cast<std::size_t>(slice.offset + slice.stored_bytes - 3)] ^= 1;
    replace(path, bytes);
    const auto checked = verify();
    ASSERT_EQ(checked.findings.size(), 1u) << words(checked);
    EXPECT_THAT(checked.findings[0].what, test::Says("the metadata of the save: "));
    EXPECT_EQ(checked.findings[0].file, path.string());
    EXPECT_EQ(checked.findings[0].offset, slice.offset);
  }
}

TEST_F(Verify, PartsOfATensorAreDamageInOursAndANoteElsewhere) {
  const std::string data = "0123456789";
  auto tensor = bytes_at("a", data, 0, 10);
  tensor.shape = {20};
  tensor.sliced = true;
  forge({tensor}, data);
  auto checked = verify();
  EXPECT_EQ(checked.verdict(), Verdict::damaged);
  EXPECT_THAT(words(checked), test::Says("rows 10..19 is in no stored slice"));
  // The same without metadata, like one of another program.
  replace("/run/ckpt-5.index", bundle::build_index(1, {tensor}));
  replace("/run/ckpt-5.data-00000-of-00001", data + "more");
  checked = verify();
  EXPECT_EQ(checked.verdict(), Verdict::whole) << words(checked);
  ASSERT_EQ(checked.findings.size(), 2u) << words(checked);
  EXPECT_THAT(checked.findings[0].what, test::Says("rows 10..19 is in no stored slice"));
  EXPECT_EQ(checked.findings[1].what, "4 bytes belong to no tensor");
}

TEST_F(Verify, SlicesThatShareBytesAreEachChecked) {
  const std::string data = "0123456789";
  auto right = bytes_at("a", data, 0, 10), wrong = bytes_at("b", data, 0, 10);
  wrong.slices[0].crc32c ^= 1;
  io::create_directories(*files_, "/run");
  replace("/run/ckpt-5.index", bundle::build_index(1, {right, wrong, bytes_at("c", data, 3, 4)}));
  replace("/run/ckpt-5.data-00000-of-00001", data);
  const auto checked = verify();
  ASSERT_EQ(checked.findings.size(), 1u) << words(checked);
  EXPECT_EQ(checked.findings[0].key, "b");
}

TEST_F(Verify, WhatCannotBeReadIsNotCalledDamage) {
  save();
  files_->inject({Code::io, "read", ".data-00000", 0, 1000});
  const auto checked = verify();
  EXPECT_EQ(checked.verdict(), Verdict::unknown) << words(checked);
  files_->clear_faults();
  EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-6"}).verdict(), Verdict::unknown);
  EXPECT_EQ(verify_checkpoint({*files_, "/nowhere/ckpt-6"}).verdict(), Verdict::unknown);
}

TEST_F(Verify, ACheckpointThatGoesAwayMeanwhileIsNotDamaged) {
  save();
  bool gone = false;
  const auto checked = verify_checkpoint({*files_, prefix_}, [&](std::int64_t, std::int64_t) {
    if (gone) return;
    gone = true;
    for (const auto& file : all_files()) files_->remove(file);
  });
  EXPECT_EQ(checked.verdict(), Verdict::unknown);
  ASSERT_EQ(checked.findings.size(), 1u) << words(checked);
  EXPECT_EQ(checked.findings[0].what, "it was removed or replaced while it was read");
}

// The file is sealed by whoever forged it: two billion data files would be looked for, and each
// would be found.
TEST_F(Verify, AnHdf5FileIsOneDataFile) {
  const auto table = bundle::build_index(std::numeric_limits<std::int32_t>::max(), {});
  const auto bytes = static_cast<std::int64_t>(table.size());
  const auto seal =
      hdf5::encode_seal({true, bytes + hdf5::seal_bytes, 0, bytes, bytes, crc32c(table)});
  files_->create_directory("/run");
  io::write_file(*files_, "/run/ckpt-5.h5", table + seal);
  const auto checked = verify();
  EXPECT_EQ(checked.verdict(), Verdict::damaged);
  EXPECT_THAT(words(checked), test::Says("it speaks of 2147483647 data files"));
}

TEST_F(Verify, WhoNamesAFileIsToldThePrefix) {
  save();
  const auto checked = verify_checkpoint({*files_, prefix_.string() + ".index"});
  EXPECT_THAT(words(checked), test::Says("Give its prefix: /run/ckpt-5 "));
}

TEST_F(Verify, ProgressEndsAtTheTotal) {
  save();
  std::int64_t last = 0, all = -1;
  const auto checked =
      verify_checkpoint({*files_, prefix_}, [&](std::int64_t done, std::int64_t total) {
        EXPECT_GE(done, last);
        last = done, all = total;
      });
  EXPECT_EQ(last, all);
  EXPECT_EQ(last, checked.bytes);
}

}  // namespace
}  // namespace cairn::test
