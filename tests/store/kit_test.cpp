// All stores pass the kit: a directory with and without renames, and a bucket.
#include "support/bucket_server.hpp"
#include "support/store_kit.hpp"
#include "testing/memory.hpp"

namespace cairn::test {
namespace {

class DirectoryDisk : public StoreDisk {
 public:
  explicit DirectoryDisk(std::shared_ptr<io::MemoryFileSystem> files) : files_(std::move(files)) {}
  std::shared_ptr<io::FileSystem> files() override { return files_; }
  void observe(std::function<void()> observer) override {
    files_->set_observer([observer = std::move(observer)](const auto&) { observer(); });
  }
  std::vector<std::unique_ptr<StoreDisk>> after_crash() override {
    std::vector<std::unique_ptr<StoreDisk>> disks;
    const auto stop = files_->operation_count();
    for (const auto& choice : files_->crash_choices(stop)) {
      disks.push_back(std::make_unique<DirectoryDisk>(files_->crash(stop, choice)));
    }
    return disks;
  }

 private:
  std::shared_ptr<io::MemoryFileSystem> files_;
};

class BucketDisk : public StoreDisk {
 public:
  explicit BucketDisk(std::shared_ptr<BucketServer> server = std::make_shared<BucketServer>())
      : server_(std::move(server)) {}
  std::shared_ptr<io::FileSystem> files() override { return server_->files(); }
  void observe(std::function<void()> observer) override {
    server_->set_observer([observer = std::move(observer)](const auto&) { observer(); });
  }
  std::vector<std::unique_ptr<StoreDisk>> after_crash() override {
    server_->set_observer({});
    std::vector<std::unique_ptr<StoreDisk>> disks;
    disks.push_back(std::make_unique<BucketDisk>(server_));
    return disks;
  }

 private:
  std::shared_ptr<BucketServer> server_;
};

}  // namespace

std::vector<StoreDiskKind> store_disks() {
  return {
      {"directory",
       [] { return std::make_unique<DirectoryDisk>(std::make_shared<io::MemoryFileSystem>()); }},
      {"directory_without_renames",
       [] {
         auto files = std::make_shared<io::MemoryFileSystem>();
         files->refuse_renames();
         return std::make_unique<DirectoryDisk>(std::move(files));
       }},
      {"bucket", [] { return std::make_unique<BucketDisk>(); }}};
}

}  // namespace cairn::test
