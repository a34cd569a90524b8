// The tokens of names: 128 random bits, as 32 hexadecimal digits.
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "cairn/error.hpp"
#include "store/commit/names.hpp"

namespace cairn::commit {

Uuid random_uuid() {
  Uuid uuid;
  if (::getentropy(&uuid, sizeof uuid) != 0) {
    throw Error(Code::io, "cannot get random bytes", std::generic_category().message(errno));
  }
  return uuid;
}

std::string uuid_text(const Uuid& uuid) {
  std::string text;
  for (const auto half : {uuid.high, uuid.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[half >> shift & 15];
  }
  return text;
}

Uuid parse_uuid(std::string_view text) {
  if (!is_uuid(text)) throw Error(Code::internal, "this is no uuid");
  Uuid uuid;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto& half = i < text.size() / 2 ? uuid.high : uuid.low;
    const auto digit = text[i];
    half = half << 4 | static_cast<std::uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return uuid;
}

std::string new_uuid() { return uuid_text(random_uuid()); }

}  // namespace cairn::commit
