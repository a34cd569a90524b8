#include "io/direct_io.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <utility>

#include "base/mutex.hpp"

namespace cairn::io {
namespace {

// File systems that refused direct I/O, by device.
class Refusals {
 public:
  bool has(dev_t device) {
    const MutexLock guard(mutex_);
    return devices_.contains(device);
  }
  void add(int descriptor) {
    struct stat status;
    if (::fstat(descriptor, &status) != 0) return;
    const MutexLock guard(mutex_);
    devices_.insert(status.st_dev);
  }

 private:
  Mutex mutex_;
  std::set<dev_t> devices_ CAIRN_GUARDED_BY(mutex_);
};

Refusals& refusals() {
  static Refusals all;
  return all;
}

// The rings of this process. Any thread may take one and give it back.
class Rings {
 public:
  std::byte* take() {
    {
      const MutexLock guard(mutex_);
      if (in_use_ == most) return nullptr;
      ++in_use_;
      if (kept_) return std::exchange(kept_, nullptr);
    }
    constexpr auto bytes = ring_slots * slot_bytes;
    // A huge page begins at a multiple of its size. So one slot more is mapped, and what lies
    // before and behind the aligned part is given back.
    void* all = ::mmap(nullptr, bytes + slot_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) {
      const MutexLock guard(mutex_);
      --in_use_;
      return nullptr;
    }
    auto* begin = static_cast<std::byte*>(all);
    const auto before =
        (slot_bytes - reinterpret_cast<std::uintptr_t>(begin) % slot_bytes) % slot_bytes;
    if (before > 0) ::munmap(begin, before);
    ::munmap(begin + before + bytes, slot_bytes - before);
#ifdef MADV_HUGEPAGE
    ::madvise(begin + before, bytes, MADV_HUGEPAGE);
#endif
    return begin + before;
  }
  void give(std::byte* ring) {
    {
      const MutexLock guard(mutex_);
      --in_use_;
      if (!kept_) {
        kept_ = ring;
        return;
      }
    }
    ::munmap(ring, ring_slots * slot_bytes);
  }

 private:
  static constexpr int most = 4;  // further files use the page cache
  Mutex mutex_;
  int in_use_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::byte* kept_ CAIRN_GUARDED_BY(mutex_) = nullptr;
};

Rings& rings() {
  static Rings all;
  return all;
}

}  // namespace

std::optional<Descriptor> open_direct([[maybe_unused]] int buffered,
                                      [[maybe_unused]] const std::filesystem::path& path,
                                      [[maybe_unused]] int flags) {
#ifdef O_DIRECT
  // A second descriptor: the first one stays for parts of pages, which O_DIRECT does not allow.
  struct stat status, found;
  if (::fstat(buffered, &status) != 0 || refusals().has(status.st_dev)) return std::nullopt;
  Descriptor direct(open_file(path.c_str(), flags | O_DIRECT));
  if (direct.get() < 0) {
    if (errno == EINVAL || errno == EOPNOTSUPP) refusals().add(buffered);
    return std::nullopt;
  }
  // Another file may have got the path between the two openings.
  if (::fstat(direct.get(), &found) != 0 || found.st_ino != status.st_ino ||
      found.st_dev != status.st_dev) {
    return std::nullopt;
  }
  return direct;
#else
  return std::nullopt;
#endif
}

void refuse_direct(int buffered) { refusals().add(buffered); }

Ring take_ring() { return Ring(rings().take()); }
void GiveRing::operator()(std::byte* ring) const { rings().give(ring); }

}  // namespace cairn::io
