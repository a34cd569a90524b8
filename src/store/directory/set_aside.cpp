#include "store/directory/set_aside.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "layout/bundle/index.hpp"
#include "store/commit/protocol.hpp"

namespace cairn {
namespace {

// Of the tensors: it may have been without metadata.
bool has_all_files(const IndexFile& loaded) {
  auto contents = bundle::parse_index(loaded.bytes);
  std::erase_if(contents.tensors,
                [](const auto& tensor) { return tensor.key.starts_with(own_key_prefix); });
  const auto used = bundle::files_used(contents);
  return std::all_of(used.begin(), used.end(),
                     [&](const auto file) { return loaded.data_sizes.count(file) != 0; });
}

bool is_no_whole_index(const Error& error) {
  return error.code() == Code::not_found || error.code() == Code::data_loss;
}

}  // namespace

std::optional<IndexFile> index_set_aside(io::FileSystem& files, const io::Path& prefix) {
  const auto directory = prefix.parent_path();
  const commit::Naming name(prefix.filename().string(), false);
  if (!files.status(directory)) return std::nullopt;
  for (const auto& entry : files.list(directory)) {
    const auto parsed = commit::parse_name(entry, name);
    if (parsed.kind != commit::ParsedName::Kind::temp_directory || !parsed.direct) continue;
    try {
      const commit::Transaction save{directory, name, parsed.step, parsed.uuid, 0, true};
      const auto old = commit::read_old_index(files, save);
      if (!old || !old->bytes) continue;
      auto loaded = look_into(files, prefix, *old->bytes, Graph::read);
      if (has_all_files(loaded)) return loaded;
    } catch (const Error& error) {  // it may be removed right now
      if (!is_no_whole_index(error) && error.code() != Code::io) throw;
    }
  }
  return std::nullopt;
}

IndexFile load_newest_index(io::FileSystem& files, const io::Path& prefix,
                            const std::function<IndexFile()>& load) {
  try {
    return load ? load() : load_index(files, prefix, Graph::read);
  } catch (const Error& error) {
    if (!is_no_whole_index(error)) throw;
    if (auto old = index_set_aside(files, prefix)) {
      log(LogLevel::warning,
          cat(prefix.string(),
              " is being replaced, or was when a save died: what was there before "
              "is read"));
      return *std::move(old);
    }
  }
  return load_index(files, prefix, Graph::read);  // the save may have ended in between
}

}  // namespace cairn
