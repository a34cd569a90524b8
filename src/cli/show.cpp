// cairn show prints what a checkpoint holds.
#include <algorithm>
#include <map>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/elements.hpp"
#include "cli/graph.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "cli/values.hpp"
#include "layout/codec.hpp"
#include "model/application_text.hpp"
#include "store/contents/format.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/contents/read_holders.hpp"
#include "store/contents/whose.hpp"
#include "tools/read_tensor.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t slices_shown = 8;

struct Look {
  IndexFile index;
  OpenCheckpoint checkpoint;
  // Why the checkpoint is not what its name says.
  std::string misplaced = {};
  std::map<std::int32_t, std::int64_t> bytes_used = {};  // by data file
  std::map<std::int32_t, std::int64_t> sizes = {};       // of the data files that are there
  std::optional<hdf5::Holders> holders = {};
  std::string holders_problem = {};
};

// A file whose tensors were removed, or whose chunks are encoded, is longer than what it takes.
void leave_out_holes(const Address& prefix, Look& found) {
  const auto& contents = *found.checkpoint;
  const bool thinned = contents.meta && !contents.meta->thinned.empty();
  if (!thinned && format_of(contents.format).has_data_files()) return;
  for (auto& [file, size] : found.sizes) {
    const auto status = prefix.files()->status(data_path(contents, file));
    if (status) size = bytes_without_holes(*status);
  }
}

Look look(const Address& prefix) {
  auto index = load_index(prefix, Graph::read);
  auto contents = parse_contents(index, prefix.path());
  Look found{std::move(index), {prefix, std::move(contents)}};
  const auto& checkpoint = found.checkpoint;
  found.misplaced = found.index.foreign.empty() ? misplaced(*checkpoint) : found.index.foreign;
  const auto count = [&](const StoredTensor& tensor) {
    for (const auto& slice : tensor.slices) found.bytes_used[slice.file] += slice.stored_bytes;
  };
  for (const auto& tensor : checkpoint->tensors) count(tensor);
  for (const auto& tensor : checkpoint->own) count(tensor);
  found.sizes = found.index.data_sizes;
  leave_out_holes(prefix, found);
  try {
    found.holders = read_holders(checkpoint);
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
    found.holders_problem = error.what();
  }
  return found;
}

std::string file_name(const CheckpointContents& contents, int file) {
  return data_path(contents, file).filename().string();
}

Json json_of(const Attributes& attributes) {
  Json object = Json::object();
  for (const auto& [name, value] : attributes) object[name] = parse_json<Json>(value.json());
  return object;
}

void add_description(Json& item, const Description& said) {
  if (!said.units.empty()) item["units"] = said.units;
  if (!said.dimensions.empty()) item["dimensions"] = said.dimensions;
  if (!said.coordinates.empty()) item["coordinates"] = said.coordinates;
  if (!said.attributes.empty()) item["attributes"] = json_of(said.attributes);
}

// Says where the elements are, and how many are missing.
std::string place_text(const StoredTensor& tensor) {
  if (!tensor.problem.empty()) return cat("damaged: ", tensor.problem);
  const auto& slices = tensor.slices;
  auto text = tensor.sliced ? cat(slices.size(), " slices") : cat("file ", slices.front().file);
  const auto encoded = std::find_if(slices.begin(), slices.end(),
                                    [](const auto& one) { return one.codec != Codec::none; });
  if (encoded != slices.end()) text += cat(", ", codec_text(encoded->codec));
  if (!tensor.gaps) return text;
  return cat(text, ", ", tensor.gaps->elements(), " of ", element_count(tensor.shape),
             " elements held by no rank: ", element_text(tensor.dtype, tensor.gaps->fill.data()));
}

