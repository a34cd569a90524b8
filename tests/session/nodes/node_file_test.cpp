// A rank's part on its node: what was written is read back, in any boxes; a wrong byte is never
// returned.
#include "session/nodes/node_file.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/nodes/save_map.hpp"
#include "support/group_kit.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"

namespace cairn::tier {
namespace {

using test::error_of;

const std::string uuid = "0123456789abcdef0123456789abcdef";

struct Written {
  explicit Written(Dims shape) : shape(std::move(shape)) {
    values.resize(static_cast<std::size_t>(element_count(this->shape)));
    std::iota(values.begin(), values.end(), 0.0);
    Outgoing out;
    for (const char* key : {"a", "b"}) {
      Piece slice;
      slice.box = Box::whole(this->shape);
      slice.stored_bytes = slice.raw_bytes = static_cast<std::int64_t>(8 * values.size());
      out.entries.push_back({key, DType::float64, this->shape, false, {slice}, ""});
      out.bytes.emplace_back().run = std::as_bytes(std::span(values));
    }
    bundle::PartRecord record;
    record.uuid = uuid;
    record.parts = record.num_files = 1;
    size = write_part({files, "/part"}, record, out, false);
  }
  Dims shape;
  std::vector<double> values;
  io::MemoryFileSystem files;
  std::int64_t size = 0;
};

TEST(NodeFile, GivesAnyBox) {
  Written one({7, 50, 190});
  EXPECT_EQ(one.size, one.files.status("/part")->size);
  const auto part = std::make_shared<NodeFile>(Address(one.files, "/part"), uuid);
  ASSERT_EQ(part->record().tensors.size(), 2u);
  std::mt19937 random(1);
  for (const auto& entry : part->record().tensors) {
    const auto memory =
        part_memory(part, entry.slices.at(0).offset, entry.slices.at(0).box.extent, 8);
    for (int i = 0; i < 60; ++i) {
      Box box{Dims(3), Dims(3)};
      for (std::size_t d = 0; d < 3; ++d) {
        box.start[d] = static_cast<std::int64_t>(random() % static_cast<unsigned>(one.shape[d]));
        const auto most = static_cast<unsigned>(one.shape[d] - box.start[d]);
        box.extent[d] = i % 4 == 0 ? most : static_cast<std::int64_t>(random() % (most + 1));
      }
      std::vector<double> got(static_cast<std::size_t>(box.count()));
      memory->read(box, reinterpret_cast<std::byte*>(got.data()));
      std::size_t at = 0;
      for (auto x = box.start[0]; x < box.start[0] + box.extent[0]; ++x) {
        for (auto y = box.start[1]; y < box.start[1] + box.extent[1]; ++y) {
          for (auto z = box.start[2]; z < box.start[2] + box.extent[2]; ++z) {
            ASSERT_EQ(got[at++], static_cast<double>((x * 50 + y) * 190 + z));
          }
        }
      }
    }
  }
  part->verify();
  EXPECT_FALSE(part->is_damaged());
}

TEST(NodeFile, NoFlipIsRead) {
  Written one({3, 40000});
  std::string bytes(static_cast<std::size_t>(one.size), '\0');
  one.files.open_read("/part")->read_at(0, std::as_writable_bytes(std::span(bytes)));
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    // Every byte of the head is changed, and some of the rest.
    const auto at = i < 64 ? static_cast<std::size_t>(i) : random() % bytes.size();
    auto changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
    io::MemoryFileSystem files;
    files.create("/part")->write_at(0, std::as_bytes(std::span(changed)));
    std::vector<double> values(one.values.size());
    const auto error = error_of([&] {
      const auto part = std::make_shared<NodeFile>(Address(files, "/part"), uuid);
      part->verify();
      for (const auto& entry : part->record().tensors) {
        part->read(entry.slices.at(0).offset, std::as_writable_bytes(std::span(values)));
        EXPECT_EQ(values, one.values) << at;
      }
    });
    ASSERT_TRUE(error) << at;  // also between the record and the data
    EXPECT_EQ(error->code(), Code::data_loss);
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{63}, std::size_t{100}, bytes.size() - 1}) {
    io::MemoryFileSystem files;
    files.create("/part")->write_at(0, std::as_bytes(std::span(bytes)).first(size));
    const auto error = error_of([&] { NodeFile({files, "/part"}, uuid); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::data_loss);
  }
  const auto other = error_of([&] { NodeFile({one.files, "/part"}, std::string(32, '0')); });
  ASSERT_TRUE(other);
  EXPECT_EQ(other->code(), Code::data_loss);
}

TEST(SaveMap, SaysWhatWasWritten) {
  const SaveMap map{
      uuid, std::string(32, 'b'), 7, 42, 41, 4, 2, {0, 0, 1, 2, 2}, {5, 0, 1'000'000, 3, 9}};
  const auto text = encode(map);
  const auto read = decode_map(text);
  EXPECT_EQ(encode(read), text);
  EXPECT_EQ(read.nodes(), 3);
  EXPECT_EQ(read.home, map.home);
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    const auto error = error_of([&] { decode_map(changed); });
    ASSERT_TRUE(error) << at;
    EXPECT_EQ(error->code(), Code::data_loss);
  }
  const Sets sets(map);
  ASSERT_EQ(sets.count(), 1);
  EXPECT_EQ(sets.set(0).code, (protect::Code{3, 2}));
}

// The checksums are right, as if somebody had forged the map.
TEST(SaveMap, NumbersThatAreNoIntegersAreDamage) {
  const SaveMap map{uuid, "", 7, 42, 41, 4, 2, {0, 0, 1, 2, 2}, {5, 0, 1'000'000, 3, 9}};
  const auto text = encode(map);
  const auto refusal = [&](const std::string& name, std::string_view other) {
    auto line = text.substr(0, text.find('\n'));
    const auto from = line.find_first_of("-0123456789", line.find(cat('"', name, "\":")));
    const auto to = line.find_first_not_of("-0123456789", from);
    line.replace(from, to - from, other);
    const auto error = error_of([&] { decode_map(cat(line, "\n", crc32c(line), "\n")); });
    if (!error) return std::string("accepted");
    EXPECT_EQ(error->code(), Code::data_loss);
    return error->reason();
  };
  const std::vector<std::string> ints = {"version", "set_nodes", "parity", "node_of", "since_home"};
  auto all = ints;
  for (const auto* name : {"step", "sequence", "parent", "part_bytes"}) all.emplace_back(name);
  for (const auto& name : all) {
    for (const auto* none : {"1e29", "1.0", "9223372036854775808"}) {
      EXPECT_THAT(refusal(name, none), test::Says("is no integer of")) << name << none;
    }
  }
  for (const auto& name : ints) {
    EXPECT_EQ(refusal(name, "4294967297"), test::wording("a number is no integer of 32 bits"))
        << name;
  }
  EXPECT_EQ(refusal("step", "4294967297"), "accepted");
}

}  // namespace
}  // namespace cairn::tier
