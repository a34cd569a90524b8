#include "group/watched_files.hpp"

#include <optional>
#include <utility>

namespace cairn {
namespace {

constexpr const char* in_mpi_io = "in a collective call of MPI-IO";
constexpr const char* in_hdf5 = "in a collective call of libhdf5";

// Calls the function, and counts the time as a wait of the rank if this thread is the rank's own.
template <class F>
auto waits(WatchedCaller& caller, const char* stage, F&& call) {
  std::optional<Waiting> waiting;
  if (auto* const rank = caller.caller()) waiting.emplace(*rank, stage);
  return call();
}

// The classes below pass calls on, and watch those in which ranks may wait for each other.
class File final : public SharedFile {
 public:
  File(std::unique_ptr<SharedFile> inner, WatchedCaller& caller)
      : inner_(std::move(inner)), caller_(caller) {}
  void write_at_all(std::int64_t offset, std::span<const std::byte> bytes) override {
    waits(caller_, in_mpi_io, [&] { inner_->write_at_all(offset, bytes); });
  }
  void sync() override {
    waits(caller_, in_mpi_io, [&] { inner_->sync(); });
  }
  void close() override {
    waits(caller_, in_mpi_io, [&] { inner_->close(); });
  }

 private:
  std::unique_ptr<SharedFile> inner_;
  WatchedCaller& caller_;
};

class Files final : public SharedFiles {
 public:
  Files(SharedFiles& inner, WatchedCaller& caller) : inner_(inner), caller_(caller) {}
  std::string library() const override { return inner_.library(); }
  void check(const Hints& hints) const override { inner_.check(hints); }
  std::string doubt(const Hints& hints) const override { return inner_.doubt(hints); }
  std::unique_ptr<SharedFile> open(const PathText& path, int number, const Hints& hints) override {
    auto file = waits(caller_, in_mpi_io, [&] { return inner_.open(path, number, hints); });
    return file ? std::make_unique<File>(std::move(file), caller_) : nullptr;
  }

 private:
  SharedFiles& inner_;
  WatchedCaller& caller_;
};

class Dataset final : public DatasetFile {
 public:
  Dataset(std::unique_ptr<DatasetFile> inner, WatchedCaller& caller)
      : inner_(std::move(inner)), caller_(caller) {}
  void write_all(const std::string& dataset, std::span<const Block> blocks,
                 const std::byte* bytes) override {
    waits(caller_, in_hdf5, [&] { inner_->write_all(dataset, blocks, bytes); });
  }
  void flush() override {
    waits(caller_, in_hdf5, [&] { inner_->flush(); });
  }
  void close() override {
    waits(caller_, in_hdf5, [&] { inner_->close(); });
  }

 private:
  std::unique_ptr<DatasetFile> inner_;
  WatchedCaller& caller_;
};

class Datasets final : public DatasetFiles {
 public:
  Datasets(DatasetFiles& inner, WatchedCaller& caller) : inner_(inner), caller_(caller) {}
  void check(const Hints& hints) const override { inner_.check(hints); }
  std::unique_ptr<DatasetFile> open(const PathText& path, const Hints& hints) override {
    return std::make_unique<Dataset>(
        waits(caller_, in_hdf5, [&] { return inner_.open(path, hints); }), caller_);
  }

 private:
  DatasetFiles& inner_;
  WatchedCaller& caller_;
};

}  // namespace

std::unique_ptr<SharedFiles> watched(SharedFiles* inner, WatchedCaller& caller) {
  return inner ? std::make_unique<Files>(*inner, caller) : nullptr;
}

std::unique_ptr<DatasetFiles> watched(DatasetFiles* inner, WatchedCaller& caller) {
  return inner ? std::make_unique<Datasets>(*inner, caller) : nullptr;
}

}  // namespace cairn
