#include "store/location.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "io/file_system.hpp"

namespace cairn {

io::Path Location::prefix(std::int64_t step) const {
  if (step < 0) {
    throw Error(Code::not_found, cat("there is no step ", step, " in ", directory.string()), "",
                "Steps are numbered from 0.");
  }
  return directory / commit::prefix_name(naming, step);
}

int Policy::stripes_of(int data_files) const {
  if (stripes != 0) return std::max(stripes, 0);
  // Four devices for each writer, at most `most`, are divided among the data files, of which each
  // has one at least.
  constexpr std::int64_t for_each_writer = 4, most = 64;
  const auto all = std::min(for_each_writer * writers, most);
  return static_cast<int>(std::max<std::int64_t>(all / std::max(data_files, 1), 1));
}

Location view_of(Location place) {
  place.files = io::view_of(std::move(place.files));
  return place;
}

StepList* step_list_of(io::FileSystem& files) {
  if (auto* const list = dynamic_cast<StepList*>(&files)) return list;
  auto* const wrapper = dynamic_cast<io::FileSystemWrapper*>(&files);
  return wrapper ? step_list_of(wrapper->target()) : nullptr;
}

}  // namespace cairn
