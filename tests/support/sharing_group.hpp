#pragma once
/// A group whose ranks write files together on a FileSystem: it gives thread ranks and disks that
/// can crash what MPI-IO gives processes. It is as strict as MPI may be: every call waits for all
/// ranks of the file, even one that fails, and only the lowest rank syncs, after the others have
/// gone on.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/shared_files.hpp"
#include "group/collectives.hpp"
#include "io/file_system.hpp"
#include "support/group_around.hpp"

namespace cairn::test {

class SharingGroup : public GroupAround {
 public:
  SharingGroup(std::shared_ptr<Group> ranks, std::shared_ptr<io::FileSystem> disk)
      : GroupAround(std::move(ranks)), files_(*this, std::move(disk)) {}

  SharedFiles* shared_files() override { return &files_; }

  // A test may set these on each rank.
  std::string doubt;  ///< of the library
  /// Called after this rank's write; it may damage the file.
  std::function<void(io::File&, std::int64_t offset, std::size_t bytes)> after_write;
  int open_fails = 0, write_fails = 0;  ///< the n-th call from now, from 1
  bool loses_writes = false;            ///< and reports no error
  // A test may read these.
  struct Write {
    std::string file;
    std::int64_t offset;
    std::size_t bytes;
  };
  std::vector<Write> writes;
  std::vector<int> numbers;  ///< that files were opened with

 private:
  class File final : public SharedFile {
   public:
    File(SharingGroup& group, std::unique_ptr<io::File> file, std::vector<int> ranks,
         std::string name)
        : group_(group), file_(std::move(file)), ranks_(std::move(ranks)), name_(std::move(name)) {}

    void write_at_all(std::int64_t offset, std::span<const std::byte> bytes) override {
      DeferredError error;
      error.guard([&] {
        if (group_.write_fails > 0 && --group_.write_fails == 0) throw Error(Code::io, "no write");
        group_.writes.push_back({name_, offset, bytes.size()});
        if (bytes.empty()) return;
        if (!group_.loses_writes) file_->write_at(offset, bytes);
        if (group_.after_write) group_.after_write(*file_, offset, bytes.size());
      });
      agree_on(error);
    }
    void sync() override {
      agree_on({});
      if (group_.rank() == ranks_.front()) file_->sync();
    }
    void close() override {
      agree_on({});
      file_->close();
    }

   private:
    void agree_on(const DeferredError& error) {
      const auto first = ranks_.front();
      for (const auto rank : ranks_) {
        if (rank == first) continue;
        if (group_.rank() == rank) group_.send(first, name_);
        if (group_.rank() == first && group_.receive(rank) != name_) {
          throw Error(Code::communication, "ranks of two files met");
        }
      }
      for (const auto rank : ranks_) {
        if (rank == first) continue;
        if (group_.rank() == first) group_.send(rank, name_);
        if (group_.rank() == rank) group_.receive(first);
      }
      if (error) throw Error(*error.first());
    }

    SharingGroup& group_;
    std::unique_ptr<io::File> file_;
    std::vector<int> ranks_;
    std::string name_;
  };

  class Files final : public SharedFiles {
   public:
    Files(SharingGroup& group, std::shared_ptr<io::FileSystem> disk)
        : group_(group), disk_(std::move(disk)) {}
    std::string library() const override { return "Sharing ranks 1.0"; }
    void check(const Hints& hints) const override {
      if (hints.count("")) throw Error(Code::invalid_argument, "a hint without a name");
    }
    std::string doubt(const Hints&) const override { return group_.doubt; }
    std::unique_ptr<SharedFile> open(const PathText& path, int number, const Hints&) override {
      const auto all = all_gather(group_, cat(number));
      std::vector<int> ranks;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (number >= 0 && all[rank] == cat(number)) ranks.push_back(static_cast<int>(rank));
      }
      const bool fails = number >= 0 && group_.open_fails > 0 && --group_.open_fails == 0;
      if (any_of(group_, fails)) throw Error(Code::io, "no file is opened");
      if (number < 0) return nullptr;
      group_.numbers.push_back(number);
      return std::make_unique<File>(group_, disk_->open_write(path), std::move(ranks),
                                    path.string());
    }

   private:
    SharingGroup& group_;
    std::shared_ptr<io::FileSystem> disk_;
  };

  Files files_;
};

}  // namespace cairn::test
