#include "io/staging_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <locale>
#include <string>

namespace cairn {
namespace {

constexpr std::int64_t page_bytes = 4096, huge_page_bytes = std::int64_t{2} << 20;

class PageMemory : public StagingMemory {
 public:
  std::byte* take(std::size_t bytes) override {
    void* pages =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
#ifdef MADV_HUGEPAGE
    ::madvise(pages, bytes, MADV_HUGEPAGE);  // small pages do if huge ones are not allowed
#endif
#ifdef MADV_DONTFORK
    // A forked child does not need these pages. If it had them, the first write here to each page
    // would copy it, and what a device writes could be lost.
    ::madvise(pages, bytes, MADV_DONTFORK);
#endif
    return static_cast<std::byte*>(pages);
  }
  void give_back(std::byte* memory, std::size_t bytes) override { ::munmap(memory, bytes); }
};

}  // namespace

std::shared_ptr<StagingMemory> page_memory() { return std::make_shared<PageMemory>(); }

namespace io {

std::span<std::byte> StagingPool::reserve(std::int64_t bytes) {
  // The old memory goes first, so that the process never has both.
  if (bytes > bytes_ || !intact()) {
    release();
    const auto whole = (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    begin_ = memory_->take(static_cast<std::size_t>(whole));
    if (!begin_) return {};
    bytes_ = whole;
    most_bytes_ = std::max(most_bytes_, bytes_);
    // The first write to a page makes the system supply it.
    for (std::int64_t at = 0; at < whole; at += page_bytes) begin_[at] = std::byte{};
  }
  return {begin_, static_cast<std::size_t>(bytes)};
}

void StagingPool::release() {
  if (begin_) memory_->give_back(begin_, static_cast<std::size_t>(bytes_));
  begin_ = nullptr;
  bytes_ = 0;
}

void StagingPool::take_from(std::shared_ptr<StagingMemory> memory) {
  if (memory == memory_) return;
  release();
  memory_ = std::move(memory);
}

// The kernel's estimate, which counts caches that it can give up.
std::int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  in.imbue(std::locale::classic());
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view name = "MemAvailable:";
    if (line.compare(0, name.size(), name) == 0) return std::stoll(line.substr(name.size())) * 1024;
  }
  return 0;
}

}  // namespace io
}  // namespace cairn
