#include "job/job.hpp"

namespace cairn {

io::Path Job::prefix(std::int64_t step) const {
  return directory / commit::prefix_name(naming, step);
}

}  // namespace cairn
