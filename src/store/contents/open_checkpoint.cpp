#include "store/contents/open_checkpoint.hpp"

#include "store/contents/data_files.hpp"
#include "store/contents/format.hpp"
#include "store/contents/no_more_open.hpp"

namespace cairn {

std::vector<Address> OpenCheckpoint::all_files() const {
  const auto& format = format_of(contents_->format);
  std::vector<Address> all{prefix_.at(format.main_file(contents_->prefix))};
  if (!format.has_data_files()) return all;
  for (const auto file : data_files_of(*contents_)) all.push_back(data(file));
  return all;
}

unsigned OpenCheckpoint::access() const { return access_of(all_files()); }

OpenCheckpoint open_checkpoint(const Address& prefix, Graph graph) {
  return {prefix, read_contents(*prefix.files(), prefix.path(), graph)};
}

IndexFile load_index(const Address& prefix, Graph graph, std::optional<Format> format) {
  auto& files = *prefix.files();
  return format ? load_index_as(*format, files, prefix.path(), graph)
                : load_index(files, prefix.path(), graph);
}

}  // namespace cairn