Json json_of(const CheckpointContents& contents, const StoredTensor& tensor) {
  Json item;
  add_key(item, tensor.key);
  if (static_cast<int>(tensor.dtype) != 0) {
    item["dtype"] = dtype_name(tensor.dtype);
    item["dtype_number"] = static_cast<int>(tensor.dtype);
  }
  item["shape"] = tensor.shape;
  item["bytes"] = value_bytes(tensor);
  item["sliced"] = tensor.sliced;
  if (!tensor.problem.empty()) item["problem"] = tensor.problem;
  Json slices = Json::array();
  for (const auto& slice : tensor.slices) {
    char crc[16];
    std::snprintf(crc, sizeof crc, "%08x", static_cast<unsigned>(slice.crc32c));
    slices.push_back({{"spec", spec_of(tensor, slice)},
                      {"start", slice.box.start},
                      {"extent", slice.box.extent},
                      {"file", file_name(contents, slice.file)},
                      {"offset", slice.offset},
                      {"bytes", slice.stored_bytes},
                      {"crc32c", crc}});
    if (slice.codec == Codec::none) continue;
    slices.back()["codec"] = static_cast<int>(slice.codec);
    slices.back()["raw_bytes"] = slice.raw_bytes;
  }
  item["slices"] = std::move(slices);
  if (tensor.gaps) {
    auto boxes = Json::array();
    for (const auto& box : tensor.gaps->boxes) {
      boxes.push_back({{"start", box.start}, {"extent", box.extent}});
    }
    item["gaps"] = {{"fill", element_text(tensor.dtype, tensor.gaps->fill.data())},
                    {"elements", tensor.gaps->elements()},
                    {"boxes", std::move(boxes)}};
  }
  add_description(item, contents.description(tensor.key));
  return item;
}

Json json_of(const CheckpointMeta& meta) {
  auto thinned = Json::array();
  for (const auto& one : meta.thinned) {
    thinned.push_back({{"keys", one.keys},
                       {"tensors", one.tensors},
                       {"bytes", one.bytes},
                       {"after", one.after < 0 ? Json() : Json(one.after)},
                       {"every", one.every > 0 ? Json(one.every) : Json()}});
  }
  const auto& noted = meta.not_finite;
  return {{"step", meta.step},
          {"sequence", meta.sequence},
          {"time_seconds", meta.wall_time_seconds},
          {"time", utc_time(meta.wall_time_seconds)},
          {"version", meta.version},
          {"application", application_json(meta.application)},
          {"ranks", meta.ranks},
          {"policy", meta.policy},
          {"uuid", meta.uuid},
          {"thinned", std::move(thinned)},
          {"not_finite", noted ? Json(noted->keys) : Json()}};
}

// Adds the descriptions of the whole checkpoint and of keys that are not tensors.
void add_descriptions(Json& out, const CheckpointContents& contents) {
  const auto& said = contents.meta->descriptions;
  if (!said.attributes.empty()) out["attributes"] = json_of(said.attributes);
  for (const auto& [key, one] : said.by_key) {
    if (contents.find(key)) continue;
    auto& group = out["groups"][key] = Json::object();
    add_description(group, one);
  }
}

Json json_of_files(const Look& found) {
  Json files = Json::array();
  for (const auto& [file, used] : found.bytes_used) {
    const auto size = found.sizes.find(file);
    const bool there = size != found.sizes.end();
    files.push_back({{"file", file_name(*found.checkpoint, file)},
                     {"number", file},
                     {"bytes", there ? Json(size->second) : Json()},
                     {"bytes_used", used}});
  }
  return files;
}

Json json_of(const Look& found, const std::vector<StoredTensor>& tensors) {
  Json list = Json::array();
  for (const auto& tensor : tensors) {
    list.push_back(json_of(*found.checkpoint, tensor));
    if (!found.holders || !found.holders->tensors.count(tensor.key)) continue;
    auto held = Json::array();
    for (const auto& one : found.holders->tensors.at(tensor.key)) {
      held.push_back({{"start", one.box.start},
                      {"extent", one.box.extent},
                      {"task", found.holders->tasks.at(one.task)}});
    }
    list.back()["held"] = std::move(held);
  }
  return list;
}

Json json_of(const Look& found) {
  const auto& contents = *found.checkpoint;
  Json out;
  out["prefix"] = contents.prefix;
  out["num_files"] = contents.num_files;
  out["byte_order"] = contents.big_endian ? "big" : "little";
  out["index_bytes"] = found.index.bytes.size();
  out["metadata"] = contents.meta ? json_of(*contents.meta) : Json();
  if (contents.meta) {
    add_descriptions(out, contents);
  } else if (!found.index.meta_problem.empty()) {
    out["metadata_problem"] = found.index.meta_problem;
  }
  if (!found.misplaced.empty()) out["misplaced"] = found.misplaced;
  out["files"] = json_of_files(found);
  out["tensors"] = json_of(found, contents.tensors);
  out["own"] = json_of(found, contents.own);
  if (found.holders) out["tasks"] = found.holders->tasks;
  if (!found.holders_problem.empty()) out["tasks_problem"] = found.holders_problem;
  return out;
}

