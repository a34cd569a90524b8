#include "group/collectives.hpp"

#include <array>
#include <limits>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "group/crash.hpp"

namespace cairn {
namespace {

constexpr std::int64_t no_rank = std::numeric_limits<std::int64_t>::max();

std::string pack(const Error& error) {
  return WireWriter()
      .put(error.code())
      .put(error.rank())
      .put(error.problem())
      .put(error.reason())
      .put(error.way_out())
      .put(error.path())
      .put(error.tensor())
      .take();
}

Error unpack(std::string_view bytes) {
  WireReader in(bytes);
  const auto code = in.get<Code>();
  const auto rank = in.get<int>();
  auto problem = in.get<std::string>(), reason = in.get<std::string>(),
       way_out = in.get<std::string>();
  Error error(code, std::move(problem), std::move(reason), std::move(way_out));
  error.on_rank(rank).at(in.get<std::string>()).of_tensor(in.get<std::string>());
  return error;
}

/// Rank r's part of a binomial tree: it hears from r + 1, r + 2, r + 4, … while those bits are free
/// in r, and reports to r without its lowest bit.
int lowest_bit(int rank, int size) {
  int bit = 1;
  while (bit < size && !(rank & bit)) bit <<= 1;
  return bit;
}

std::string append(std::string a, std::string b) { return a += b; }

std::string framed(std::string_view text) { return WireWriter().put(text).take(); }

std::vector<std::string> unframe(std::string_view bytes, int count) {
  WireReader in(bytes);
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) texts.push_back(in.get<std::string>());
  return texts;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t longest = 200;
  if (text.empty()) return "\"\"";
  if (text.size() <= longest) return std::string(text);
  return cat(text.substr(0, longest), "… (", text.size(), " bytes)");
}

}  // namespace

void agree(Group& group, const std::optional<Error>& mine) {
  if (mine && mine->code() == Code::communication) throw Error(*mine);
  const std::int64_t failing = all_reduce(group, mine ? group.rank() : no_rank, Group::Op::min);
  if (failing == no_rank) return;
  const int root = static_cast<int>(failing);
  std::string bytes;
  if (group.rank() == root) {
    Error error = *mine;
    if (error.rank() < 0) error.on_rank(root);
    bytes = pack(error);
  }
  group.broadcast(bytes, root);
  throw unpack(bytes);
}

Error error_in_flight() {
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() == Code::communication) throw;
    return error;
  } catch (const std::exception& exception) {
    return Error(Code::internal, exception.what());
  } catch (const Crashed&) {
    throw;
  } catch (...) {
    return Error(Code::internal, "an exception of unknown type");
  }
}

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
    if (who.empty()) return Error(Code::application, exception.what());
    return Error(Code::application, cat(who, " threw: ", exception.what()));
  } catch (const Crashed&) {
    throw;
  } catch (...) {
    return Error(Code::application,
                 cat(who.empty() ? "the application" : who, " threw what is no std::exception"));
  }
}

std::string reduce_to_root(Group& group, std::string mine,
                           const std::function<std::string(std::string, std::string)>& combine) {
  // The last byte of a message tells whether a rank below has failed: it must go up nevertheless,
  // or those above would wait for ever.
  std::optional<Error> failure;
  bool failed_below = false;
  const int rank = group.rank(), size = group.size(), top = lowest_bit(rank, size);
  for (int bit = 1; bit < top && rank + bit < size; bit <<= 1) {
    std::string theirs = group.receive(rank + bit);
    if (theirs.empty()) throw Error(Code::internal, "a message between ranks is too short");
    failed_below = failed_below || theirs.back() != 0;
    theirs.pop_back();
    if (failed_below || failure) continue;
    try {
      mine = combine(std::move(mine), std::move(theirs));
    } catch (...) {
      failure = error_in_flight();
    }
  }
  if (rank != 0) {
    const bool failed = failed_below || failure;
    if (failed) mine.clear();
    mine.push_back(failed ? 1 : 0);
    group.send(rank - top, mine);
    mine.clear();
  }
  agree(group, failure);
  return mine;
}

std::vector<std::string> gather(Group& group, std::string_view mine) {
  const std::string all = reduce_to_root(group, framed(mine), append);
  if (group.rank() != 0) return {};
  return unframe(all, group.size());
}

std::vector<std::string> all_gather(Group& group, std::string_view mine) {
  std::string all = reduce_to_root(group, framed(mine), append);
  group.broadcast(all, 0);
  return unframe(all, group.size());
}

std::string scatter(Group& group, std::vector<std::string> parts) {
  const int rank = group.rank(), size = group.size(), top = lowest_bit(rank, size);
  std::optional<Error> failure;
  if (rank == 0 && parts.size() != static_cast<std::size_t>(size)) {
    failure.emplace(Code::internal, cat(parts.size(), " parts are scattered to ", size, " ranks"));
  }
  agree(group, failure);
  // What goes to the ranks rank … rank + top - 1.
  std::vector<std::string> held;
  if (rank == 0) {
    held = std::move(parts);
  } else {
    held = unframe(group.receive(rank - top), std::min(top, size - rank));
  }
  int bit = 1;
  while (bit < top && rank + bit < size) bit <<= 1;
  for (bit >>= 1; bit >= 1; bit >>= 1) {
    std::string bundle;
    for (std::size_t i = static_cast<std::size_t>(bit); i < held.size(); ++i) {
      bundle += framed(held[i]);
    }
    held.resize(static_cast<std::size_t>(bit));
    group.send(rank + bit, bundle);
  }
  return std::move(held.front());
}

std::string from_root(Group& group, const std::function<std::string()>& function) {
  std::string bytes;
  if (group.rank() == 0) {
    try {
      bytes = function();
      bytes.push_back(0);
    } catch (...) {
      Error error = error_in_flight();
      if (error.rank() < 0) error.on_rank(0);
      bytes = pack(error);
      bytes.push_back(1);
    }
  }
  group.broadcast(bytes, 0);
  if (bytes.empty()) throw Error(Code::internal, "a message between ranks is too short");
  const bool failed = bytes.back() != 0;
  bytes.pop_back();
  if (failed) throw unpack(bytes);
  return bytes;
}

std::string broadcast_text(Group& group, std::string text, int root) {
  group.broadcast(text, root);
  return text;
}

std::uint64_t rank_weight(int rank, int ranks) {
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
  // The least of x and of ~x tell whether all x are equal. The rest is two fingerprints of the
  // text.
  const auto hash = static_cast<std::int64_t>(fnv1a(text));
  const auto check = static_cast<std::int64_t>((std::uint64_t{text.size()} << 32) ^ crc32c(text));
  std::array<std::int64_t, 4> least{hash, ~hash, check, ~check};
  group.all_reduce(least, Group::Op::min);
  if (least[0] == ~least[1] && least[2] == ~least[3]) return;

  const std::string first = broadcast_text(group, std::string(text));
  const bool differs = first != text;
  const auto count = all_reduce(group, differs, Group::Op::sum);
  const auto other = all_reduce(group, differs ? group.rank() : no_rank, Group::Op::min);
  const int root = static_cast<int>(other);
  const std::string second = broadcast_text(group, std::string(text), root);
  throw Error(Code::disagreement,
              cat("ranks disagree on ", what, ": rank 0 says ", shortened(first), ", rank ", root,
                  " says ", shortened(second)),
              count > 1 ? cat(count, " of ", group.size(), " ranks differ from rank 0") : "");
}

}  // namespace cairn
