#include "restore/restore.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "group/collectives.hpp"
#include "restore/find_tensor.hpp"
#include "restore/indexed_wants.hpp"
#include "restore/resolve.hpp"
#include "restore/restore_tensors.hpp"

namespace cairn {
namespace {

// What is wanted of the checkpoint.
struct Wanted {
  Wants slices;                             // of this rank
  std::vector<const LocalSlice*> memories;  // of this rank
  std::set<int> strings;                    // indices into contents.tensors, of all ranks
  std::set<int> tensors;                    // all that anybody asked for
  std::set<std::string> kept;               // of all ranks
};

// The three sets, joined on the way to rank 0: each as long as there are tensors, not ranks.
std::string encode_sets(const Wanted& wanted) {
  const auto row = [](const auto& set) { return std::vector(set.begin(), set.end()); };
  return WireWriter()
      .put(row(wanted.strings))
      .put(row(wanted.tensors))
      .put(row(wanted.kept))
      .take();
}

void add_sets(Wanted& wanted, const std::string& message) {
  WireReader reader(message);
  const auto add = [](auto& set, const auto& row) { set.insert(row.begin(), row.end()); };
  add(wanted.strings, reader.get_all<int>());
  add(wanted.tensors, reader.get_all<int>());
  add(wanted.kept, reader.get_all<std::string>());
}

// Collective. `mine` outlives the result.
Wanted gather_wants(const Job& job, const CheckpointContents& contents, const WantedState& mine) {
  Wanted wanted;
  together(*job.group, [&] {
    wanted.kept.insert(mine.kept.begin(), mine.kept.end());
    for (const auto& one : mine.tensors) {
      const auto& tensor = one.tensor;
      std::vector<Box> boxes;
      for (const auto& slice : tensor.slices) boxes.push_back(slice.box);
      wanted.slices.add(
          one.stored, boxes,
          stored_parts(contents.tensors[static_cast<std::size_t>(one.stored)], boxes));
      for (const auto& slice : tensor.slices) wanted.memories.push_back(&slice);
      wanted.tensors.insert(one.stored);
      if (tensor.strings) wanted.strings.insert(one.stored);
    }
  });
  auto all = reduce_to_root(*job.group, encode_sets(wanted), [](std::string low, std::string high) {
    Wanted both;
    add_sets(both, low);
    add_sets(both, high);
    return encode_sets(both);
  });
  job.group->broadcast(all, 0);
  add_sets(wanted, all);
  return wanted;
}

// Collective. Each string tensor is read and decoded by one io rank and told to all.
std::int64_t read_all_strings(const Job& job, const CheckpointContents& contents,
                              const std::set<int>& tensors, const WantedState& mine,
                              std::map<int, std::string>& values) {
  std::int64_t bytes_read = 0;
  const auto readers = job.io_ranks();
  std::size_t turn = 0;
  for (const auto number : tensors) {
    const auto& tensor = contents.tensors[static_cast<std::size_t>(number)];
    const int reader = readers[turn++ % readers.size()];
    std::string message;
    together(*job.group, [&] {
      if (job.rank() != reader) return;
      message = WireWriter().put(read_strings(*job.files, contents, tensor)).take();
      for (const auto& slice : tensor.slices) bytes_read += slice.size;
    });
    job.group->broadcast(message, reader);
    const bool wanted = std::any_of(mine.tensors.begin(), mine.tensors.end(), [&](const auto& one) {
      return one.stored == number && one.tensor.strings;
    });
    if (wanted) values[number] = std::move(message);
  }
  return bytes_read;
}

}  // namespace

RestoreReport restore_state(const Job& job, const CheckpointContents& contents, State& state,
                            const RestoreOptions& options, const RestoreExtras& extras) {
  const TensorFinder finder(contents);
  const Look look(state);
  auto mine = resolve(*job.group, contents, finder, look, options, job.row_plans.get());
  const auto wanted = gather_wants(job, contents, mine);
  RestoreReport report;
  report.prefix = contents.prefix;
  if (contents.meta) report.step = contents.meta->step;
  std::int64_t bytes = 0;
  if (job.options.verify_first) {
    bytes += restore_tensors(job, contents, wanted.slices, {}, false, options.direct_io);
  }
  std::map<int, std::string> strings;
  bytes += read_all_strings(job, contents, wanted.strings, mine, strings);
  // From here on the application's memory changes.
  if (extras.touched) {
    for (const auto& [key, tensor] : state.tensors()) {
      if (!wanted.kept.count(key)) extras.touched->keys.insert(key);
    }
  }
  together(*job.group, [&] {
    for (auto& one : mine.tensors) {
      if (one.make_room) one.make_room(one.tensor);
    }
    for (const auto& one : mine.tensors) {
      if (!one.tensor.strings) continue;
      one.tensor.strings->set(WireReader(strings.at(one.stored)).get_all<std::string>());
    }
  });
  bytes += restore_tensors(job, contents, wanted.slices, wanted.memories, true, options.direct_io);
  if (mine.indexed) mine.indexed->deliver(*job.group);
  job.group->all_reduce({&bytes, 1}, Group::Op::sum);
  report.bytes_read = bytes;
  if (extras.savers) restore_savers(job, contents, extras.touched);
  std::set<std::string> of_savers;
  for (const auto& saver : job.options.hooks.savers) {
    if (!contents.meta || !contents.meta->savers.count(saver.name)) continue;
    const auto& keys = contents.meta->savers.at(saver.name);
    of_savers.insert(keys.begin(), keys.end());
  }
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    if (of_savers.count(contents.tensors[t].key)) continue;
    if (!wanted.tensors.count(static_cast<int>(t)) && !finder.is_bookkeeping(contents.tensors[t])) {
      report.unused_keys.push_back(contents.tensors[t].key);
    }
  }
  report.kept_keys.assign(wanted.kept.begin(), wanted.kept.end());
  return report;
}

}  // namespace cairn
