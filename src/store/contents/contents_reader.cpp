#include "store/contents/contents_reader.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/coverage.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_gaps.hpp"
#include "layout/bundle/stored_graph.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/codec.hpp"
#include "model/box_index.hpp"
#include "store/commit/names.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/not_ours.hpp"
#include "store/contents/spare.hpp"

namespace cairn {
namespace {

void check_files(CheckpointContents& contents, const IndexFile& loaded) {
  bundle::check_files(contents, [&](std::int32_t file) -> std::optional<std::int64_t> {
    const auto at = loaded.data_sizes.find(file);
    return at == loaded.data_sizes.end() ? std::nullopt : std::optional(at->second);
  });
}

}  // namespace

std::string filler_key(int file) {
  char text[32];
  std::snprintf(text, sizeof text, "_cairn/filler-%05d", file);
  return text;
}

io::Path data_path(const CheckpointContents& contents, int file) {
  return format_of(contents.format).data_file(contents.prefix, file, contents.num_files);
}

bool has_checkpoint(const Address& prefix) {
  const auto all = all_formats();
  return std::any_of(all.begin(), all.end(), [&](const auto* format) {
    return format->recognises(*prefix.files(), format->main_file(prefix.path()));
  });
}

namespace {

// How much of a checkpoint is looked at.
struct Look {
  Graph graph = Graph::skip;
  bool own_files = false;             // only the data files with its own entries
  const FoundSizes* found = nullptr;  // file sizes that others have found
};

// How many bytes of each data file the tensors without a problem need.
std::map<std::int32_t, std::int64_t> bytes_used(const CheckpointContents& contents,
                                                bool own_files) {
  std::map<std::int32_t, std::int64_t> used;
  for (const auto& tensor : contents.tensors) {
    if (own_files && !tensor.key.starts_with(own_key_prefix)) continue;
    for (const auto& slice : tensor.slices) {
      auto& bytes = used[slice.file];
      bytes = std::max(bytes, slice.offset + slice.stored_bytes);
    }
  }
  return used;
}

// Why the index is not this checkpoint's: its metadata do not fit it. Empty: they do.
std::string foreign_index(io::FileSystem& files, const CheckpointContents& contents,
                          const StoredTensor& meta) {
  if (!format_of(contents.format).has_data_files() || meta.slices.size() != 1) return "";
  const auto own =
      find_own_spare(files, contents.prefix, meta.slices.front().file, contents.num_files);
  if (!own) return "";
  return cat("the index is another's: ", own->file, " has the metadata and the index of this one");
}

// Reads the metadata and the graph, when the tensors are known and the data files are there.
void read_values(io::FileSystem& files, Graph graph, IndexFile& loaded) {
  const auto& contents = *loaded.parsed;
  const auto read_scalar = [&](const StoredTensor& stored, std::string& value,
                               std::string& problem) {
    try {
      if (!stored.problem.empty()) throw Error(Code::data_loss, stored.problem);
      if (stored.dtype != DType::string || !stored.shape.empty()) {
        throw Error(Code::data_loss, cat('\'', stored.key, "' is no string scalar"));
      }
      value = read_string_slice(files, contents, stored, stored.slices.at(0)).at(0);
    } catch (const Error& error) {
      if (error.code() != Code::data_loss) throw;  // it is only not readable now
      problem = error.what();
    }
  };
  if (const auto* stored = contents.find(bundle::meta_key)) {
    read_scalar(*stored, loaded.meta, loaded.meta_problem);
    try {
      if (loaded.meta_problem.empty()) loaded.parsed->meta = bundle::decode_meta(loaded.meta);
    } catch (const Error& error) {
      loaded.meta.clear();
      loaded.meta_problem = error.what();
    }
    if (!loaded.meta_problem.empty()) loaded.foreign = foreign_index(files, contents, *stored);
  }
  const auto* measured = contents.find(bundle::statistics_key);
  if (measured && !loaded.meta.empty()) {
    std::string text, problem;  // the problem is for verify to report
    read_scalar(*measured, text, problem);
    bundle::decode_statistics(text, *loaded.parsed->meta);
    loaded.meta = bundle::encode_meta(*loaded.parsed->meta);
  }
  if (graph == Graph::skip) return;
  if (const auto* stored = contents.find(object_graph_key)) {
    read_scalar(*stored, loaded.graph, loaded.graph_problem);
    if (loaded.graph_problem.empty() && loaded.graph.empty()) loaded.graph_problem = "it is empty";
  }
}

void name_contents(const io::Path& prefix, IndexFile& loaded) {
  loaded.parsed->prefix = prefix.string();
  loaded.parsed->format = loaded.format;
  const auto num_files = loaded.parsed->num_files;
  if (loaded.table_room == 0 || num_files == 1) return;
  throw Error(Code::data_loss, "the checksum table of the HDF5 file is none that Cairn makes",
              cat("it speaks of ", num_files, " data files"));
}

// Reads the rest, when the index was read.
IndexFile load_values(io::FileSystem& files, const io::Path& prefix, const Look& look,
                      IndexFile loaded) {
  if (!loaded.parsed) loaded.parsed = bundle::parse_index(loaded.bytes);
  name_contents(prefix, loaded);
  auto& contents = *loaded.parsed;
  const auto count = static_cast<std::size_t>(contents.num_files);
  const auto* found = look.found && look.found->size() == count ? look.found : nullptr;
  for (const auto& [file, bytes] : bytes_used(contents, look.own_files)) {
    const auto at = static_cast<std::size_t>(file);
    if (found && at < count && (*found)[at] >= bytes) {
      loaded.data_sizes[file] = (*found)[at];
    } else if (const auto size =
                   data_file_size(files, loaded.format, prefix, file, contents.num_files)) {
      loaded.data_sizes[file] = *size;
    }
  }
  check_files(contents, loaded);
  read_values(files, look.graph, loaded);
  return loaded;
}

// Adds the main file's path to errors that name no file.
template <class F>
auto at_main_file(const CheckpointFormat& format, const io::Path& prefix, F&& function) {
  try {
    return function();
  } catch (Error& error) {
    if (error.path().empty()) error.at(format.main_file(prefix).string());
    throw;
  }
}

IndexFile load(const CheckpointFormat& format, io::FileSystem& files, const io::Path& prefix,
               const Look& look) {
  return at_main_file(format, prefix, [&] {
    return load_values(files, prefix, look, format.read_index(files, prefix));
  });
}

std::vector<const CheckpointFormat*> formats_there(io::FileSystem& files, const io::Path& prefix) {
  std::vector<const CheckpointFormat*> there;
  for (const auto* format : all_formats()) {
    if (format->recognises(files, format->main_file(prefix))) there.push_back(format);
  }
  return there;
}

// Tries one of several formats. Nothing if the checkpoint is damaged or gone; `why` then says
// which.
std::optional<IndexFile> try_load(const CheckpointFormat& format, io::FileSystem& files,
                                  const io::Path& prefix, const Look& look,
                                  std::optional<Error>& why) {
  try {
    return load(format, files, prefix, look);
  } catch (const Error& error) {
    if (error.code() != Code::data_loss && error.code() != Code::not_found) throw;
    why = error;
    return std::nullopt;
  }
}

[[noreturn]] void nothing_there(io::FileSystem& files, const io::Path& prefix) {
  const auto file = commit::split_main_file(prefix);
  if (file && has_checkpoint({files, file->prefix})) {
    throw Error(Code::not_found, cat("there is no checkpoint ", prefix.string()),
                "that is a file of one", cat("Give its prefix: ", file->prefix.string()))
        .at(prefix.string());
  }
  if (const auto lost = find_lost_at(files, prefix)) throw lost_error(*lost);
  if (const auto link = link_to_nothing({files, prefix})) throw *link;
  const auto h5 = commit::hdf5_path(prefix).string(), index = commit::index_path(prefix).string();
  const bool foreign = files.status(h5).has_value();
  throw Error(Code::not_found, cat("there is no checkpoint ", prefix.string()),
              foreign ? cat(h5, " is none that Cairn wrote") : cat(index, " does not exist"),
              foreign ? "restore_hdf5 reads datasets of other programs."
                      : "List what is there with: cairn ls DIRECTORY.")
      .at(prefix.string());
}

std::int64_t sequence_of(const IndexFile& loaded) {
  return loaded.parsed && loaded.parsed->meta ? loaded.parsed->meta->sequence : 0;
}

// Of several formats, that with the highest sequence of those that can be read.
IndexFile load_newest(io::FileSystem& files, const io::Path& prefix, const Look& look) {
  const auto there = formats_there(files, prefix);
  if (there.empty()) nothing_there(files, prefix);
  if (there.size() == 1) return load(*there.front(), files, prefix, look);
  std::optional<Error> why;
  std::optional<IndexFile> newest;
  for (const auto* format : there) {
    auto loaded = try_load(*format, files, prefix, look, why);
    if (!loaded || (newest && sequence_of(*loaded) <= sequence_of(*newest))) continue;
    newest = std::move(loaded);
  }
  if (!newest) throw *why;
  return *std::move(newest);
}

}  // namespace

IndexFile look_into(io::FileSystem& files, const io::Path& prefix, std::string index, Graph graph) {
  IndexFile loaded;
  loaded.bytes = std::move(index);
  return load_values(files, prefix, {graph}, std::move(loaded));
}

std::optional<IndexFile> read_only_index(io::FileSystem& files, const io::Path& prefix,
                                         std::optional<Format> known) {
  if (known) {
    const auto& format = format_of(*known);
    return at_main_file(format, prefix, [&] { return format.read_index(files, prefix); });
  }
  const auto there = formats_there(files, prefix);
  if (there.size() != 1) return std::nullopt;
  return at_main_file(*there.front(), prefix,
                      [&] { return there.front()->read_index(files, prefix); });
}

std::optional<std::int64_t> data_file_size(io::FileSystem& files, Format format,
                                           const io::Path& prefix, int file, int num_files) {
  const auto status = files.status(format_of(format).data_file(prefix, file, num_files));
  if (!status || status->is_directory) return std::nullopt;
  return status->size;
}

IndexFile look_into(io::FileSystem& files, const io::Path& prefix, IndexFile index, Graph graph,
                    const FoundSizes& found) {
  const auto& format = format_of(index.format);
  return at_main_file(format, prefix, [&] {
    return load_values(files, prefix, {graph, false, &found}, std::move(index));
  });
}

void read_metadata(io::FileSystem& files, const io::Path& prefix, IndexFile& loaded, Graph graph) {
  at_main_file(format_of(loaded.format), prefix, [&] {
    name_contents(prefix, loaded);
    read_values(files, graph, loaded);
  });
}

IndexFile load_index(io::FileSystem& files, const io::Path& prefix, Graph graph,
                     const FoundSizes* found) {
  return load_newest(files, prefix, {graph, false, found});
}

IndexFile load_index_as(Format format, io::FileSystem& files, const io::Path& prefix, Graph graph) {
  return load(format_of(format), files, prefix, {graph});
}

CheckpointContents parse_contents(IndexFile& loaded, const io::Path& prefix) {
  if (!loaded.parsed) {
    loaded.parsed = bundle::parse_index(loaded.bytes);
    check_files(*loaded.parsed, loaded);
  }
  auto contents = *std::exchange(loaded.parsed, std::nullopt);
  contents.prefix = prefix.string();
  contents.format = loaded.format;
  const auto is_own = [](const auto& tensor) { return tensor.key.starts_with(own_key_prefix); };
  for (auto& tensor : contents.tensors) {
    if (is_own(tensor)) contents.own.push_back(tensor);
  }
  std::erase_if(contents.tensors, is_own);
  if (!contents.meta && !loaded.meta.empty()) contents.meta = bundle::decode_meta(loaded.meta);
  bundle::fit_gaps(contents);
  contents.graph_problem = loaded.graph_problem;
  try {
    if (!loaded.graph.empty()) {
      contents.graph =
          std::make_shared<const ObjectGraph>(bundle::decode_object_graph(loaded.graph));
    }
  } catch (const Error& error) {
    contents.graph_problem = error.what();
  }
  return contents;
}

CheckpointContents read_contents(io::FileSystem& files, const io::Path& prefix, Graph graph) {
  auto loaded = load_index(files, prefix, graph);
  return parse_contents(loaded, prefix);
}

CheckpointContents read_contents_as(Format format, io::FileSystem& files, const io::Path& prefix) {
  auto loaded = load_index_as(format, files, prefix);
  return parse_contents(loaded, prefix);
}

CheckpointContents read_summary(io::FileSystem& files, const io::Path& prefix,
                                std::optional<Format> format) {
  const Look look{Graph::skip, true};
  auto loaded =
      format ? load(format_of(*format), files, prefix, look) : load_newest(files, prefix, look);
  auto contents = parse_contents(loaded, prefix);
  contents.tensors.clear();
  return contents;
}

namespace {

std::string read_bytes(io::FileSystem& files, const CheckpointContents& contents,
                       const StoredTensor& tensor, const Piece& slice) {
  if (!tensor.problem.empty()) {
    throw Error(Code::data_loss, cat("tensor '", tensor.key, "' cannot be read"), tensor.problem)
        .at(contents.prefix)
        .of_tensor(tensor.key);
  }
  std::string bytes(static_cast<std::size_t>(slice.stored_bytes), '\0');
  if (slice.stored_bytes > 0) {
    const auto file = files.open_read(data_path(contents, slice.file));
    file->read_at(slice.offset, std::as_writable_bytes(std::span(bytes)));
  }
  return bytes;
}

}  // namespace

std::string read_slice(io::FileSystem& files, const CheckpointContents& contents,
                       const StoredTensor& tensor, const Piece& slice) {
  const auto* decoder = decoder_of(contents, tensor, slice);
  auto bytes = read_bytes(files, contents, tensor, slice);
  if (tensor.dtype == DType::string) {
    bundle::decode_strings(bytes, slice.box.count(), slice.crc32c, contents.big_endian);
  } else if (crc32c(bytes) != slice.crc32c) {
    throw checksum_error(contents, tensor, slice, crc32c(bytes));
  } else if (decoder) {
    return decode_slice(contents, tensor, slice, bytes);
  }
  return bytes;
}

std::vector<std::string> read_string_slice(io::FileSystem& files,
                                           const CheckpointContents& contents,
                                           const StoredTensor& tensor, const Piece& slice) {
  const auto bytes = read_bytes(files, contents, tensor, slice);
  try {
    return bundle::decode_strings(bytes, slice.box.count(), slice.crc32c, contents.big_endian);
  } catch (Error& error) {
    throw error.of_tensor(tensor.key).at(data_path(contents, slice.file).string());
  }
}

std::vector<std::string> read_strings(io::FileSystem& files, const CheckpointContents& contents,
                                      const StoredTensor& tensor) {
  require_stored(tensor, {Box::whole(tensor.shape)});
  if (!tensor.sliced && tensor.slices.size() == 1) {
    return read_string_slice(files, contents, tensor, tensor.slices.front());
  }
  std::vector<std::string> whole(static_cast<std::size_t>(element_count(tensor.shape)));
  const auto strides = row_major_strides(tensor.shape);
  for (const auto& slice : tensor.slices) {
    auto values = read_string_slice(files, contents, tensor, slice);
    const auto inner = row_major_strides(slice.box.extent);
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto rest = static_cast<std::int64_t>(i);
      std::int64_t at = 0;
      for (std::size_t d = 0; d < strides.size(); ++d) {
        at += (slice.box.start[d] + rest / inner[d]) * strides[d];
        rest %= inner[d];
      }
      whole[static_cast<std::size_t>(at)] = std::move(values[i]);
    }
  }
  return whole;
}

