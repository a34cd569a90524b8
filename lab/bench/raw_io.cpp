#include "raw_io.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <limits>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/checksum.hpp"

namespace cairn::bench {
namespace {

namespace fs = std::filesystem;

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(std::string(call) + ": " + text);
}

void check(bool good, const std::string& action) {
  if (!good) throw std::runtime_error(action + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : number_(::open(path.c_str(), flags, 0666)) {
    check(number_ >= 0, "open " + path.string());
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  void close() {
    const int number = number_;
    number_ = -1;
    check(::close(number) == 0, "close");
  }

 private:
  int number_;
};

void sync_directory(const fs::path& directory) {
  const Descriptor descriptor(directory, O_RDONLY | O_DIRECTORY);
  check(::fsync(descriptor.get()) == 0, "fsync " + directory.string());
}

// Counts in MPI calls are int: larger ones are counted in elements of 1 MiB.
struct Count {
  explicit Count(std::size_t bytes) : number(0), type(MPI_BYTE) {
    if (bytes <= std::size_t{std::numeric_limits<int>::max()}) {
      number = static_cast<int>(bytes);
      return;
    }
    check_mpi(MPI_Type_contiguous(1 << 20, MPI_BYTE, &type), "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
    number = static_cast<int>(bytes >> 20);
  }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;
  ~Count() {
    if (type != MPI_BYTE) MPI_Type_free(&type);
  }
  int number;
  MPI_Datatype type;
};

void write_pieces(Descriptor& file, Bytes bytes, std::size_t piece) {
  for (std::size_t at = 0; at < bytes.size();) {
    const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    const auto done = ::pwrite(file.get(), part.data(), part.size(), static_cast<off_t>(at));
    check(done > 0, "pwrite");
    at += static_cast<std::size_t>(done);
  }
  check(::fsync(file.get()) == 0, "fsync");
  file.close();
}

// Each piece is a huge page, touched once and not in each turn.
constexpr std::size_t slot_bytes = std::size_t{2} << 20;
constexpr int slots = 8;
std::span<std::byte> slot(std::size_t i) {
  static Pages ring(slot_bytes * slots);
  return ring.bytes().subspan(i % slots * slot_bytes, slot_bytes);
}

void write_small(const fs::path& path, Files files = Files::fresh) {
  Descriptor file(path, O_WRONLY | (files == Files::fresh ? O_CREAT | O_EXCL : 0));
  const std::array<char, 1000> bytes{};
  check(::write(file.get(), bytes.data(), bytes.size()) == ssize_t{bytes.size()}, "write");
  check(::fsync(file.get()) == 0, "fsync");
  file.close();
}

/// Moves a file back from where it waits, if it is there.
Files take_back(const fs::path& waits, const fs::path& path) {
  if (!fs::exists(waits)) return Files::fresh;
  if (waits != path) fs::rename(waits, path);
  return Files::overwritten;
}

int direct_flag(Cache cache) { return cache == Cache::bypassed ? O_DIRECT : 0; }

fs::path shared_file(const fs::path& directory) { return directory / "shared"; }
fs::path own_file(const fs::path& directory, int rank) {
  return directory / ("rank-" + std::to_string(rank));
}

}  // namespace

Ranks::Ranks(MPI_Comm communicator) : communicator_(communicator) {
  check_mpi(MPI_Comm_rank(communicator, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(communicator, &size_), "MPI_Comm_size");
}

void Ranks::barrier() const { check_mpi(MPI_Barrier(communicator_), "MPI_Barrier"); }

double Ranks::max(double value) const {
  double result = 0;
  check_mpi(MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, communicator_), "MPI_Allreduce");
  return result;
}

void Ranks::broadcast_quietly(std::span<std::byte> bytes) const {
  MPI_Request request;
  check_mpi(MPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, communicator_,
                       &request),
            "MPI_Ibcast");
  for (int done = 0; !done;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) ::usleep(500);
  }
}

void Ranks::write_collective(const fs::path& directory, Bytes bytes, Files files) const {
  MPI_File file;
  const int mode = files == Files::fresh ? MPI_MODE_CREATE | MPI_MODE_EXCL : 0;
  check_mpi(MPI_File_open(communicator_, shared_file(directory).c_str(), mode | MPI_MODE_WRONLY,
                          MPI_INFO_NULL, &file),
            "MPI_File_open");
  const Count count(bytes.size());
  check_mpi(MPI_File_write_at_all(file, static_cast<MPI_Offset>(bytes.size()) * rank_, bytes.data(),
                                  count.number, count.type, MPI_STATUS_IGNORE),
            "MPI_File_write_at_all");
  check_mpi(MPI_File_sync(file), "MPI_File_sync");
  check_mpi(MPI_File_close(&file), "MPI_File_close");
  if (rank_ == 0 && files == Files::fresh) sync_directory(directory);
}

void Ranks::read_collective(const fs::path& directory, std::span<std::byte> bytes) const {
  MPI_File file;
  check_mpi(MPI_File_open(communicator_, shared_file(directory).c_str(), MPI_MODE_RDONLY,
                          MPI_INFO_NULL, &file),
            "MPI_File_open");
  const Count count(bytes.size());
  check_mpi(MPI_File_read_at_all(file, static_cast<MPI_Offset>(bytes.size()) * rank_, bytes.data(),
                                 count.number, count.type, MPI_STATUS_IGNORE),
            "MPI_File_read_at_all");
  check_mpi(MPI_File_close(&file), "MPI_File_close");
}

void Ranks::write_own(const fs::path& directory, Bytes bytes, std::size_t piece, Files files,
                      Cache cache) const {
  Descriptor file(own_file(directory, rank_),
                  O_WRONLY | direct_flag(cache) | (files == Files::fresh ? O_CREAT | O_EXCL : 0));
  write_pieces(file, bytes, piece);
  if (files == Files::fresh) sync_directory(directory);
}

void Ranks::overwrite_own_at_once(const fs::path& directory, Bytes bytes, std::size_t piece,
                                  int threads) const {
  Descriptor file(own_file(directory, rank_), O_WRONLY | O_DIRECT);
  std::atomic<bool> good = true;
  {
    std::vector<std::jthread> writers;
    for (int first = 0; first < threads; ++first) {
      writers.emplace_back([&, first] {
        for (auto at = static_cast<std::size_t>(first) * piece; at < bytes.size();
             at += static_cast<std::size_t>(threads) * piece) {
          const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
          const auto done = ::pwrite(file.get(), part.data(), part.size(), static_cast<off_t>(at));
          if (done != static_cast<ssize_t>(part.size())) good = false;
        }
      });
    }
  }
  check(good, "pwrite");
  check(::fsync(file.get()) == 0, "fsync");
  file.close();
}

void Ranks::write_own_copied(const fs::path& directory, Bytes bytes, Files files) const {
  struct Writer {
    explicit Writer(int own_slots) : free(own_slots) {}
    std::counting_semaphore<slots> free, full{0};
    std::jthread thread;
  };
  Descriptor file(own_file(directory, rank_),
                  O_WRONLY | O_DIRECT | (files == Files::fresh ? O_CREAT | O_EXCL : 0));
  const auto pieces = (bytes.size() + slot_bytes - 1) / slot_bytes;
  const int threads = files == Files::fresh ? 1 : 4;  // a file grows by one request at a time
  std::atomic<bool> good = true;
  std::deque<Writer> writers;
  for (int first = 0; first < threads; ++first) {
    auto& writer = writers.emplace_back(slots / threads);
    writer.thread = std::jthread([&, first] {
      for (auto i = static_cast<std::size_t>(first); i < pieces;
           i += static_cast<std::size_t>(threads)) {
        writer.full.acquire();
        const auto at = i * slot_bytes, size = std::min(slot_bytes, bytes.size() - at);
        const auto done = ::pwrite(file.get(), slot(i).data(), size, static_cast<off_t>(at));
        if (done != static_cast<ssize_t>(size)) good = false;
        writer.free.release();
      }
    });
  }
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < pieces; ++i) {
    auto& writer = writers[i % writers.size()];
    writer.free.acquire();
    const auto at = i * slot_bytes;
    const auto part = bytes.subspan(at, std::min(slot_bytes, bytes.size() - at));
    crc = crc32c(part, crc);
    std::memcpy(slot(i).data(), part.data(), part.size());
    writer.full.release();
  }
  writers.clear();
  [[maybe_unused]] volatile auto kept = crc;
  check(good, "pwrite");
  check(::fsync(file.get()) == 0, "fsync");
  file.close();
  if (files == Files::fresh) sync_directory(directory);
}

