// A save that is written but not committed, and whose attributes have names that this version
// refuses: an earlier version may have allowed them, or somebody forged the files.
#include <span>

#include "base/checksum.hpp"
#include "layout/bundle/numbers.hpp"
#include "store/directory/direct_kit.hpp"

namespace cairn {
namespace {

// The same part record with another name of the same length and a right checksum.
std::string renamed(std::string record, const std::string& from, const std::string& to) {
  const auto at = record.find(from);
  if (at == record.npos) return record;
  record.replace(at, from.size(), to);
  std::string crc;
  bundle::append_u32(crc, crc_mask(crc32c(std::string_view(record).substr(24),
                                          crc32c(std::string_view(record).substr(0, 20)))));
  return record.replace(20, 4, crc);
}

class ReservedName : public Direct {
 protected:
  bool is_left() const {
    return std::ranges::any_of(
        listing(), [](const auto& entry) { return entry.find(".part_") != entry.npos; });
  }
};

TEST_F(ReservedName, KeepsASaveFromBeingCompletedAndFromBeingRemoved) {
  for (const std::string name : {"_nc4_title", "_nc3_title"}) {
    SCOPED_TRACE(name);
    disk_ = new_disk();
    save(1, 1);
    {
      One one(options_on(disk_));
      one.state.describe({{"_nc4_title", "a run"}});
      die_at(disk_, "create /run/ckpt-2.index", [&] { one.save(2, 2); });
    }
    for (const auto& entry : listing()) {
      if (entry.find(".part_") == entry.npos) continue;
      for (const auto& file : disk_->list("/run/" + entry)) {
        const auto path = "/run/" + entry + "/" + file;
        const auto now = renamed(io::read_file(*disk_, path, 1 << 20), "_nc4_title", name);
        disk_->open_write(path)->write_at(0, std::as_bytes(std::span(now)));
      }
    }
    ASSERT_TRUE(is_left());
    const bool may_be_written = name == "_nc4_title";
    EXPECT_EQ(latest(), may_be_written ? 2 : 1);
    EXPECT_EQ(is_left(), !may_be_written);
    save(3, 3);
    EXPECT_EQ(latest(), 3);
  }
}

}  // namespace
}  // namespace cairn
