#include "checkpoint/restore.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "checkpoint/find_tensor.hpp"
#include "checkpoint/messages.hpp"
#include "checkpoint/restore_tensors.hpp"
#include "group/collectives.hpp"

namespace cairn {
namespace {

int index_of(const CheckpointContents& contents, const StoredTensor& tensor) {
  return static_cast<int>(&tensor - contents.tensors.data());
}

// The stored tensor that a local one is filled from, after every check that needs no data.
const StoredTensor& match(const CheckpointContents& contents, const TensorFinder& finder,
                          const std::string& key, std::string_view name,
                          const LocalTensor& tensor) {
  const auto* stored = finder.find(key, name);
  if (!stored) {
    throw Error(
        Code::not_found, cat("tensor '", key, "' is not in the checkpoint ", contents.prefix),
        contents.graph ? "the state wants it, and no key, path or variable's name is so"
                       : "the state wants it",
        "Leave it out of the state, or restore a checkpoint that has it.")
        .of_tensor(key);
  }
  if (!stored->problem.empty()) {
    throw Error(Code::data_loss, cat("tensor '", key, "' cannot be read"), stored->problem,
                "Restore an older checkpoint.")
        .at(contents.prefix)
        .of_tensor(key);
  }
  if (stored->dtype != tensor.dtype || stored->shape != tensor.shape) {
    throw Error(Code::invalid_argument,
                cat("tensor '", key, "' is ", dtype_name(stored->dtype), " ",
                    shape_text(stored->shape), " in the checkpoint ", contents.prefix, " and ",
                    dtype_name(tensor.dtype), " ", shape_text(tensor.shape), " in the state"),
                "a restore changes neither", "Give the state the checkpoint's dtype and shape.")
        .of_tensor(key);
  }
  for (const auto& slice : tensor.slices) {
    if (!slice.memory->writable()) {
      throw Error(Code::invalid_argument, cat("the memory of tensor '", key, "' is const"),
                  "it was given for saving only", "Restore into memory that may be written.")
          .of_tensor(key);
    }
  }
  return *stored;
}

// What all ranks want of the checkpoint.
struct Wanted {
  std::vector<Want> slices;
  std::vector<const LocalSlice*> memories;  // of this rank
  std::set<int> strings;                    // indices into contents.tensors, of all ranks
  std::multimap<int, StringMemory*> string_memories;  // of this rank, by the same
  std::set<int> tensors;                    // all that anybody asked for
};

Wanted gather_wants(const Job& job, const CheckpointContents& contents, const TensorFinder& finder,
                    const State& state) {
  Wanted wanted;
  WireWriter mine;
  together(*job.group, [&] {
    const auto& names = state.objects().names;
    for (const auto& [key, tensor] : state.tensors()) {
      const auto name = names.find(key);
      const auto& stored =
          match(contents, finder, key, name == names.end() ? "" : name->second, tensor);
      if (tensor.strings) {
        wanted.string_memories.emplace(index_of(contents, stored), tensor.strings.get());
      }
      std::vector<Box> boxes;
      for (const auto& slice : tensor.slices) boxes.push_back(slice.box);
      require_stored(stored, boxes);
      mine.put(index_of(contents, stored)).put(tensor.strings != nullptr);
      mine.put(std::uint64_t{boxes.size()});
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        put(mine, boxes[i]);
        wanted.memories.push_back(&tensor.slices[i]);
      }
    }
  });
  const auto all = all_gather(*job.group, mine.take());
  for (int rank = 0; rank < job.group->size(); ++rank) {
    int id = 0;
    for (WireReader reader(all[static_cast<std::size_t>(rank)]); !reader.empty();) {
      const auto tensor = reader.get<int>();
      wanted.tensors.insert(tensor);
      if (reader.get<bool>()) wanted.strings.insert(tensor);
      for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
        wanted.slices.push_back({tensor, get_box(reader), rank, id++});
      }
    }
  }
  return wanted;
}

// Collective. Each string tensor is read and decoded by one rank and told to all.
std::int64_t restore_strings(const Job& job, const CheckpointContents& contents,
                             const Wanted& wanted) {
  std::int64_t bytes_read = 0;
  int turn = 0;
  std::vector<std::pair<int, std::vector<std::string>>> values;
  for (const auto number : wanted.strings) {
    const auto& tensor = contents.tensors[static_cast<std::size_t>(number)];
    const int reader = turn++ % job.group->size();
    std::string message;
    together(*job.group, [&] {
      if (job.rank() != reader) return;
      message = WireWriter().put(read_strings(*job.files, contents, tensor)).take();
      for (const auto& slice : tensor.slices) bytes_read += slice.size;
    });
    job.group->broadcast(message, reader);
    if (wanted.string_memories.count(number)) {
      values.emplace_back(number, WireReader(message).get_all<std::string>());
    }
  }
  together(*job.group, [&] {
    for (const auto& [number, strings] : values) {
      const auto [begin, end] = wanted.string_memories.equal_range(number);
      for (auto memory = begin; memory != end; ++memory) memory->second->set(strings);
    }
  });
  return bytes_read;
}

}  // namespace

CheckpointContents tell_contents(const Job& job, const io::Path& prefix) {
  const auto message =
      from_root(*job.group, [&] { return encode(load_index(*job.files, prefix, Graph::read)); });
  return together(*job.group, [&] { return parse_contents(decode_index_file(message), prefix); });
}

RestoreReport restore_state(const Job& job, const CheckpointContents& contents, State& state) {
  const TensorFinder finder(contents);
  const auto wanted = gather_wants(job, contents, finder, state);
  RestoreReport report;
  report.prefix = contents.prefix;
  if (contents.meta) report.step = contents.meta->step;
  std::int64_t bytes = 0;
  if (job.options.verify_first) {
    bytes += restore_tensors(job, contents, wanted.slices, wanted.memories, false);
  }
  bytes += restore_strings(job, contents, wanted);
  bytes += restore_tensors(job, contents, wanted.slices, wanted.memories, true);
  job.group->all_reduce({&bytes, 1}, Group::Op::sum);
  report.bytes_read = bytes;
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    if (!wanted.tensors.count(static_cast<int>(t)) && !finder.is_bookkeeping(contents.tensors[t])) {
      report.unused_keys.push_back(contents.tensors[t].key);
    }
  }
  return report;
}

}  // namespace cairn