void Ranks::commit_own_copied(const fs::path& directory, Bytes bytes, int step) const {
  const auto staging = directory / "staging", retired = staging / "retired";
  const auto named = [&](const std::string& what, int of_step, int number) {
    return directory / (what + "-" + std::to_string(of_step) + "-" + std::to_string(number));
  };
  if (rank_ == 0 && step == 0) fs::create_directory(staging);
  barrier();
  const auto own = own_file(staging, rank_);
  write_own_copied(staging, bytes, take_back(named("data", step - 2, rank_), own));
  fs::rename(own, named("data", step, rank_));
  if (rank_ == 0) {
    const auto strings = staging / "strings";
    write_small(strings, take_back(named("strings", step - 2, 0), strings));
    fs::rename(strings, named("strings", step, 0));
    write_small(retired, take_back(retired, retired));
    sync_directory(staging);
  }
  barrier();
  if (rank_ == 0) {
    sync_directory(directory);
    fs::rename(retired, named("index", step, 0));
    sync_directory(directory);
    write_small(staging / "state");
    fs::rename(staging / "state", directory / "state");
    if (step > 0) {
      // The retired index is that of the state file before, which must not come back.
      sync_directory(directory);
      fs::rename(named("index", step - 1, 0), retired);
      sync_directory(staging);
    }
  }
  barrier();
}

