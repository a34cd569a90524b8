// Any bytes as a whole bundle: an index and a data file, on a disk in memory. Nothing but data_loss
// comes out of looking at it and reading all of it, and it takes no more memory than its size.
#include "cairn/contents.hpp"
#include "contents/contents_reader.hpp"
#include "fuzz/hostile.hpp"
#include "support/table_writer.hpp"
#include "testing/memory.hpp"

using namespace cairn;

namespace {

constexpr std::int64_t data_bytes = 4096;

void read(std::string index) {
  io::MemoryFileSystem disk;
  io::write_file(disk, "/ckpt.index", index);
  std::string data(data_bytes, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
  io::write_file(disk, "/ckpt.data-00000-of-00001", data);
  CheckpointContents contents;
  const auto look = [&] { contents = read_contents(disk, "/ckpt", Graph::read); };
  if (!fuzz::only(look, Code::data_loss, Code::unsupported, Code::not_found)) return;
  for (const auto& tensor : contents.tensors) {
    if (!tensor.problem.empty()) continue;
    for (const auto& slice : tensor.slices) {
      fuzz::only(
          [&] {
            if (tensor.dtype == DType::string) {
              read_string_slice(disk, contents, tensor, slice);
            } else {
              read_slice(disk, contents, tensor, slice);
            }
          },
          Code::data_loss, Code::unsupported, Code::not_found);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const auto text = fuzz::text_of(data, size);
  read(std::string(text));
  read(test::one_block_table(text.substr(1), static_cast<char>(text[0] % 3)));
  return 0;
}
