#include "group/collectives.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "base/checksum.hpp"
#include "base/error_of.hpp"
#include "base/let_go.hpp"
#include "base/text.hpp"
#include "base/unwinding.hpp"
#include "base/wire.hpp"
#include "group/tree.hpp"

namespace cairn {
namespace {

constexpr std::int64_t no_rank = std::numeric_limits<std::int64_t>::max();

/// An Error as a message.
struct SentError {
  Code code{};
  int rank = -1;
  std::string problem, reason, way_out, path, tensor;
};

// Error has constructors and a composed text, so it cannot travel as it is.
std::string encode(const Error& error) {
  return pack(SentError{error.code(), error.rank(), error.problem(), error.reason(),
                        error.way_out(), error.path(), error.tensor()});
}

Error decode(std::string_view bytes) {
  auto sent = unpack<SentError>(bytes);
  Error error(sent.code, std::move(sent.problem), std::move(sent.reason), std::move(sent.way_out));
  error.on_rank(sent.rank).at(std::move(sent.path)).of_tensor(std::move(sent.tensor));
  return error;
}

/// The result is on rank 0. combine(a, b) joins neighbours in the order of the tree.
std::string reduce_along(Group& group, std::span<const int> nodes, std::string mine,
                         const std::function<std::string(std::string, std::string)>& combine) {
  // The last byte of a message tells whether a rank below has failed. The message must go up
  // nevertheless, or the ranks above would wait for ever.
  std::optional<Error> failure;
  bool failed_below = false;
  const auto place = place_in_tree(group.rank(), group.size(), nodes);
  for (const auto& branch : place.branches) {
    std::string theirs = group.receive(branch.rank);
    if (theirs.empty()) throw Error(Code::internal, "a message between ranks is too short");
    failed_below = failed_below || theirs.back() != 0;
    theirs.pop_back();
    if (failed_below || failure) continue;
    try {
      mine = combine(std::move(mine), std::move(theirs));
    } catch (...) {
      failure = current_error();
    }
  }
  // With a failure below, the strings of this part of the tree are of no use to anybody. Only the
  // last byte goes up.
  if (place.parent >= 0) {
    const bool failed = failed_below || failure;
    if (failed) mine.clear();
    mine.push_back(failed ? 1 : 0);
    group.send(place.parent, mine);
    mine.clear();
  }
  agree(group, failure);
  return mine;
}

std::string append(std::string a, std::string b) { return a += b; }

std::vector<std::string> unframe(std::string_view bytes, int count) {
  WireReader in(bytes);
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) texts.push_back(in.get<std::string>());
  return texts;
}

/// The part of a text in which it differs from another one, with some of the text around it.
std::string shortened(std::string_view text, std::string_view other) {
  constexpr std::size_t longest = 200, before = 60;
  if (text.empty()) return "\"\"";
  if (text.size() <= longest) return std::string(text);
  const auto [at, unused] = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
  const auto differs = static_cast<std::size_t>(at - text.begin());
  auto begin = std::min(differs - std::min(differs, before), text.size() - longest);
  auto end = begin + longest;
  const auto inside = [&](std::size_t i) {  // whether i is inside a character of several bytes
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  while (inside(begin)) ++begin;
  while (inside(end)) --end;
  return cat(begin > 0 ? "…" : "", text.substr(begin, end - begin), end < text.size() ? "…" : "",
             " (", text.size(), " bytes)");
}

/// The texts of rank 0 and of the lowest rank that differs from it, the number of that rank, and
/// how many ranks differ from rank 0.
struct Difference {
  std::string first, second;
  int rank = 0;
  std::int64_t count = 0;
};

// Collective. Returns nothing on all ranks if all have the same text. In this usual case it costs
// one reduction of four numbers, and no text travels.
std::optional<Difference> find_difference(Group& group, std::string_view text) {
  // All x are equal if the minimum of ~x is the complement of the minimum of x. The x are two
  // fingerprints of the text.
  const auto hash = static_cast<std::int64_t>(fnv1a(text));
  const auto check = static_cast<std::int64_t>((std::uint64_t{text.size()} << 32) ^ crc32c(text));
  std::array<std::int64_t, 4> least{hash, ~hash, check, ~check};
  group.all_reduce(least, Group::Op::min);
  if (least[0] == ~least[1] && least[2] == ~least[3]) return std::nullopt;
  Difference found;
  found.first = broadcast_text(group, std::string(text));
  const bool differs = found.first != text;
  found.count = all_reduce(group, differs, Group::Op::sum);
  found.rank =
      static_cast<int>(all_reduce(group, differs ? group.rank() : no_rank, Group::Op::min));
  found.second = broadcast_text(group, std::string(text), found.rank);
  return found;
}

[[noreturn]] void throw_disagreement(const Group& group, const Difference& found,
                                     std::string problem, std::string way_out) {
  throw Error(
      Code::disagreement, std::move(problem),
      found.count > 1 ? cat(found.count, " of ", group.size(), " ranks differ from rank 0") : "",
      std::move(way_out));
}

std::map<std::string, std::string> read_settings(std::string_view bytes) {
  std::map<std::string, std::string> settings;
  for (auto& [name, value] : unpack_each<Setting>(bytes)) settings[name] = std::move(value);
  return settings;
}

}  // namespace

// A communication error is thrown on this rank alone: any further message could hang.
// collective_call() then ends the job.
void agree(Group& group, const std::optional<Error>& mine) {
  if (mine && mine->code() == Code::communication) throw Error(*mine);
  const std::int64_t failing = all_reduce(group, mine ? group.rank() : no_rank, Group::Op::min);
  if (failing == no_rank) return;
  const int root = static_cast<int>(failing);
  std::string bytes;
  if (group.rank() == root) {
    Error error = *mine;
    if (error.rank() < 0) error.on_rank(root);
    bytes = encode(error);
  }
  group.broadcast(bytes, root);
  throw decode(bytes);
}

// Communication errors and Unwinding pass through: the first must end the job, the second is no
// failure.
Error application_error(std::string_view who) {
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() == Code::communication) throw;
    if (who.empty()) return error;
    const auto code = error.code() == Code::busy                 ? Code::application
                      : error.code() == Code::durability_unknown ? Code::io
                                                                 : error.code();
    Error named(code, cat(who, ": ", error.problem()), error.reason(), error.way_out());
    named.at(error.path()).of_tensor(error.tensor()).on_rank(error.rank());
    return named;
  } catch (const std::exception& exception) {
    const auto said = error_of(exception, Code::application);
    if (who.empty()) return Error(Code::application, said.what());
    return Error(Code::application, cat(who, " threw: ", said.what()));
  } catch (const Unwinding&) {
    throw;
  } catch (...) {
    return Error(Code::application,
                 cat(who.empty() ? "the application" : who, " threw what is no std::exception"));
  }
}