void Ranks::read_own(const fs::path& directory, std::span<std::byte> bytes, std::size_t piece,
                     Cache cache) const {
  const Descriptor file(own_file(directory, rank_), O_RDONLY | direct_flag(cache));
  for (std::size_t at = 0; at < bytes.size();) {
    const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    const auto done = ::pread(file.get(), part.data(), part.size(), static_cast<off_t>(at));
    check(done > 0, "pread");
    at += static_cast<std::size_t>(done);
  }
}

std::uint32_t Ranks::read_own_checked(const fs::path& directory, std::span<std::byte> bytes) const {
  constexpr std::size_t piece = std::size_t{128} << 10;
  const Descriptor file(own_file(directory, rank_), O_RDONLY);
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    const auto done = ::pread(file.get(), part.data(), part.size(), static_cast<off_t>(at));
    check(done > 0, "pread");
    crc = crc32c(part.first(static_cast<std::size_t>(done)), crc);
    at += static_cast<std::size_t>(done);
  }
  return crc;
}

std::uint32_t Ranks::read_own_copied(const fs::path& directory, std::span<std::byte> bytes) const {
  // One thread waits for the disk while the other gives it the next request.
  struct Reader {
    std::counting_semaphore<slots> free{2}, full{0};
    std::jthread thread;
  };
  const Descriptor file(own_file(directory, rank_), O_RDONLY | O_DIRECT);
  const auto pieces = (bytes.size() + slot_bytes - 1) / slot_bytes;
  std::atomic<bool> good = true;
  std::array<Reader, 2> readers;
  for (std::size_t first = 0; first < readers.size(); ++first) {
    readers[first].thread = std::jthread([&, first] {
      for (auto i = first; i < pieces; i += readers.size()) {
        readers[first].free.acquire();
        const auto at = i * slot_bytes, size = std::min(slot_bytes, bytes.size() - at);
        const auto done = ::pread(file.get(), slot(i).data(), size, static_cast<off_t>(at));
        if (done != static_cast<ssize_t>(size)) good = false;
        readers[first].full.release();
      }
    });
  }
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < pieces; ++i) {
    auto& reader = readers[i % readers.size()];
    reader.full.acquire();
    const auto at = i * slot_bytes, size = std::min(slot_bytes, bytes.size() - at);
    crc = crc32c(slot(i).first(size), crc);
    std::memcpy(bytes.data() + at, slot(i).data(), size);
    reader.free.release();
  }
  check(good, "pread");
  return crc;
}

std::string drop_caches(const fs::path& directory) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const Descriptor file(entry.path(), O_RDONLY);
    const int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (error != 0) throw std::runtime_error(std::string("posix_fadvise: ") + std::strerror(error));
  }
  const int all = ::open("/proc/sys/vm/drop_caches", O_WRONLY);
  if (all < 0) return "POSIX_FADV_DONTNEED";
  const bool dropped = ::write(all, "1", 1) == 1;
  ::close(all);
  return dropped ? "/proc/sys/vm/drop_caches" : "POSIX_FADV_DONTNEED";
}

void sync_file_system(const fs::path& directory) {
  const Descriptor descriptor(directory, O_RDONLY | O_DIRECTORY);
  check(::syncfs(descriptor.get()) == 0, "syncfs " + directory.string());
}

Pages::Pages(std::size_t bytes) : bytes_(bytes) {
  constexpr std::size_t huge = std::size_t{2} << 20;
  mapped_ = bytes + huge;
  start_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start_ == MAP_FAILED) throw std::runtime_error("no memory for a buffer");
  auto at = reinterpret_cast<std::uintptr_t>(start_);
  at = (at + huge - 1) / huge * huge;
  data_ = reinterpret_cast<std::byte*>(at);
  ::madvise(data_, bytes, MADV_HUGEPAGE);
  std::memset(data_, 1, bytes);
}

Pages::~Pages() { ::munmap(start_, mapped_); }

}  // namespace cairn::bench