// Prints a row for each of the first slices, or for all slices.
template <class Slices, class Row>
void print_rows(const std::string& key, const Slices& slices, bool all, const Row& row_of) {
  const auto count = all ? slices.size() : std::min(slices.size(), slices_shown);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < count; ++i) rows.push_back(row_of(slices[i]));
  print_line(cat("    ", shown_key(key)));
  print_table(rows, "      ");
  if (count < slices.size()) {
    print_line(cat("      and ", slices.size() - count, " more (--all)"));
  }
}

void print_slices(const std::vector<StoredTensor>& tensors, bool all) {
  bool any = false;
  for (const auto& tensor : tensors) {
    if (!tensor.sliced || tensor.slices.empty()) continue;
    if (!any) print_paragraph("slices");
    any = true;
    print_rows(tensor.key, tensor.slices, all, [&](const Piece& slice) {
      return std::vector{spec_of(tensor, slice), cat("file ", slice.file), cat("at ", slice.offset),
                         bytes_text(static_cast<double>(slice.stored_bytes))};
    });
  }
}

// Prints which ranks held the slices, if the checkpoint is not a bundle and records that.
void print_holders(const Look& found, bool all) {
  if (!found.holders_problem.empty()) print_paragraph(found.holders_problem);
  if (!found.holders) return;
  const auto tasks = found.holders->tasks.size();
  print_paragraph(cat("held by ", tasks, tasks == 1 ? " device task" : " device tasks"));
  for (const auto& tensor : found.checkpoint->tensors) {
    const auto at = found.holders->tensors.find(tensor.key);
    if (at == found.holders->tensors.end()) continue;
    const auto& slices = at->second;
    if (slices.size() < 2 && !all) continue;
    print_rows(tensor.key, slices, all, [&](const auto& slice) {
      return std::vector{box_text(slice.box), found.holders->tasks.at(slice.task)};
    });
  }
}

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += cat(text.empty() ? "" : ", ", name);
  return text;
}

void print_attributes(const Attributes& attributes, const char* indent) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : attributes) rows.push_back({name, value.json()});
  print_table(rows, indent);
}

// Prints what the application says of its tensors, in the order of keys.
void print_descriptions(const Descriptions& said) {
  if (!said.attributes.empty()) {
    print_paragraph("attributes");
    print_attributes(said.attributes, "    ");
  }
  if (said.by_key.empty()) return;
  print_paragraph("described");
  for (const auto& [key, one] : said.by_key) {
    auto line = cat("    ", shown_key(key));
    if (!one.dimensions.empty()) line += cat(" (", list_text(one.dimensions), ')');
    if (!one.units.empty()) line += cat(" in ", one.units);
    if (!one.coordinates.empty()) line += cat(" at ", list_text(one.coordinates));
    print_line(line);
    print_attributes(one.attributes, "      ");
  }
}

void print_save(const CheckpointMeta& meta) {
  std::vector<std::vector<std::string>> rows{
      {"step", cat(meta.step)},
      {"saved", cat(local_time(meta.wall_time_seconds), " by Cairn ", meta.version, " on ",
                    meta.ranks, meta.ranks == 1 ? " rank" : " ranks")},
      {"commit", cat(meta.sequence)},
      {"policy", meta.policy},
      {"uuid", meta.uuid}};
  if (const auto& by = meta.application; !by.empty()) {
    rows.push_back({"application", application_text(by)});
  }
  if (meta.not_finite) {
    std::string keys;
    for (const auto& key : meta.not_finite->keys) keys += cat(keys.empty() ? "'" : ", '", key, "'");
    rows.push_back({"NaN or Inf", keys.empty() ? "none" : keys});
  }
  for (const auto& one : meta.thinned) {
    if (one.every > 0) {
      rows.push_back(
          {"left out", cat("'", one.keys, "', by a rule: one save in ", one.every, " has them")});
      continue;
    }
    rows.push_back({"thinned", cat(one.tensors, one.tensors == 1 ? " tensor" : " tensors", " of '",
                                   one.keys, "', ", bytes_text(static_cast<double>(one.bytes)),
                                   one.after < 0 ? ", by cairn thin"
                                                 : cat(", by a rule, after step ", one.after))});
  }
  print_table(rows, "  ");
}

