// Registered savers write bundles of their own. Their data files become files of this checkpoint,
// and their entries go into its index; their indexes are not kept.
#include "session/save/savers.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/format.hpp"

namespace cairn {
namespace {

// A bundle that this rank's saver has written.
struct Bundle {
  std::size_t saver;
  CheckpointContents contents;
};

Error of_saver(const RegisteredSaver& saver, std::string problem, std::string reason) {
  return Error(Code::invalid_argument, cat("saver '", saver.name, "': ", problem),
               std::move(reason),
               "A saver returns the prefixes of the bundles that it wrote under the prefix which "
               "it was given.");
}

std::string whose(const RegisteredSaver& saver) { return cat("saver '", saver.name, "'"); }

Bundle open_bundle(const Job& job, std::size_t number, const std::string& given,
                   const std::string& returned) {
  const auto& saver = job.options.hooks.savers[number];
  // A saver returns names directly under its prefix: other files do not belong to this save.
  if (!returned.starts_with(given) || returned.find('/', given.size()) != returned.npos) {
    throw of_saver(saver, cat("it returned ", returned), cat("it was given ", given));
  }
  try {
    Bundle bundle{number, read_contents(*job.files, returned)};
    if (!format_of(bundle.contents.format).has_data_files()) {
      throw Error(Code::invalid_argument, "it is one file, which has no data files to link");
    }
    for (const auto& tensor : bundle.contents.tensors) {
      if (!tensor.problem.empty()) throw Error(Code::data_loss, tensor.problem);
    }
    if (bundle.contents.big_endian) throw Error(Code::unsupported, "it is big-endian");
    return bundle;
  } catch (const Error& error) {
    // An error of the storage is not the saver's fault.
    if (error.code() == Code::io || error.code() == Code::no_space ||
        error.code() == Code::unavailable) {
      throw Error(error.code(), cat(whose(saver), ": ", returned, " cannot be read"), error.what(),
                  error.way_out())
          .at(error.path());
    }
    throw of_saver(saver, cat(returned, " is no readable bundle"), error.what());
  }
}

// What a saver's bundles hold.
struct Held {
  std::size_t saver;
  std::string prefix;
  std::vector<std::string> whole, sliced;  // keys
};

// On all ranks: what all ranks' savers have written.
struct Told {
  std::vector<Held> bundles;
  std::vector<int> files;     // by rank: data files
  std::vector<bool> records;  // by rank: whether it leaves a part record
};

// Collective. Every rank gets the keys of all bundles, to check them and to name them in the
// metadata.
Told tell(Group& group, const std::vector<Bundle>& mine, int files, bool record) {
  struct OfRank {
    int files = 0;
    bool record = false;
    std::vector<Held> bundles;
  };
  OfRank said{files, record, {}};
  for (const auto& [saver, contents] : mine) {
    auto& held = said.bundles.emplace_back(Held{saver, contents.prefix, {}, {}});
    for (const auto& tensor : contents.tensors) {
      (tensor.sliced ? held.sliced : held.whole).push_back(tensor.key);
    }
  }
  Told told;
  for (const auto& text : all_gather(group, pack(said))) {
    auto one = unpack<OfRank>(text);
    told.files.push_back(one.files);
    told.records.push_back(one.record);
    std::move(one.bundles.begin(), one.bundles.end(), std::back_inserter(told.bundles));
  }
  return told;
}

// Local. Checks the savers' keys against this rank's state.
void require_new(const std::vector<RegisteredSaver>& savers, const std::vector<Held>& all,
                 const RefreshedState& state) {
  std::map<std::string, const Held*> whole, any;
  std::set<std::string> prefixes;
  for (const auto& held : all) {
    const auto& saver = savers[held.saver];
    if (!prefixes.insert(held.prefix).second) {
      throw of_saver(saver, cat(held.prefix, " was returned twice"), "one rank returns a bundle");
    }
    const auto check = [&](const std::string& key, bool is_whole) {
      const auto other = any.find(key);
      if (state.find(key)) {
        throw of_saver(saver, cat("tensor '", key, "' is in the state, too"), "").of_tensor(key);
      }
      if (other != any.end() && (is_whole || whole.count(key))) {
        throw of_saver(saver, cat("tensor '", key, "' was saved twice"),
                       cat("by saver '", savers[other->second->saver].name, "'"))
            .of_tensor(key);
      }
      any[key] = &held;
      if (is_whole) whole[key] = &held;
    };
    for (const auto& key : held.whole) check(key, true);
    for (const auto& key : held.sliced) check(key, false);
  }
}

// Collective. Checks that the slices of each tensor, from all bundles together, cover it.
void require_complete(Group& group, const std::vector<Bundle>& mine, const CheckpointMeta& meta) {
  std::vector<StoredTensor> sliced;
  for (const auto& bundle : mine) {
    for (const auto& tensor : bundle.contents.tensors) {
      if (tensor.sliced) sliced.push_back(tensor);
    }
  }
  if (!any_of(group, !sliced.empty())) return;
  try {
    // The merge proves coverage; its result is not needed here.
    merge_entries(group, std::move(sliced), true);
  } catch (const Error& error) {
    if (error.code() != Code::internal || error.tensor().empty()) throw;
    std::string names;
    for (const auto& [saver, keys] : meta.savers) {
      if (keys.count(error.tensor())) names += cat(names.empty() ? "'" : ", '", saver, "'");
    }
    throw Error(Code::invalid_argument,
                cat("saver ", names, ": tensor '", error.tensor(), "' is not whole"),
                error.problem(),
                "The slices that all ranks' bundles have of a tensor must be of one dtype and "
                "shape, cover it and not overlap.")
        .of_tensor(error.tensor());
  }
}

// Takes the data files of this rank's bundles under their new numbers in the save. Returns their
// entries.
std::vector<StoredTensor> adopt(const std::vector<Bundle>& bundles, int first_file,
                                const Draft& draft) {
  std::vector<StoredTensor> entries;
  int next = first_file;
  for (const auto& [saver, contents] : bundles) {
    // Old file number → new one. A file that no slice uses is left behind.
    std::map<std::int32_t, std::int32_t> number;
    for (auto tensor : contents.tensors) {
      for (auto& slice : tensor.slices) {
        const auto [at, is_new] = number.emplace(slice.file, next);
        if (is_new) {
          draft.adopt(data_path(contents, slice.file), next++);
        }
        slice.file = at->second;
      }
      entries.push_back(std::move(tensor));
    }
  }
  return entries;
}

int files_of(const std::vector<Bundle>& bundles) {
  std::set<std::pair<std::size_t, std::int32_t>> files;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    for (const auto& tensor : bundles[i].contents.tensors) {
      for (const auto& slice : tensor.slices) files.emplace(i, slice.file);
    }
  }
  return static_cast<int>(files.size());
}

}  // namespace