std::string reduce_to_root(Group& group, std::string mine,
                           const std::function<std::string(std::string, std::string)>& combine) {
  // combine() joins neighbours by rank. If ranks are dealt to nodes in turn, neighbours in the
  // order of nodes are not neighbours by rank.
  const auto nodes = group.nodes();
  return reduce_along(group, is_in_rank_order(nodes) ? nodes : std::span<const int>(),
                      std::move(mine), combine);
}

std::vector<std::string> gather(Group& group, std::string_view mine) {
  const auto all = reduce_along(group, group.nodes(), pack(mine), append);
  if (group.rank() != 0) return {};
  return to_rank_order(unframe(all, group.size()), group.nodes());
}

std::vector<std::string> all_gather(Group& group, std::string_view mine) {
  auto all = reduce_along(group, group.nodes(), pack(mine), append);
  group.broadcast(all, 0);
  return to_rank_order(unframe(all, group.size()), group.nodes());
}

std::string scatter(Group& group, std::vector<std::string> parts) {
  const int rank = group.rank(), size = group.size();
  std::optional<Error> failure;
  if (rank == 0 && parts.size() != static_cast<std::size_t>(size)) {
    failure.emplace(Code::internal, cat(parts.size(), " parts are scattered to ", size, " ranks"));
  }
  agree(group, failure);
  const auto place = place_in_tree(rank, size, group.nodes());
  // The strings for this rank and those below it.
  std::vector<std::string> held;
  if (rank == 0) {
    held = to_tree_order(std::move(parts), group.nodes());
  } else {
    held = unframe(group.receive(place.parent), place.count);
  }
  // `held` is in the order of the tree, so the last branch takes its end, and what is left is this
  // rank's own.
  for (auto branch = place.branches.rbegin(); branch != place.branches.rend(); ++branch) {
    const auto first = held.size() - static_cast<std::size_t>(branch->count);
    std::string bundle;
    for (std::size_t i = first; i < held.size(); ++i) bundle += pack(held[i]);
    held.resize(first);
    group.send(branch->rank, bundle);
  }
  return std::move(held.front());
}