void print_files(const Look& found) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [file, used] : found.bytes_used) {
    const auto size = found.sizes.find(file);
    rows.push_back(
        {cat(file),
         size == found.sizes.end() ? "missing" : bytes_text(static_cast<double>(size->second)),
         file_name(*found.checkpoint, file)});
  }
  const auto files = found.checkpoint->num_files;
  print_paragraph(cat(files, files == 1 ? " data file" : " data files"));
  print_table(rows, "    ", {0, 1});
}

void print_tensors(const std::vector<StoredTensor>& tensors) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& tensor : tensors) {
    const bool typed = static_cast<int>(tensor.dtype) != 0;
    rows.push_back({shown_key(tensor.key), typed ? std::string(dtype_name(tensor.dtype)) : "?",
                    shape_text(tensor.shape), bytes_text(static_cast<double>(value_bytes(tensor))),
                    place_text(tensor)});
  }
  print_paragraph(cat(tensors.size(), tensors.size() == 1 ? " tensor" : " tensors"));
  print_table(rows, "    ", {3});
}

void print(const Look& found, bool all) {
  const auto& contents = *found.checkpoint;
  print_line(contents.prefix);
  if (contents.meta) {
    print_save(*contents.meta);
  } else {
    print_line(found.index.meta_problem.empty() ? "  not saved by Cairn: no metadata"
                                                : cat("  metadata: ", found.index.meta_problem));
  }
  if (!found.misplaced.empty()) print_line(cat("  misplaced: ", found.misplaced));
  if (contents.big_endian) print_line("  big-endian data");
  print_files(found);
  if (contents.graph || !contents.graph_problem.empty()) {
    print_paragraph(contents.graph
                        ? cat("object graph of ", contents.graph->nodes.size(), " nodes (--graph)")
                        : contents.graph_problem);
  }
  print_tensors(contents.tensors);
  print_slices(contents.tensors, all);
  print_holders(found, all);
  if (contents.meta) print_descriptions(contents.meta->descriptions);
}

}  // namespace

void add_show(Tool& tool) {
  struct Options {
    std::string target, values;
    bool json = false, all = false, graph = false;
  };
  auto options = std::make_shared<Options>();
  auto* command =
      tool.app.add_subcommand("show", "Show a checkpoint's keys, dtypes, shapes, slices and files");
  command->add_option("PREFIX", options->target, "Checkpoint or directory (its newest)")
      ->required();
  command->add_flag("--json", options->json, "Print JSON, with checksums and all slices");
  command->add_flag("--all", options->all,
                    "Print all slices, not 8 of each; with --graph, all objects");
  command->add_flag("--graph", options->graph,
                    "Show a TensorFlow checkpoint's objects, their paths and variables' names");
  auto* values = command->add_option(
      "--values", options->values,
      "Read and check all tensors, or KEY; show minimum, maximum, mean and deviation of finite "
      "elements, counts of NaN, infinite and zero ones; with KEY also a histogram");
  values->expected(0, 1)->type_name("[KEY]");
  command->footer(
      "Without --values only the index and file lengths are read.\n\n"
      "Examples:\n"
      "  cairn show --graph keras/ckpt-3           its objects\n"
      "  cairn show run/ckpt --values              of all tensors\n"
      "  cairn show run/ckpt --values u            of one, with a histogram\n"
      "  cairn show run/ckpt --json | jq '.tensors[].key'");
  command->callback([&tool, options, values] {
    const auto target = tool.at(options->target);
    if (values->count() > 0) {
      const auto damaged = with_checkpoint(target, [&](const Address& prefix, const Still& still) {
        const auto checkpoint = open_checkpoint(prefix, Graph::read);
        return print_values(still, checkpoint, options->values, options->json);
      });
      if (damaged) tool.exit_code = 1;
      return;
    }
    const auto found = with_checkpoint(target, look);
    if (options->json) {
      auto json = json_of(found);
      if (options->graph) json["object_graph"] = graph_json(*found.checkpoint);
      return print_json(json);
    }
    if (options->graph) {
      print_line(found.checkpoint->prefix);
      return print_graph(*found.checkpoint, options->all);
    }
    print(found, options->all);
  });
}

}  // namespace cairn::cli
