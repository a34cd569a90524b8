#pragma once
/// What lies beside the lists that a bucket keeps of its checkpoints.
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn::cli {

/// A checkpoint that somebody has put beside the directory's list: it does not count.
struct Beside {
  std::string prefix;  ///< without the directory
  std::string damage;  ///< empty: it is whole
  io::Path argument;   ///< what names it for the tool, without the directory
};

/// `only`: of this name; "": of all. Where there are no lists, nothing.
std::vector<Beside> beside_lists(const Address& directory, const std::string& only = "");
void print_beside(const Address& directory, const std::vector<Beside>&);

/// Paths of lists that are damaged.
std::vector<std::string> damaged_lists(const Address& directory, const std::string& only = "");
/// How it is said.
inline constexpr const char* what_damaged_lists_do =
    "all whole checkpoints count, and the next job or cairn gc makes a new list";

}  // namespace cairn::cli