namespace {

std::int64_t gap_elements(const StoredGaps& gaps, const Box& wanted) {
  std::int64_t all = 0;
  for (const auto& gap : gaps.boxes) {
    if (const auto common = intersect(gap, wanted)) all += common->count();
  }
  return all;
}

}  // namespace

std::vector<SliceMatch> stored_parts(const StoredTensor& tensor, const std::vector<Box>& wanted) {
  // A dense tensor is one slice. Looking through a few slices costs less than building an index.
  constexpr std::size_t few_slices = 8;
  std::vector<SliceMatch> found;
  std::vector<std::int64_t> covered(wanted.size());
  std::size_t number = 0;
  const std::function<bool(std::size_t)> note = [&](std::size_t i) {
    found.push_back({number, i});
    covered[i] += intersect(tensor.slices[number].box, wanted[i])->count();
    return true;
  };
  if (tensor.slices.size() <= few_slices) {
    found.reserve(wanted.size());
    for (; number < tensor.slices.size(); ++number) {
      const auto& box = tensor.slices[number].box;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i].rank() == box.rank() && overlaps(box, wanted[i])) note(i);
      }
    }
  } else {
    // The index is of the wanted boxes: there are many more slices, most of which are not wanted.
    const BoxIndex index(wanted);
    for (; number < tensor.slices.size(); ++number) index.query(tensor.slices[number].box, note);
  }
  if (!tensor.sliced) return found;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (covered[i] == wanted[i].count()) continue;  // the index reader has refused overlaps
    if (tensor.gaps && covered[i] + gap_elements(*tensor.gaps, wanted[i]) == wanted[i].count()) {
      continue;
    }
    std::vector<Box> parts;
    for (const auto& [slice, want] : found) {
      if (want == i) parts.push_back(*intersect(wanted[i], tensor.slices[slice].box));
    }
    if (tensor.gaps)
      parts.insert(parts.end(), tensor.gaps->boxes.begin(), tensor.gaps->boxes.end());
    const auto gap = find_gap(wanted[i], parts);
    throw Error(Code::not_found,
                cat("tensor '", tensor.key, "' ", shape_text(tensor.shape), ": ",
                    box_text(gap.value_or(wanted[i])), " is in no stored slice"),
                "the checkpoint holds a part of the tensor only", "Ask for what is there.")
        .of_tensor(tensor.key);
  }
  return found;
}

void require_stored(const StoredTensor& tensor, const std::vector<Box>& wanted) {
  if (tensor.sliced) stored_parts(tensor, wanted);
}

}  // namespace cairn
