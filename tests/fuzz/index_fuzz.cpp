/// Any bytes as an index, as the contents of its data block, as a part record, an object graph and
/// strings. Only data_loss may be thrown, for an index also unsupported, and what is accepted must
/// keep the promises of index.hpp.
#include <string_view>

#include "fuzz/hostile.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/part_record.hpp"
#include "layout/bundle/stored_graph.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "model/graph_index.hpp"
#include "support/table_writer.hpp"

namespace {

using cairn::fuzz::only_data_loss;

void require(bool promised) {
  if (!promised) cairn::fuzz::wrong("what is accepted breaks a promise of index.hpp");
}

// Checks a piece in a file of 1000 bytes, and the sum of all.
void look_at(const cairn::StoredTensor& tensor, const cairn::Piece& piece, std::int64_t& raw) {
  require(piece.offset >= 0 && piece.stored_bytes >= 0);
  require(piece.offset + piece.stored_bytes <= 1000);
  require(cairn::Box::whole(tensor.shape).contains(piece.box));
  require(piece.raw_bytes >= 0 && !__builtin_add_overflow(raw, piece.raw_bytes, &raw));
  if (piece.codec == cairn::Codec::none) return require(piece.raw_bytes == piece.stored_bytes);
  const auto item = static_cast<std::int64_t>(cairn::dtype_size(tensor.dtype));
  require(item > 0 && piece.raw_bytes / item == piece.box.count() && piece.raw_bytes % item == 0);
}

void read_index(std::string_view index) {
  const auto read = [&] {
    auto contents = cairn::bundle::parse_index(index);
    cairn::bundle::check_files(contents, [](auto) { return std::optional<std::int64_t>(1000); });
    std::vector<cairn::StoredTensor> sound;
    std::int64_t raw = 0;
    for (const auto& tensor : contents.tensors) {
      if (!tensor.problem.empty() || tensor.key[0] == '\0') continue;
      sound.push_back(tensor);
      for (const auto& piece : tensor.slices) look_at(tensor, piece, raw);
    }
    // Sound tensors can be written again.
    cairn::bundle::parse_index(cairn::bundle::build_index(contents.num_files, sound));
  };
  // Or the index is of another version.
  cairn::fuzz::only(read, cairn::Code::data_loss, cairn::Code::unsupported);
}

void read_graph(std::string_view bytes) {
  only_data_loss([&] {
    const auto graph = cairn::bundle::decode_object_graph(bytes);
    const cairn::GraphIndex index(graph);
    std::size_t length = 0;
    for (const auto& path : graph.paths()) {
      length += path.size();
      index.walk(path);
    }
    // A path has at most the 512 bytes of its parents, and its own name.
    if (length > 1100 * graph.nodes.size() + 4 * bytes.size())
      cairn::fuzz::wrong("what is accepted breaks a promise of index.hpp");
    try {
      const auto again = cairn::bundle::encode_object_graph(graph);
      if (!(cairn::bundle::decode_object_graph(again) == graph))
        cairn::fuzz::wrong("what is accepted breaks a promise of index.hpp");
    } catch (const cairn::Error& error) {
      // Values without a key, or with the same key, can be read but not written.
      if (error.code() != cairn::Code::invalid_argument) throw;
    }
  });
}

}  // namespace

CAIRN_FUZZ_TARGET(index) {
  read_index(text);
  if (!text.empty()) {
    read_index(cairn::test::one_block_table(text.substr(1), static_cast<char>(text[0] % 3)));
  }
  only_data_loss([&] { cairn::bundle::decode_part_record(text); });
  read_graph(text);
  only_data_loss(
      [&] { cairn::bundle::decode_strings(text, static_cast<std::int64_t>(text.size() % 7), 0); });
}
