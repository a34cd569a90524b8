#pragma once
/// The library's errors name what a program in C++ writes. Programs in other languages get the
/// words of their own face: one table, and one rule for options, whose names are alike in all of
/// them.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

enum class Face { cpp, c, fortran, python };

namespace face_words {

/// In the order of Face. An empty word: that face has none, and C++'s stays.
using Word = std::array<std::string_view, 4>;

inline constexpr std::array<Word, 15> table{{
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
    {"not as Json", "not as JSON", "not as JSON", "not as JSON"},
    {"CheckpointManager::", "cairn_manager_", "manager%", "manager."},
    {"a CheckpointManager", "a cairn_manager", "a cairn_manager", "a CheckpointManager"},
}};

/// Types whose members a text may name, and where these are among the options in their text form.
/// Of values of enumerations the value is all that there is.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 25> types{{
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
    {"StoreOptions", "store."},
    {"ReplicaOptions", "store.replicas."},
    {"XdmfOptions", "store.xdmf."},
    {"WriteOptions", "write."},
    {"MpiIoOptions", "write.mpi_io."},
    {"IoRanks", "write.io_ranks."},
    {"Retention", "keep."},
    {"WhenOptions", "when."},
    {"AsyncOptions", "async."},
    {"TierOptions", "tier."},
    {"Writer", ""},
    {"Reach", ""},
    {"Conversion", ""},
    {"Storage", ""},
    {"Format", ""},
}};

inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == ':' || c == '%';
}

/// "Type::member" at the beginning: how long it is, and what it is called elsewhere. 0: it is none.
inline std::pair<std::size_t, std::string> member_of_type(std::string_view text) {
  for (const auto& [type, prefix] : types) {
    if (!text.starts_with(type) || !text.substr(type.size()).starts_with("::")) continue;
    const auto begin = type.size() + 2;
    auto end = begin;
    while (end < text.size() && (is_letter(text[end]) && text[end] != ':')) ++end;
    if (end == begin || text.substr(end).starts_with("(")) return {};
    return {end, "'" + std::string(prefix) + std::string(text.substr(begin, end - begin)) + "'"};
  }
  return {};
}

}  // namespace face_words

/// A text of the library's, or of `from`, in the words of another face. What it quotes, such as a
/// key, stays as it is.
inline std::string in_words_of(Face to, std::string_view text, Face from = Face::cpp) {
  const auto of = [](const face_words::Word& word, Face face) {
    return word[static_cast<std::size_t>(face)];
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto rest = text.substr(at);
    const bool begins = at == 0 || !face_words::is_letter(text[at - 1]);
    // A quotation goes from a quote behind a blank or a bracket to the next quote.
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
    } else if (auto member = face_words::member_of_type(rest); begins && member.first > 0) {
      out += member.second;
      at += member.first;
    } else {
      out += text[at++];
    }
  }
  return out;
}

}  // namespace cairn
