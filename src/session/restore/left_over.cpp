// Keys that a restore leaves unused, and how messages show many keys.
#include "session/restore/left_over.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "model/state_maker.hpp"

namespace cairn {
namespace {

enum Mark : char { is_wanted = 1, is_asked = 2, is_apart = 4 };

// Sets `mark` for the stored tensors below these paths. `keys` is sorted.
void mark_below(const std::vector<std::string>& keys, const std::vector<std::string>& paths,
                Mark mark, std::string& marks) {
  for (const auto& path : paths) {
    const auto front = path + '/';
    const auto begin = std::lower_bound(keys.begin(), keys.end(), front);
    for (auto at = begin; at != keys.end() && at->starts_with(front); ++at) {
      auto& one = marks[static_cast<std::size_t>(at - keys.begin())];
      one = static_cast<char>(one | mark);
    }
  }
}

// Marks are bits, one byte a tensor, so that the messages of ranks are joined by an "or".
std::string both(std::string low, const std::string& high) {
  for (std::size_t i = 0; i < low.size() && i < high.size(); ++i) {
    low[i] = static_cast<char>(low[i] | high[i]);
  }
  return low;
}

std::set<std::string_view> keys_of_savers(const CheckpointContents& contents) {
  std::set<std::string_view> all;
  if (!contents.meta) return all;
  for (const auto& [name, keys] : contents.meta->savers) all.insert(keys.begin(), keys.end());
  return all;
}

[[noreturn]] void refuse(const CheckpointContents& contents,
                         const std::vector<std::string>& names) {
  throw Error(
      Code::invalid_argument,
      cat("the state has no place for ", some_of(names, 10), " of the checkpoint ",
          contents.prefix),
      "it has others of the same dict, list or module, and is to be what was saved",
      "Give it all entries that were saved. Single ones are restored under their whole keys "
      "at the top of the state. With RestoreOptions::unused = Unused::warn the others stay behind.")
      .of_tensor(names.front());
}

}  // namespace

void refuse_left_over(Group& group, const CheckpointContents& contents, const TensorFinder& finder,
                      const detail::StateMaker* maker, const std::set<std::string_view>& wanted) {
  std::vector<std::string> names;  // ascending, as programs would write them
  std::string marks(contents.tensors.size(), '\0');
  for (const auto& tensor : contents.tensors) names.push_back(shown_name(tensor.key));
  // The marks follow the names' order, which differs from that of the keys.
  std::vector<std::size_t> order(names.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return names[a] < names[b]; });
  std::sort(names.begin(), names.end());
  if (maker) {
    mark_below(names, maker->whole, is_asked, marks);
    mark_below(names, maker->apart, is_apart, marks);
  }
  const auto of_savers = keys_of_savers(contents);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& tensor = contents.tensors[order[i]];
    if (wanted.count(tensor.key) || of_savers.count(tensor.key) || finder.is_bookkeeping(tensor)) {
      marks[i] = static_cast<char>(marks[i] | is_wanted);
    }
  }
  auto all = reduce_to_root(group, std::move(marks), both);
  group.broadcast(all, 0);
  std::vector<std::string> left;
  for (std::size_t i = 0; i < names.size() && i < all.size(); ++i) {
    // Some maker wants it as a part of a whole, no rank wants it itself, and it is not apart.
    if (all[i] == is_asked) left.push_back(names[i]);
  }
  if (!left.empty()) refuse(contents, left);
}

namespace {

// Groups many keys by the first part of their paths, the largest group first, for instance
// "optimizer/* (74), step".
std::string by_groups(const std::vector<std::string>& keys, std::size_t most) {
  std::map<std::string, std::size_t> counts;
  for (const auto& key : keys) {
    const auto name = shown_name(key);
    const auto end = name.find('/');
    ++counts[end == name.npos ? name : name.substr(0, end) + "/*"];
  }
  std::vector<std::pair<std::string, std::size_t>> groups(counts.begin(), counts.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string list;
  std::size_t told = 0;
  for (std::size_t i = 0; i < std::min(groups.size(), most); ++i) {
    const auto& [name, count] = groups[i];
    list += cat(i > 0 ? ", '" : "'", name, "'", count > 1 ? cat(" (", count, ")") : "");
    told += count;
  }
  return told == keys.size() ? list : cat(list, " and ", keys.size() - told, " more");
}

}  // namespace

std::string some_of(const std::vector<std::string>& keys, std::size_t most) {
  std::string list;
  for (std::size_t i = 0; i < std::min(keys.size(), most); ++i) {
    list += cat(i > 0 ? ", '" : "'", shown_name(keys[i]), "'");
  }
  if (keys.size() > most) list += cat(" and ", keys.size() - most, " more");
  return list;
}

std::string groups_of(const std::vector<std::string>& keys) {
  constexpr std::size_t most = 5;
  return keys.size() > most ? by_groups(keys, most) : some_of(keys, most);
}

void require_all_used(const RestoreOptions& options, const std::string& where,
                      const std::vector<std::string>& unused_keys) {
  if (options.unused != Unused::error || unused_keys.empty()) return;
  throw Error(Code::invalid_argument,
              cat("the state does not want ", some_of(unused_keys, 10), " of ", where),
              "RestoreOptions::unused is 'error'",
              "Add these keys to the state, or allow it: RestoreOptions::unused = Unused::warn.")
      .of_tensor(unused_keys.front());
}

std::set<std::string> touched_keys(const State& state, const std::set<std::string>& kept) {
  std::set<std::string> touched;
  const auto& maker = state.maker();
  for (const auto& [key, tensor] : state.tensors()) {
    if (!kept.count(key) && !(maker && maker->own.count(key))) touched.insert(key);
  }
  return touched;
}

}  // namespace cairn
