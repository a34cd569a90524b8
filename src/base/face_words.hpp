#pragma once
/// The library's errors use the names of the C++ interface. Programs in other languages get the
/// names of their own interface (their *face*): from a table, from one rule for options, whose
/// names are the same in all languages, and from one for shapes and boxes, which Fortran writes in
/// another order and counts from 1. Only the C interface and Python's module translate; the library
/// itself has one text for each error.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace cairn {

enum class Face { cpp, c, fortran, python };

namespace face_words {

/// In the order of Face. An empty word: this face has no such name, and the text keeps that of C++.
using Word = std::array<std::string_view, 4>;

/// A text is compared with the entries in this order. So a name comes before one that is its
/// beginning, such as "cairn::mpi()" before "cairn::mpi".
inline constexpr std::array<Word, 31> table{{
    {"Give several slices of one tensor with patches()", "", "",
     "Give each value a key of its own: a '/' in a key makes the path that a dict in a dict makes, "
     "and 1 and '1' are one key"},
    {"give cairn::rank_private a deal, make it optional",
     "give cairn_state_add_private() a deal or `optional`",
     "give state%add_private() optional_=.true.", "give cairn.private optional=True"},
    {"cairn::ragged", "cairn_state_add_ragged()", "state%add_rows()", "cairn.ragged"},
    {"cairn::rank_private", "cairn_state_add_private()", "state%add_private()", "cairn.private"},
    {"cairn::indexed()", "cairn_state_add_indexed()", "state%add_indexed()", "cairn.indexed()"},
    {"cairn::ids()", "cairn_ids", "ids=", "cairn.indexed()"},
    {"cairn::sparse", "cairn_state_add_sparse()", "state%add_sparse()", "cairn.sparse"},
    {"cairn::resizable", "cairn_state_add_resizable()", "state%add_resizable()", "cairn.resizable"},
    {"cairn::strings", "cairn_state_add_strings()", "state%add()", "a list of texts"},
    {"cairn::mpi()", "cairn_group_mpi()", "a communicator of MPI", "a communicator of mpi4py"},
    {"patches()", "cairn_state_add_patches()", "state%add_patch()", "cairn.patches"},
    {"whole()", "cairn_state_add_whole()", "state%add()", "the whole array"},
    {"nothing(dtype, shape)", "", "", "cairn.nothing(dtype, shape)"},
    {"restore_hdf5", "", "", "h5py"},
    {"A text is given as a string, not as Json",
     "A text has its double quotes in it: \"\\\"hello\\\"\"",
     "A text has its double quotes in it: '\"hello\"'", "A text is given as a str"},
    {"not as Json", "not as JSON", "not as JSON", "not as JSON"},
    {"steps()", "cairn_manager_steps()", "manager%steps()", "steps()"},
    {"restore(step)", "cairn_manager_restore()", "manager%restore()", "restore(step)"},
    {"cairn::mpi", "cairn_group_mpi()", "cairn_group_mpi()", "a communicator"},
    {"CheckpointManager::", "cairn_manager_", "manager%", "manager."},
    {"a CheckpointManager", "a cairn_manager", "a cairn_manager", "a CheckpointManager"},
    {"Description::units", "cairn_state_units()", "state%units()", "units="},
    {"Description::dimensions", "cairn_state_dimensions()", "cairn_state_dimensions()",
     "dimensions="},
    {"Hooks::migrate", "cairn_options_migrate()", "", "hooks.migrate"},
    {"Description::coordinates", "", "", "coordinates="},
    {"the manager is NULL", "the manager is NULL", "the manager is not open: call open()", ""},
    {"the group is NULL", "the group is NULL",
     "the group has no ranks: call serial() or cairn_group_mpi()", ""},
    {"the vector is NULL", "the vector is NULL", "the rows are not begun: call init()", ""},
    {"the stop request is NULL", "the stop request is NULL",
     "the stop request is not begun: call init()", ""},
    {"the name of an option is NULL", "the name of an option is NULL",
     "a value of an option has no name", ""},
    {"the value of an option is NULL", "the value of an option is NULL",
     "a name of an option has no value", ""},
}};

/// How a face orders and counts the elements of an array, in the order of Face.
struct Order {
  bool slowest_first;
  std::int64_t first;
};
inline constexpr std::array<Order, 4> orders{{{true, 0}, {true, 0}, {false, 1}, {true, 0}}};

/// Types whose members an error may name, each with the prefix of its members among the options in
/// text form. Enumerations have no prefix: the name of the value is used alone.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 30> types{{
    {"ManagerOptions", ""},
    {"CheckpointOptions", ""},
    {"ShardedOptions", ""},
    {"SaveOptions", ""},
    {"RestoreOptions", ""},
    {"RedistributeOptions", ""},
    {"IteratorOptions", ""},
    {"StopOptions", ""},
    {"IdOptions", ""},
    {"PrivateOptions", ""},
    {"MergeOptions", ""},
    {"WaitLimits", ""},
    {"RestartOptions", "restore."},
    {"StoreOptions", "store."},
    {"ReplicaOptions", "store.replicas."},
    {"XdmfOptions", "store.xdmf."},
    {"WriteOptions", "write."},
    {"MpiIoOptions", "write.mpi_io."},
    {"IoRanks", "write.io_ranks."},
    {"Retention", "keep."},
    {"FrozenOptions", "frozen."},
    {"WhenOptions", "when."},
    {"AsyncOptions", "async."},
    {"TierOptions", "tier."},
    {"Writer", ""},
    {"Reach", ""},
    {"Conversion", ""},
    {"Storage", ""},
    {"Format", ""},
    {"Unused", ""},
}};

inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == ':' || c == '%';
}

/// Finds "Type::member" at the beginning of the text. Returns its length and its name in other
/// faces; a length of 0: the text does not begin with one.
inline std::pair<std::size_t, std::string> member_of_type(std::string_view text) {
  for (const auto& [type, prefix] : types) {
    if (!text.starts_with(type) || !text.substr(type.size()).starts_with("::")) continue;
    const auto begin = type.size() + 2;
    auto end = begin;
    while (end < text.size() && (is_letter(text[end]) && text[end] != ':')) ++end;
    // Before a bracket it is a function, and no option.
    if (end == begin || text.substr(end).starts_with("(")) return {};
    return {end, cat("'", prefix, text.substr(begin, end - begin), "'")};
  }
  return {};
}

using Numbers = std::vector<std::int64_t>;

/// Takes a number from the beginning of the text. Returns false if there is none.
inline bool take_number(std::string_view& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}
inline bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

/// The length of a shape as shape_text() writes it, at the beginning of the text; 0: there is none.
inline std::size_t shape_at(std::string_view text, Numbers& numbers) {
  auto rest = text;
  if (!take(rest, "[")) return 0;
  do {
    if (!take_number(rest, numbers.emplace_back())) return 0;
  } while (take(rest, " "));
  return take(rest, "]") ? text.size() - rest.size() : 0;
}

/// The same for box_text(); gives the first and the last index of each dimension.
inline std::size_t box_at(std::string_view text, Numbers& first, Numbers& last) {
  auto rest = text;
  if (!take(rest, "rows ")) return 0;
  do {
    if (!take_number(rest, first.emplace_back()) || !take(rest, "..") ||
        !take_number(rest, last.emplace_back())) {
      return 0;
    }
  } while (take(rest, " × "));
  return text.size() - rest.size();
}

/// Rewrites a shape, an index or a box at the beginning of the text in Fortran's order, a box like
/// an array section. `before` is the text in front of it. Returns the length that it had in `text`;
/// 0: there is none.
inline std::pair<std::size_t, std::string> in_fortrans_order(std::string_view text,
                                                             std::string_view before) {
  constexpr auto add = orders[static_cast<std::size_t>(Face::fortran)].first;
  // Counts from 1 what C++ counts from 0. A number at the end of its range stays as it is.
  const auto said = [](std::int64_t number, bool counts) {
    std::int64_t counted = 0;
    if (!counts || __builtin_add_overflow(number, add, &counted)) counted = number;
    return cat(counted);
  };
  Numbers first, last;
  std::string out;
  if (const auto length = box_at(text, first, last)) {
    for (auto d = first.size(); d-- > 0;) {
      out += cat(out.empty() ? "elements (" : ", ", said(first[d], true), ":", said(last[d], true));
    }
    return {length, out + ")"};
  }
  first.clear();
  const auto length = shape_at(text, first);
  if (length == 0) return {};
  // Only an index counts from 1. Extents, offsets and strides are distances and stay.
  const bool is_index = before.ends_with(" start ") || before.ends_with(" at ");
  for (auto d = first.size(); d-- > 0;) {
    out += cat(out.empty() ? "[" : " ", said(first[d], is_index));
  }
  return {length, out + "]"};
}

}  // namespace face_words

/// Translates a text of the library, or of the face `from`, to another face. Quoted parts, such as
/// keys, stay as they are.
inline std::string in_words_of(Face to, std::string_view text, Face from = Face::cpp) {
  const auto of = [](const face_words::Word& word, Face face) {
    return word[static_cast<std::size_t>(face)];
  };
  const auto order_of = [](Face face) {
    return face_words::orders[static_cast<std::size_t>(face)].slowest_first;
  };
  const bool reorders = order_of(from) && !order_of(to);
  std::string out;
  // At each place: a quotation is copied, a name of the table or an option is translated, a shape
  // or a box is reordered, and otherwise one character is copied.
  for (std::size_t at = 0; at < text.size();) {
    const auto rest = text.substr(at);
    // A name is one only at the beginning of a word.
    const bool begins = at == 0 || !face_words::is_letter(text[at - 1]);
    // A quotation begins with a quote after a blank or a bracket, and ends with the next quote.
    if (rest[0] == '\'' && begins && (at == 0 || text[at - 1] == ' ' || text[at - 1] == '(')) {
      const auto length = std::min(rest.find('\'', 1), rest.size() - 1) + 1;
      out += rest.substr(0, length);
      at += length;
      continue;
    }
    const auto* found = std::find_if(
        face_words::table.begin(), face_words::table.end(), [&](const face_words::Word& word) {
          const auto ours = of(word, from);
          return begins && !ours.empty() && !of(word, to).empty() && rest.starts_with(ours);
        });
    if (found != face_words::table.end()) {
      out += of(*found, to);
      at += of(*found, from).size();
      continue;
    }
    std::pair<std::size_t, std::string> other;
    if (begins) other = face_words::member_of_type(rest);
    if (begins && other.first == 0 && reorders) {
      other = face_words::in_fortrans_order(rest, text.substr(0, at));
    }
    if (other.first > 0) {
      out += other.second;
      at += other.first;
    } else {
      out += text[at++];
    }
  }
  return out;
}

}  // namespace cairn
