#include "io/lustre.hpp"

#include <sys/ioctl.h>

#include <cerrno>
#include <cstdint>

#ifdef __linux__
#include <sys/vfs.h>
#include <sys/xattr.h>
#endif

namespace cairn::io {
namespace {

// struct lov_user_md_v1 without objects.
struct Layout {
  std::uint32_t magic = 0x0BD10BD0;  // LOV_USER_MAGIC_V1
  std::uint32_t pattern = 1;         // LOV_PATTERN_RAID0
  std::uint64_t object[2] = {};
  std::uint32_t stripe_bytes = 0;  // the file system's own choice
  std::uint16_t stripes = 0;
  std::uint16_t first_target = 0xFFFF;  // any
};
static_assert(sizeof(Layout) == 32);

constexpr int most_stripes = 2000;  // LOV_MAX_STRIPE_COUNT

#ifdef __linux__
constexpr auto set_stripe = _IOW('f', 154, long);  // LL_IOC_LOV_SETSTRIPE
constexpr std::uint32_t lustre_magic = 0x0BD00BD0;

bool is_lustre(int directory) {
  struct statfs status;
  return ::fstatfs(directory, &status) == 0 &&
         static_cast<std::uint32_t>(status.f_type) == lustre_magic;
}

bool has_layout(int directory) {
  // A directory without a layout of its own gives ENODATA, whatever the file system's default is.
  return ::fgetxattr(directory, "lustre.lov", nullptr, 0) >= 0;
}

int set_layout(int directory, void* layout) {
  return ::ioctl(directory, set_stripe, layout) == 0 ? 0 : errno;
}
#else
bool is_lustre(int) { return false; }
bool has_layout(int) { return false; }
int set_layout(int, void*) { return ENOTTY; }
#endif

}  // namespace

const LustreCalls& lustre_calls() {
  static constexpr LustreCalls calls = {is_lustre, has_layout, set_layout};
  return calls;
}

int stripe_new_files(int directory, int stripes, bool yields, const LustreCalls& calls) {
  if (stripes < 1 || !calls.is_lustre(directory)) return 0;
  if (yields && calls.has_layout(directory)) return 0;
  Layout layout;
  layout.stripes = static_cast<std::uint16_t>(stripes < most_stripes ? stripes : most_stripes);
  return calls.set_layout(directory, &layout);
}

}  // namespace cairn::io
