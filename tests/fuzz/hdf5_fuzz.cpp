// Any bytes as a whole HDF5 file in a directory, as Cairn looks at it without libhdf5: its seal and
// checksum table, the place of its metadata, what it says of itself, and each slice. By its first
// byte an input is
//
//   0  the file as it is
//   1  the file, with the checksums of its seal, its table and the metadata at its place made right
//   2  the contents of the table's only block, with right checksums, behind zeros
//   3  what the file says of itself: metadata, statistics and holders, apart by a zero byte, which
//      the table lists with right checksums
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "fuzz/read_whole.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/numbers.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/read_holders.hpp"
#include "store/contents/seal.hpp"
#include "store/contents/spare.hpp"
#include "store/directory/catalog.hpp"
#include "support/table_writer.hpp"
#include "testing/memory.hpp"

using namespace cairn;

namespace {

constexpr auto seal_size = static_cast<std::size_t>(hdf5::seal_bytes);

std::int64_t number_at(std::string_view bytes, std::size_t at) {
  std::int64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Makes the checksum right of the string at the place that the file names, if there is room for it.
void make_place_right(std::string& file) {
  const auto place = hdf5::find_meta_place(
      std::string_view(file).substr(0, static_cast<std::size_t>(hdf5::marker_reach)));
  const auto size = static_cast<std::int64_t>(file.size());
  if (!place || place->bytes > size || place->offset > size - place->bytes) return;
  const auto at = static_cast<std::size_t>(place->offset);
  std::string_view rest = std::string_view(file).substr(at, static_cast<std::size_t>(place->bytes));
  const auto length = bundle::take_varint(rest);
  if (!length || rest.size() < 4 || *length != rest.size() - 4) return;
  const std::string text(rest.substr(4));
  const auto stored = bundle::encode_strings({&text, 1});
  if (static_cast<std::int64_t>(stored.bytes.size()) != place->bytes) return;
  file.replace(at, stored.bytes.size(), stored.bytes);
  const auto old = hdf5::encode_meta_place(*place);
  const auto made = hdf5::encode_meta_place({place->offset, place->bytes, stored.crc32c});
  const auto where = file.find(old);
  if (where != file.npos && old.size() == made.size()) file.replace(where, old.size(), made);
}

void make_seal_right(std::string& file) {
  if (file.size() < seal_size) return;
  const auto bytes = std::string_view(file).substr(file.size() - seal_size);
  hdf5::Seal seal;
  seal.complete = bytes[12] != 0;
  seal.file_bytes = static_cast<std::int64_t>(file.size());
  seal.table_offset = number_at(bytes, 24);
  seal.table_room = number_at(bytes, 32);
  seal.table_bytes = number_at(bytes, 40);
  if (seal.table_offset >= 0 && seal.table_offset <= seal.file_bytes && seal.table_bytes >= 0 &&
      seal.table_bytes <= seal.file_bytes - seal.table_offset) {
    seal.table_crc32c = crc32c(std::string_view(file).substr(
        static_cast<std::size_t>(seal.table_offset), static_cast<std::size_t>(seal.table_bytes)));
  }
  file.replace(file.size() - seal_size, seal_size, hdf5::encode_seal(seal));
}

std::string sealed(std::string data, const std::string& table) {
  hdf5::Seal seal{true, 0, static_cast<std::int64_t>(data.size())};
  seal.table_room = seal.table_bytes = static_cast<std::int64_t>(table.size());
  seal.table_crc32c = crc32c(table);
  data += table;
  seal.file_bytes = static_cast<std::int64_t>(data.size()) + hdf5::seal_bytes;
  return data + hdf5::encode_seal(seal);
}

std::string with_words(std::string_view text) {
  std::string data(96, '\0');
  std::vector<StoredTensor> tensors{whole_entry("u", DType::float32, {4, 6}, 0, 96, crc32c(data))};
  for (const auto key : {bundle::meta_key, bundle::statistics_key, slices_key}) {
    const std::string words(text.substr(0, text.find('\0')));
    text.remove_prefix(std::min(text.size(), words.size() + 1));
    if (words.empty()) continue;
    const auto stored = bundle::encode_strings({&words, 1});
    const auto at = static_cast<std::int64_t>(data.size());
    tensors.push_back(whole_entry(std::string(key), DType::string, {}, at,
                                  static_cast<std::int64_t>(stored.bytes.size()), stored.crc32c));
    data += stored.bytes;
  }
  std::sort(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.key < b.key; });
  return sealed(std::move(data), bundle::build_index(1, tensors));
}

void read_hdf5_file(const std::string& file) {
  const commit::Naming name{"ckpt"};
  const io::Path run = "/run", prefix = run / "ckpt-12";
  io::MemoryFileSystem disk;
  disk.create_directory(run);
  io::write_file(disk, run / "ckpt-12.h5", file);
  // A listing names it and says what is wrong with it; nothing is thrown.
  const auto entries = scan_catalog(location_of({disk, run}, name));
  const bool own = is_own_hdf5(disk, run / "ckpt-12.h5");
  if (entries.size() != (own ? 1u : 0u)) fuzz::wrong("a list that leaves it out");
  find_lost(disk, run);
  was_own_hdf5(disk, prefix);
  find_meta_without_index(disk, run, name, 12);
  const bool looked_at = fuzz::read_whole(disk, prefix);
  if (looked_at && !own) fuzz::wrong("it was read, and is not recognised");
  if (looked_at) {
    const auto contents = read_contents(disk, prefix);
    fuzz::only_damage([&] {
      const auto holders = read_holders({disk, contents});
      if (!holders) return;
      for (const auto& tensor : contents.tensors) cut_as_held(tensor, *holders);
    });
  }
}

}  // namespace

CAIRN_FUZZ_TARGET(hdf5) {
  if (text.empty()) return;
  std::string file(text.substr(1));
  switch (static_cast<unsigned char>(text[0]) % 4) {
    case 1:
      make_place_right(file);
      make_seal_right(file);
      break;
    case 2:
      file = sealed(std::string(256, '\0'), test::one_block_table(file));
      break;
    case 3:
      file = with_words(file);
      break;
    default:
      break;
  }
  read_hdf5_file(file);
}
