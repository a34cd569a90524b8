// Any bytes as a whole bundle: an index and a data file, on a disk in memory. To look at it and to
// read all of it gives no error but data_loss, and takes memory in proportion to its size.
#include "fuzz/read_whole.hpp"
#include "support/run_lengths.hpp"
#include "support/table_writer.hpp"
#include "testing/memory.hpp"

using namespace cairn;

namespace {

constexpr std::int64_t data_bytes = 4096;

void read_bundle(std::string index) {
  const AddedEncoding known(test::run_lengths);
  io::MemoryFileSystem disk;
  io::write_file(disk, "/ckpt.index", index);
  std::string data(data_bytes, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
  io::write_file(disk, "/ckpt.data-00000-of-00001", data);
  fuzz::read_whole(disk, "/ckpt");
}

}  // namespace

CAIRN_FUZZ_TARGET(checkpoint) {
  if (text.empty()) return;
  read_bundle(std::string(text));
  read_bundle(test::one_block_table(text.substr(1), static_cast<char>(text[0] % 3)));
}
