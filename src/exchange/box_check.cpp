#include "exchange/box_check.hpp"

#include "base/text.hpp"

namespace cairn {

std::string any_box_text(const Box& box) {
  bool sane = box.start.size() == box.extent.size();
  std::int64_t end;
  for (std::size_t d = 0; sane && d < box.start.size(); ++d) {
    sane = box.extent[d] >= 0 && !__builtin_add_overflow(box.start[d], box.extent[d], &end);
  }
  if (sane) return box_text(box);
  return cat("the box with start ", shape_text(box.start), " and extent ", shape_text(box.extent));
}

}  // namespace cairn
