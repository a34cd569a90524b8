#include "store/contents/index_end.hpp"

#include <span>
#include <string>

#include "layout/bundle/table.hpp"

namespace cairn {

void require_index_end(const io::File& file, std::int64_t offset, std::int64_t bytes) {
  constexpr std::int64_t small = std::int64_t{1} << 20;
  if (bytes <= small) return;  // small ones are parsed at once
  // An index ends in a footer, which says where its blocks are.
  std::string last(bundle::footer_bytes, '\0');
  file.read_at(offset + bytes - std::ssize(last), std::as_writable_bytes(std::span(last)));
  bundle::check_footer(last, static_cast<std::uint64_t>(bytes));
}

}  // namespace cairn
