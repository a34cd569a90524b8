#pragma once
/// A bucket as files: what reads and writes files can use it.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "bucket/requests.hpp"
#include "io/file_system.hpp"
#include "store/store.hpp"

namespace cairn {

/// A file is an object, whole when it is synced or closed, and a directory the beginning of keys. A
/// new file is written in order; a second one of its name fails with already_exists when it is
/// synced. There are no links and no locks. Paths are "s3://BUCKET/KEY", or "/KEY".
///
/// Each thread that is in a call has a connection of its own; they are kept for the next.
class BucketFiles : public io::FileSystem,
                    public io::Replacing,
                    public io::Viewed,
                    public StoreMaker,
                    public StepList {
 public:
  using Connect = std::function<std::unique_ptr<bucket::Requests>()>;
  /// For tests: parts of objects that several ranks write are about so large.
  explicit BucketFiles(Connect connect, std::int64_t part_bytes = std::int64_t{8} << 20)
      : connect_(std::move(connect)), part_bytes_(part_bytes) {}

  /// The files of the bucket of this path, by the environment; the same object for all paths of a
  /// bucket. Throws unsupported if this build has no client.
  static std::shared_ptr<BucketFiles> of(const io::Path&);
  static std::string key_of(const io::Path&);
  /// The first number of an object's FileId.
  static std::uint64_t number_of(std::string_view tag);

  /// A connection, for as long as it lives.
  class Client {
   public:
    explicit Client(BucketFiles& files) : files_(&files), objects_(files.take()) {}
    Client(Client&& other) noexcept = default;
    Client& operator=(Client&&) = delete;
    ~Client() {
      if (objects_) files_->give_back(std::move(objects_));
    }
    bucket::Requests* operator->() const { return objects_.get(); }
    bucket::Requests& operator*() const { return *objects_; }

   private:
    BucketFiles* files_;
    std::unique_ptr<bucket::Requests> objects_;
  };
  Client client() { return Client(*this); }

  std::shared_ptr<io::FileSystem> view(std::shared_ptr<io::FileSystem> self) override;

  std::unique_ptr<Store> make_store(const Location&) override;
  std::int64_t part_bytes() const override { return part_bytes_; }
  std::optional<std::vector<std::int64_t>> steps_that_count(const Location&) override;
  std::vector<std::int64_t> steps_beside(const Location&) override;
  io::Path damaged_list(const Location&) override;
  std::string owner_of(const Location&) override;
  std::vector<commit::Naming> names_in(const io::Path& directory) override;

  std::unique_ptr<io::File> create(const io::Path&) override;
  std::unique_ptr<io::File> open_read(const io::Path&) override;
  std::unique_ptr<io::Reader> read_ahead(std::vector<io::Path>, std::vector<io::Extent>,
                                         DirectIo) override;
  std::unique_ptr<io::File> open_write(const io::Path&) override;
  void rename(const io::Path& from, const io::Path& to) override;
  void replace(const io::Path&, std::string_view bytes) override;
  void remove(const io::Path&) override;
  void create_directory(const io::Path&) override {}
  void remove_directory(const io::Path&) override {}
  std::vector<std::string> list(const io::Path&) override;
  std::optional<io::Status> status(const io::Path&) override;
  void sync_directory(const io::Path&) override {}
  std::int64_t free_bytes(const io::Path&) override { return std::int64_t{1} << 60; }
  std::unique_ptr<io::Lock> try_lock(const io::Path&) override;

 private:
  std::unique_ptr<bucket::Requests> take();
  void give_back(std::unique_ptr<bucket::Requests>);

  const Connect connect_;
  const std::int64_t part_bytes_;
  Mutex mutex_;
  std::vector<std::unique_ptr<bucket::Requests>> idle_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn
