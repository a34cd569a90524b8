#include "io/paced.hpp"

#include <algorithm>
#include <utility>

namespace cairn::io {

// Reserves the time of these bytes after all that was reserved before, then waits until all
// reserved time has passed. So several threads together keep the pace.
void Pace::spend(std::int64_t bytes) {
  MutexLock lock(mutex_);
  if (bytes_per_second_ <= 0) return;
  const std::chrono::duration<double> time(static_cast<double>(bytes) / bytes_per_second_);
  free_at_ = std::max(free_at_, std::chrono::steady_clock::now()) +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
  while (bytes_per_second_ > 0 && std::chrono::steady_clock::now() < free_at_) {
    lock.wait_until(hurried_, free_at_);
  }
}

void Pace::hurry() {
  const MutexLock lock(mutex_);
  bytes_per_second_ = 0;
  hurried_.notify_all();
}

namespace {

class PacedFile : public File {
 public:
  PacedFile(std::unique_ptr<File> target, Pace& pace) : target_(std::move(target)), pace_(pace) {}

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    each(bytes, [&](std::size_t at, auto piece) {
      target_->write_at(offset + static_cast<std::int64_t>(at), piece);
    });
  }
  void write_behind(std::int64_t offset, std::span<const std::byte> bytes) override {
    each(bytes, [&](std::size_t at, auto piece) {
      target_->write_behind(offset + static_cast<std::int64_t>(at), piece);
    });
  }
  void stream(DirectIo choice) override { target_->stream(choice); }
  void expect(std::int64_t bytes) override { target_->expect(bytes); }
  bool gathers() const override { return target_->gathers(); }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    target_->read_at(offset, bytes);
  }
  std::int64_t size() const override { return target_->size(); }
  std::optional<FileId> id() const override { return target_->id(); }
  void resize(std::int64_t bytes) override { target_->resize(bytes); }
  void reserve(std::int64_t bytes) override { target_->reserve(bytes); }
  bool punch(std::int64_t offset, std::int64_t bytes) override {
    return target_->punch(offset, bytes);
  }
  std::int64_t next_hole(std::int64_t from) const override { return target_->next_hole(from); }
  void sync() override { target_->sync(); }
  void close() override { target_->close(); }

 private:
  // Writes in pieces, so that a slow pace is an even one.
  template <class Function>
  void each(std::span<const std::byte> bytes, Function&& write) {
    constexpr std::size_t most = std::size_t{1} << 20;
    for (std::size_t at = 0; at < bytes.size() || at == 0; at += most) {
      const auto piece = bytes.subspan(at, std::min(most, bytes.size() - at));
      write(at, piece);
      pace_.spend(static_cast<std::int64_t>(piece.size()));
    }
  }

  std::unique_ptr<File> target_;
  Pace& pace_;
};

}  // namespace

std::unique_ptr<File> PacedFileSystem::paced(std::unique_ptr<File> file) const {
  if (!file) return nullptr;  // open_sole() found no such file
  return std::make_unique<PacedFile>(std::move(file), pace_);
}

}  // namespace cairn::io
