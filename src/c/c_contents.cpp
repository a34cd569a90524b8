#include "c/c_contents.hpp"

#include <cstring>
#include <utility>

#include "c/handles.hpp"
#include "model/follow.hpp"

using namespace cairn;
using c::call;
using c::given;

cairn_contents::cairn_contents(CheckpointContents told) : contents(std::move(told)) {
  info = {};
  info.prefix = contents.prefix.c_str();
  info.format = words(contents.format).at(static_cast<std::size_t>(contents.format));
  info.files = contents.num_files;
  info.version = info.application = info.application_version = info.application_commit = "";
  if (const auto& meta = contents.meta) {
    info.by_cairn = 1;
    info.step = meta->step;
    info.sequence = meta->sequence;
    info.wall_time_seconds = meta->wall_time_seconds;
    info.ranks = meta->ranks;
    info.version = meta->version.c_str();
    info.has_metric = meta->metric.has_value();
    info.metric = meta->metric.value_or(0);
    info.application = meta->application.name.c_str();
    info.application_version = meta->application.version.c_str();
    info.application_commit = meta->application.commit.c_str();
  }
  for (const auto& tensor : contents.tensors) {
    auto& slices = slices_.emplace_back();
    for (const auto& one : tensor.slices) {
      slices.push_back({one.box.start.data(), one.box.extent.data(), one.file, one.offset,
                        one.stored_bytes, one.crc32c, static_cast<int32_t>(one.codec),
                        one.raw_bytes});
    }
    auto& shown = slice_pointers_.emplace_back();
    for (const auto& one : slices) shown.push_back(&one);
    const auto& said = contents.description(tensor.key);
    auto& names = dimensions_.emplace_back(c::pointers(said.dimensions));
    tensors.push_back({tensor.key.c_str(), static_cast<cairn_dtype>(tensor.dtype),
                       static_cast<int>(tensor.shape.size()), tensor.shape.data(), shown.size(),
                       shown.data(), tensor.problem.c_str(), said.units.c_str(), names.size(),
                       names.data()});
  }
}

namespace {

const BundleReader& reader_of(const cairn_contents& contents) {
  if (!contents.reader) contents.reader = std::make_unique<BundleReader>(contents.contents.prefix);
  return *contents.reader;
}

Box box_of(const BundleReader& reader, const std::string& key, const int64_t* start,
           const int64_t* extent) {
  const auto* tensor = reader.contents().find(key);
  const auto dims = tensor ? static_cast<int>(tensor->shape.size()) : 0;  // read() names the key
  try {
    return {c::dims_of(dims, start, "the start"), c::dims_of(dims, extent, "the extent")};
  } catch (const Error& error) {
    throw named(error, key);
  }
}

}  // namespace

int cairn_open(const char* prefix, cairn_contents** contents) {
  return call([&] {
    given(contents, "the address for the result");
    auto reader = std::make_unique<BundleReader>(&given(prefix, "the prefix"));
    *contents = new cairn_contents(reader->contents());
    (*contents)->reader = std::move(reader);
  });
}
void cairn_contents_free(cairn_contents* contents) { delete contents; }

const cairn_info* cairn_contents_info(const cairn_contents* contents) {
  return contents ? &contents->info : nullptr;
}
size_t cairn_contents_count(const cairn_contents* contents) {
  return contents ? contents->tensors.size() : 0;
}
const cairn_tensor* cairn_contents_at(const cairn_contents* contents, size_t index) {
  return index < cairn_contents_count(contents) ? &contents->tensors[index] : nullptr;
}
const cairn_tensor* cairn_contents_find(const cairn_contents* contents, const char* key) {
  if (!contents || !key) return nullptr;
  const auto* found = contents->contents.find(key);
  if (!found) return nullptr;
  return &contents->tensors[static_cast<size_t>(found - contents->contents.tensors.data())];
}

const char* cairn_contents_attribute(cairn_contents* contents, const char* key, const char* name) {
  if (!contents || !name) return nullptr;
  const char* found = nullptr;
  (void)call([&] {
    const auto& meta = contents->contents.meta;
    if (!meta) return;
    const auto& all =
        key ? contents->contents.description(key).attributes : meta->descriptions.attributes;
    const auto at = all.find(name);
    if (at == all.end()) return;
    contents->attribute = at->second.json();
    found = contents->attribute.c_str();
  });
  return found;
}

int cairn_contents_read(const cairn_contents* contents, const char* key, const int64_t* start,
                        const int64_t* extent, void* out, size_t size) {
  return call([&] {
    const auto& reader = reader_of(given(contents, "the contents"));
    const std::string name = &given(key, "the key");
    const auto bytes = start || extent ? reader.read(name, box_of(reader, name, start, extent))
                                       : reader.read(name);
    if (bytes.size() != size) {
      throw Error(Code::invalid_argument, cat("'", name, "' needs ", bytes.size(), " bytes there"),
                  cat("there is room for ", size))
          .of_tensor(name);
    }
    if (size > 0)
      std::memcpy(&given(static_cast<std::byte*>(out), "the memory"), bytes.data(), size);
  });
}

int cairn_contents_read_strings(cairn_contents* contents, const char* key, size_t* count,
                                const char* const** strings, const size_t** sizes) {
  return call([&] {
    auto& all = given(contents, "the contents");
    given(count, "the address for the count");
    given(strings, "the address for the strings");
    all.strings = reader_of(all).read_strings(&given(key, "the key"));
    all.string_pointers = c::pointers(all.strings);
    all.string_sizes.clear();
    for (const auto& one : all.strings) all.string_sizes.push_back(one.size());
    *count = all.strings.size();
    *strings = all.string_pointers.data();
    if (sizes) *sizes = all.string_sizes.data();
  });
}
