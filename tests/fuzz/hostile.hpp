#pragma once
/// What the fuzz targets share: readers of bytes that anybody may have written.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cairn/error.hpp"

namespace cairn::fuzz {

/// Ends the process, as a finding.
[[noreturn]] inline void wrong(const char* what) {
  std::fprintf(stderr, "wrong: %s\n", what);
  std::abort();
}

/// Calls it; of errors only these codes may come out. Whether none did.
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

inline std::string_view text_of(const unsigned char* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace cairn::fuzz
