// Encoded data that is damaged, forged, or of another version: none of its values is ever returned.
#include "base/checksum.hpp"
#include "codec_kit.hpp"
#include "layout/bundle/table.hpp"
#include "layout/bundle/table_write.hpp"
#include "support/says.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using test::run_lengths_codec;
using test::RunLengthLayout;
using testing::HasSubstr;

class DamagedCode : public Encoded {
 protected:
  // Each way to read a tensor's values ends in this error, and a restore takes the older step.
  void expect_damage(std::int64_t step, const std::string& key, const std::string& words) {
    const auto expect = [&](const std::function<void()>& call) {
      test::expect_error(Code::data_loss,
                         testing::AllOf(HasSubstr(cat("tensor '", key, "'")), HasSubstr(words)),
                         call);
    };
    const BundleReader reader(cat("/run/ckpt-", step), files_);
    expect([&] { reader.read(key); });
    expect([&] { reader.read(key, {{5, 7}, {1, 1}}); });
    rows_job(3, [&](CheckpointManager& manager, NoisyRows& rows, Group&) {
      expect([&] { manager.restore(step, rows.state); });
    });
    const auto report = verify_checkpoint(Address(files_, cat("/run/ckpt-", step)));
    EXPECT_EQ(report.verdict(), Verdict::damaged);
    const auto told = std::find_if(report.findings.begin(), report.findings.end(),
                                   [&](const auto& finding) { return finding.key == key; });
    ASSERT_NE(told, report.findings.end());
    EXPECT_THAT(told->what, HasSubstr(words));
    EXPECT_NE(told->slice, "");
    EXPECT_EQ(found(3), 10);
  }
};

// One byte of a value is damaged: the decoded data still has the right size.
TEST_F(DamagedCode, DamageIsNoGarbage) {
  const RunLengthLayout layout;
  save(2, 10);
  save(2, 20);
  const auto piece = contents(20).tensors.at(1).slices.at(1);
  flip(data_path(contents(20), piece.file).string(), piece.offset + 1);
  expect_damage(20, "noise", "checksum of ");
}

// The damage has checksums that are right.
TEST_F(DamagedCode, WhatIsNotDecodedIsDamage) {
  const RunLengthLayout layout;
  save(2, 10);
  save(2, 20);
  auto changed = contents(20);
  auto& piece = changed.tensors.at(1).slices.at(1);
  const auto path = data_path(changed, piece.file);
  flip(path.string(), piece.offset);
  const auto file = io::read_file(*files_, path, 1 << 24);
  piece.crc32c = crc32c(std::string_view(file).substr(
      static_cast<std::size_t>(piece.offset), static_cast<std::size_t>(piece.stored_bytes)));
  put_index(20, changed);
  expect_damage(20, "noise", "runs are");
}

// A few bytes cannot ask for memory that no run of the tensor needs.
TEST_F(DamagedCode, ABombIsDamage) {
  const RunLengthLayout layout;
  save(2, 10);
  save(2, 20);
  auto changed = contents(20);
  const std::int64_t many = std::int64_t{1} << 57;
  StoredTensor bomb{"bomb", DType::float64, {many}, false, {}, ""};
  bomb.slices.push_back({Box::whole({many}), {}, 0, 0, 2, many * 8, 0, run_lengths_codec});
  const auto file = io::read_file(*files_, data_path(changed, 0), 1 << 24);
  bomb.slices[0].crc32c = crc32c(std::string_view(file).substr(0, 2));
  changed.tensors.push_back(bomb);
  put_index(20, changed);
  const BundleReader reader("/run/ckpt-20", files_);
  test::expect_error(Code::data_loss,
                     testing::AllOf(HasSubstr("tensor 'bomb'"), test::Says("2 bytes never become")),
                     [&] {
                       reader.read("bomb", {{5}, {3}});
                     });
  const auto report = verify_checkpoint(Address(files_, "/run/ckpt-20"));
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].kind, Finding::Kind::damage);
  EXPECT_EQ(report.findings[0].key, "bomb");
}

// Neither this program nor its owner calls it damaged or removes it.
TEST_F(DamagedCode, ACheckpointOfANewerVersionIsLeftAlone) {
  options_.keep.last = 1;
  save(2, 10);
  save(2, 20);
  const auto old = io::read_file(*files_, "/run/ckpt-20.index", 1 << 24);
  std::string newer;
  bundle::TableWriter writer([&](auto bytes) { newer += bytes; });
  const auto table = bundle::read_table(old, {});
  for (const auto& [key, value] : table.entries) {
    writer.add(key, key.empty() ? std::string(value.substr(0, 2)) + "\x1a\x05\x08\x01\x10\xe9\x07"
                                : std::string(value));
  }
  writer.finish();
  put_index(20, newer);
  const auto report = verify_checkpoint(Address(files_, "/run/ckpt-20"));
  EXPECT_EQ(report.verdict(), Verdict::unknown);
  rows_job(2, [&](CheckpointManager& manager, NoisyRows& rows, Group&) {
    test::expect_error(Code::unsupported, test::Says("asks for a reader of version 1001"),
                       [&] { manager.restore(20, rows.state); });
    rows.fill(30);
    manager.save(30, rows.state);
    rows.fill(40);
    manager.save(40, rows.state);
  });
  EXPECT_EQ(io::read_file(*files_, "/run/ckpt-20.index", 1 << 24), newer);
  put_index(20, old);
  EXPECT_EQ(verify_checkpoint(Address(files_, "/run/ckpt-20")).verdict(), Verdict::whole);
  rows_job(1, [&](CheckpointManager& manager, NoisyRows& rows, Group&) {
    manager.restore(20, rows.state);
    EXPECT_TRUE(rows.has(20));
  });
}

}  // namespace
}  // namespace cairn
