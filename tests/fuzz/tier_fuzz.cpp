// Any bytes as the map and as a part of a checkpoint on a node, whose checksums are made right; and
// as the notes that a node and a home have of each other.
#include <cstring>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/dtype.hpp"
#include "fuzz/hostile.hpp"
#include "session/nodes/node_file.hpp"
#include "store/commit/names.hpp"
#include "store/nodes/home_id.hpp"
#include "store/nodes/place.hpp"
#include "store/nodes/save_map.hpp"
#include "testing/memory.hpp"

using namespace cairn;

namespace {

void read_map(std::string_view text) {
  tier::SaveMap map;
  const auto line = std::string(text.substr(0, text.find('\n')));
  const auto whole = cat(line, "\n", crc32c(line), "\n");
  if (!fuzz::only_data_loss([&] { map = tier::decode_map(whole); })) return;
  const tier::Sets sets(map);
  for (int node = 0; node < map.nodes(); ++node) {
    if (sets.set_of(node) < 0 || sets.set_of(node) >= sets.count()) fuzz::wrong("no such set");
    if (sets.ranks_of(node).empty()) fuzz::wrong("a node without ranks");
  }
  // The node has only parts that are no larger than this text.
  std::vector<tier::LocalSave> saves;
  tier::Stocked stocked;
  for (int rank = 0; rank < map.ranks(); ++rank) {
    const auto bytes = map.part_bytes[static_cast<std::size_t>(rank)];
    if (bytes <= static_cast<std::int64_t>(text.size())) stocked.parts.push_back(rank);
  }
  const bool all = static_cast<int>(stocked.parts.size()) == map.ranks();
  tier::add_copies(saves, map, 0, std::move(stocked), 1);
  tier::resolve_saves(saves);
  const auto margin = saves.front().margin();
  if (all ? margin < 0 : map.parity == 0 && margin >= 0) fuzz::wrong("a margin");
  if (tier::encode(tier::decode_map(tier::encode(map))) != tier::encode(map)) {
    fuzz::wrong("a map is not what it was");
  }
}

// The head is 64 bytes; its last four are the checksum of head, record and stripes.
void read_part(std::string_view text) {
  constexpr std::size_t head = 64, sum = 60;
  std::string bytes(text);
  if (bytes.size() >= head) {
    std::int64_t record = 0, stripes = 0;
    std::memcpy(&record, bytes.data() + 8, 8);
    std::memcpy(&stripes, bytes.data() + 16, 8);
    const auto room = static_cast<std::int64_t>(bytes.size() - head);
    if (record >= 0 && record <= room && stripes >= 0 && stripes <= (room - record) / 4) {
      const auto end = head + static_cast<std::size_t>(record + 4 * stripes);
      const auto crc = crc32c(std::string_view(bytes).substr(head, end - head),
                              crc32c(std::string_view(bytes).substr(0, sum)));
      std::memcpy(bytes.data() + sum, &crc, sizeof crc);
    }
  }
  io::MemoryFileSystem disk;
  io::write_file(disk, "/part", bytes);
  fuzz::only_data_loss([&] {
    const tier::NodeFile part({disk, "/part"}, std::string(32, 'a'));
    for (const auto& tensor : part.record().tensors) {
      const auto& slice = tensor.slices.at(0);
      std::vector<std::byte> to(static_cast<std::size_t>(slice.stored_bytes));
      part.read(slice.offset, to);
      const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
      if (item > 0 && slice.box.count() * item != slice.stored_bytes) {
        fuzz::wrong("a slice of another size");
      }
    }
    part.verify();
  });
}

// The notes that tell to which directory a node's checkpoints belong, and which number a directory
// has.
void read_home(std::string_view text) {
  const std::string id(32, 'a');
  io::MemoryFileSystem disk;
  io::create_directories(disk, "/node/" + id);
  io::create_directories(disk, "/home/.cairn");
  io::write_file(disk, "/node/" + id + "/.home", text);
  if (const auto noted = tier::noted_home(disk, "/node", id); noted && !noted->path.is_absolute()) {
    fuzz::wrong("a home that depends on who asks");
  }
  tier::note_home(disk, "/node", id, "/home", disk);
  const auto noted = tier::noted_home(disk, "/node", id);
  if (!noted || noted->path != "/home") fuzz::wrong("a home is not what was noted");

  const auto inode = disk.status("/home")->id.inode;
  for (const auto& bytes : {std::string(text), cat(id, " ", inode, " ", text), cat(id, text)}) {
    io::replace_file(disk, "/home/.cairn/home-id", bytes);
    const auto there = tier::home_id({disk, "/home"}, false);
    const auto made = tier::home_id({disk, "/home"}, true);
    if (!commit::is_uuid(made)) fuzz::wrong("a number that is none");
    if (!there.empty() && there != made) fuzz::wrong("another number for who may write");
    if (tier::home_id({disk, "/home"}, false) != made) fuzz::wrong("a number that was not kept");
  }
}

}  // namespace

CAIRN_FUZZ_TARGET(tier) {
  read_map(text);
  read_part(text);
  read_home(text);
}
