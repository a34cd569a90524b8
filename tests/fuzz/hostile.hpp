#pragma once
/// Shared by the fuzz targets, which read bytes that anybody may have written.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "cairn/error.hpp"

namespace cairn::fuzz {

/// Ends the process, as a finding.
[[noreturn]] inline void wrong(const char* what) {
  std::fprintf(stderr, "wrong: %s\n", what);
  std::abort();
}

/// Makes the call, which may fail with these codes only. Returns whether it succeeded.
template <class Call, class... Codes>
bool only(Call&& call, Codes... codes) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    if (!((error.code() == codes) || ...)) wrong(error.what());
  }
  return false;
}
template <class Call>
bool only_data_loss(Call&& call) {
  return only(call, Code::data_loss);
}

struct Target {
  const char* name;
  void (*read)(std::string_view);
  /// Memory in bytes that an input may always have live at a time, whatever its size (bounded.hpp).
  std::int64_t bytes_at_least = std::int64_t{1} << 20;
};
/// The targets that are linked into this program: one for libFuzzer, all for the replay.
inline std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

}  // namespace cairn::fuzz

/// Defines a target: a function of the bytes of an input, `text`.
#define CAIRN_FUZZ_TARGET(name)                                                           \
  static void name##_target(std::string_view text);                                       \
  [[maybe_unused]] static const auto& name##_is_there =                                   \
      ::cairn::fuzz::targets().emplace_back(::cairn::fuzz::Target{#name, name##_target}); \
  static void name##_target(std::string_view text)