// Calls the savers one after the other, checks all bundles together, and numbers their files behind
// those of the save.
std::vector<StoredTensor> run_savers(const Job& job, const RefreshedState& state, Draft& draft,
                                     FileLayout& layout, CheckpointMeta& meta) {
  Group& group = *job.group;
  const auto& savers = job.options.hooks.savers;
  if (savers.empty()) return {};
  std::vector<Bundle> mine;
  for (std::size_t i = 0; i < savers.size(); ++i) {
    const auto prefix = draft.saver_prefix(static_cast<int>(i)).string();
    const auto returned = run_and_agree(group, [&] {
      return call_user_code(whose(savers[i]), [&] { return savers[i].save(prefix); });
    });
    // Bundles are opened only now, when every rank has written its own.
    run_and_agree(group, [&] {
      for (const auto& one : returned) mine.push_back(open_bundle(job, i, prefix, one));
    });
  }
  const auto told = tell(group, mine, files_of(mine), layout.writer >= 0 || !mine.empty());
  run_and_agree(group, [&] { require_new(savers, told.bundles, state); });
  for (const auto& saver : savers) meta.savers[saver.name];
  for (const auto& held : told.bundles) {
    auto& keys = meta.savers[savers[held.saver].name];
    keys.insert(held.whole.begin(), held.whole.end());
    keys.insert(held.sliced.begin(), held.sliced.end());
  }
  require_complete(group, mine, meta);
  int first = 0;
  // Files and writers are numbered anew: ranks that had nothing to write may have a saver's bundle.
  layout.writers = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    const bool leaves_record = told.records[static_cast<std::size_t>(rank)];
    if (rank == group.rank()) {
      first = layout.data_files;
      layout.writer = leaves_record ? layout.writers : -1;
    }
    layout.data_files += told.files[static_cast<std::size_t>(rank)];
    layout.writers += leaves_record;
  }
  draft.set_num_files(
      std::stoi(from_root(group, [&] { return cat(draft.count_with(layout.data_files)); })));
  return run_and_agree(group, [&] { return adopt(mine, first, draft); });
}

}  // namespace cairn
