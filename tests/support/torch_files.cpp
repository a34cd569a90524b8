#include "support/torch_files.hpp"

#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "base/checksum.hpp"

namespace cairn::test {
namespace {

std::string little(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

constexpr std::string_view metadata_module = "torch.distributed.checkpoint.metadata";
constexpr std::string_view files_module = "torch.distributed.checkpoint.filesystem";

void put_properties(PickleWriter& out) {
  out.text("properties").object("TensorProperties").raw("(").global("torch", "float32");
  out.global("torch.serialization", "_get_layout").text("torch.strided").raw("\x85R\x89");
  out.dcp("_MEM_FORMAT_ENCODING").number(0).raw("\x85R\x89tb");
}

void put_chunk(PickleWriter& out, const std::vector<std::int64_t>& offsets) {
  out.object("ChunkStorageMetadata").raw("}(").text("offsets").size(offsets);
  out.text("sizes").size({2, 3}).raw("ub");
}

void put_place(PickleWriter& out, std::string_view key, const std::vector<std::int64_t>& offset,
               std::string_view file, std::size_t at, std::size_t size) {
  out.object("MetadataIndex").raw("}(").text("fqn").text(key).text("index").raw("N");
  if (!offset.empty()) out.text("offset").size(offset);
  out.raw("ub").global(files_module, "_StorageInfo").raw(")\x81}(");
  out.text("relative_path").text(file).text("offset").number(static_cast<std::int64_t>(at));
  out.text("length").number(static_cast<std::int64_t>(size)).raw("ub");
}

}  // namespace

PickleWriter& PickleWriter::text(std::string_view value) {
  return raw("X" + little(value.size(), 4)).raw(value);
}
PickleWriter& PickleWriter::number(std::int64_t value) {
  return raw("J" + little(static_cast<std::uint64_t>(value), 4));
}
PickleWriter& PickleWriter::global(std::string_view module, std::string_view name) {
  return raw("c").raw(module).raw("\n").raw(name).raw("\n");
}
PickleWriter& PickleWriter::dcp(std::string_view name) { return global(metadata_module, name); }
PickleWriter& PickleWriter::size(const std::vector<std::int64_t>& numbers) {
  global("torch", "Size").raw("(");
  for (const auto one : numbers) number(one);
  return raw("t\x85R");
}

std::string torch_archive(const std::vector<std::pair<std::string, std::string>>& members,
                          bool wide) {
  std::string file, directory;
  for (const auto& [word, bytes] : members) {
    const auto name = "archive/" + word;
    const auto crc = little(crc32_of_zip(std::as_bytes(std::span(bytes))), 4);
    const auto size = wide ? little(0xffffffff, 4) : little(bytes.size(), 4);
    const auto extra =
        wide ? little(1, 2) + little(16, 2) + little(bytes.size(), 8) + little(bytes.size(), 8)
             : std::string();
    const auto common = little(0x808, 2) + little(0, 2) + little(0, 4) + crc + size + size +
                        little(name.size(), 2) + little(extra.size(), 2);
    directory += little(0x02014b50, 4) + little(0, 2) + little(0, 2) + common + little(0, 2) +
                 little(0, 8) + little(file.size(), 4) + name + extra;
    file += little(0x04034b50, 4) + little(0, 2) + common + name + extra + bytes;
  }
  const auto at = file.size();
  file += directory;
  const auto count = little(members.size(), wide ? 8 : 2);
  if (wide) {
    const auto end = file.size();
    file += little(0x06064b50, 4) + little(44, 8) + little(0, 4) + little(0, 8) + count + count +
            little(directory.size(), 8) + little(at, 8);
    file += little(0x07064b50, 4) + little(0, 4) + little(end, 8) + little(1, 4);
    return file + little(0x06054b50, 4) + little(0, 4) + little(0xffffffff, 4) +
           little(0xffffffff, 4) + little(0xffffffff, 4) + little(0, 2);
  }
  return file + little(0x06054b50, 4) + little(0, 4) + count + count + little(directory.size(), 4) +
         little(at, 4) + little(0, 2);
}

std::string saved_floats(const std::vector<float>& storage, const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& strides, std::int64_t first, bool wide) {
  PickleWriter out(2);
  out.global("torch._utils", "_rebuild_tensor_v2").raw("((").text("storage");
  out.global("torch", "FloatStorage").text("0").text("cpu").number(std::ssize(storage)).raw("tQ");
  out.number(first);
  for (const auto* numbers : {&shape, &strides}) {
    out.raw("(");
    for (const auto one : *numbers) out.number(one);
    out.raw("t");
  }
  out.raw("\x89").global("collections", "OrderedDict").raw(")RtR");
  std::string bytes(storage.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), storage.data(), bytes.size());
  return torch_archive({{"data.pkl", out.end()}, {"byteorder", "little"}, {"data/0", bytes}}, wide);
}

DcpFiles dcp_files() {
  DcpFiles files;
  files.elements.resize(12);
  std::iota(files.elements.begin(), files.elements.end(), 0.5F);
  const auto& e = files.elements;
  const auto step = torch_archive({{"data.pkl", PickleWriter(2).raw("K\x07").end()}});
  const auto upper = saved_floats({e.begin(), e.begin() + 6}, {2, 3}, {3, 1});
  files.first = step + upper;
  files.second = saved_floats({-1, e[6], e[9], e[7], e[10], e[8], e[11]}, {2, 3}, {1, 2}, 1, true);

  PickleWriter out;
  out.object("Metadata").raw("}(").text("state_dict_metadata").raw("}(");
  out.text("w").object("TensorStorageMetadata").raw("}(");
  put_properties(out);
  out.text("size").size({4, 3}).text("chunks").raw("](");
  put_chunk(out, {0, 0});
  put_chunk(out, {2, 0});
  out.raw("eub").text("step").object("BytesStorageMetadata").raw("}bu");
  out.text("planner_data").raw("}(").text("w").text("w").raw("\x85").text("step").text("step");
  out.raw("\x85u").text("storage_data").raw("}(");
  put_place(out, "w", {0, 0}, "__0_0.distcp", step.size(), upper.size());
  put_place(out, "w", {2, 0}, "__1_0.distcp", 0, files.second.size());
  put_place(out, "step", {}, "__0_0.distcp", 0, step.size());
  out.raw("uub");
  files.metadata = out.end();
  return files;
}

}  // namespace cairn::test
