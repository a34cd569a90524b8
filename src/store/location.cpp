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

StepList* step_list_of(io::FileSystem& files) {
  return dynamic_cast<StepList*>(&io::behind_wrappers(files));
}

}  // namespace cairn