Messages all_to_all(Group& group, Messages mine) {
  struct Item {
    int from, to;
    std::string bytes;
  };
  const int rank = group.rank(), size = group.size();
  std::vector<Item> held;
  held.reserve(mine.size());
  std::optional<Error> failure;
  for (auto& [to, bytes] : mine) {
    if (to < 0 || to >= size) {
      failure.emplace(Code::internal, cat("a message goes to rank ", to, " of ", size));
      continue;
    }
    held.push_back({rank, to, std::move(bytes)});
  }
  // A message that must go 5 ranks further goes 1 rank further first, and 4 later. So each rank
  // sends one message in each step. Messages between the same two ranks take the same way and keep
  // their order.
  for (int bit = 1; bit < size; bit <<= 1) {
    std::string going;
    std::vector<Item> kept;
    for (auto& item : held) {
      if (((item.to - rank + size) % size & bit) == 0) {
        kept.push_back(std::move(item));
      } else {
        pack_into(going, item);
        let_go(item.bytes);
      }
    }
    held = std::move(kept);
    const int to = (rank + bit) % size, from = (rank - bit + size) % size;
    // exchange() needs a length that both sides know, so lengths travel first.
    const std::uint64_t length = going.size();
    std::uint64_t coming_length = 0;
    const Group::Send tell{to, std::as_bytes(std::span(&length, 1))};
    const Group::Receive hear{from, std::as_writable_bytes(std::span(&coming_length, 1))};
    group.exchange({&tell, 1}, {&hear, 1});
    std::string coming(coming_length, '\0');
    const Group::Send send{to, std::as_bytes(std::span(going))};
    const Group::Receive receive{from, std::as_writable_bytes(std::span(coming))};
    group.exchange({&send, 1}, {&receive, 1});
    let_go(going);
    unpack_into(held, coming);
  }
  agree(group, failure);
  std::stable_sort(held.begin(), held.end(),
                   [](const Item& a, const Item& b) { return a.from < b.from; });
  Messages come;
  come.reserve(held.size());
  for (auto& item : held) come.emplace_back(item.from, std::move(item.bytes));
  return come;
}

std::string from_root(Group& group, const std::function<std::string()>& function) {
  std::string bytes;
  if (group.rank() == 0) {
    try {
      bytes = function();
      // As in reduce_along(), the last byte tells whether the rest is an error. So one broadcast
      // serves both.
      bytes.push_back(0);
    } catch (...) {
      Error error = current_error();
      if (error.rank() < 0) error.on_rank(0);
      bytes = encode(error);
      bytes.push_back(1);
    }
  }
  group.broadcast(bytes, 0);
  if (bytes.empty()) throw Error(Code::internal, "a message between ranks is too short");
  const bool failed = bytes.back() != 0;
  bytes.pop_back();
  if (failed) throw decode(bytes);
  return bytes;
}

std::string broadcast_text(Group& group, std::string text, int root) {
  group.broadcast(text, root);
  return text;
}

std::uint64_t rank_weight(int rank, int ranks) {
  // An odd weight has an inverse modulo 2^64: if only this rank has another number, the sum is
  // never 0.
  if (rank > 0) return mixed_bits(static_cast<std::uint64_t>(rank)) | 1;
  std::uint64_t sum = 0;
  for (int other = 1; other < ranks; ++other) sum -= rank_weight(other, ranks);
  return sum;
}

std::int64_t all_reduce(Group& group, std::int64_t value, Group::Op op) {
  group.all_reduce(std::span(&value, 1), op);
  return value;
}

bool all_of(Group& group, bool mine) { return all_reduce(group, mine, Group::Op::min) != 0; }
bool any_of(Group& group, bool mine) { return all_reduce(group, mine, Group::Op::max) != 0; }

void require_same(Group& group, std::string_view what, std::string_view text) {
  const auto found = find_difference(group, text);
  if (!found) return;
  throw_disagreement(
      group, *found,
      cat("ranks disagree on ", what, ": rank 0 says ", shortened(found->first, found->second),
          ", rank ", found->rank, " says ", shortened(found->second, found->first)),
      "Give the same on all ranks.");
}

void require_same(Group& group, std::string_view what, const std::vector<Setting>& settings) {
  std::string mine;
  for (const auto& setting : settings) pack_into(mine, setting);
  const auto found = find_difference(group, mine);
  if (!found) return;
  constexpr int most_told = 8;
  auto first = read_settings(found->first), second = read_settings(found->second);
  for (const auto& [name, value] : second) first.try_emplace(name, "none");
  std::string list;
  int told = 0;
  for (const auto& [name, value] : first) {
    const auto at = second.find(name);
    const auto& other = at == second.end() ? "none" : at->second;
    if (other == value || told == most_told) continue;
    list += cat(told++ > 0 ? "; " : "", name, " is ", shortened(value, other), " on rank 0 and ",
                shortened(other, value), " on rank ", found->rank);
  }
  throw_disagreement(group, *found, cat("ranks disagree on ", what, ": ", list),
                     cat("Give the same ", what, " on all ranks."));
}

}  // namespace cairn
