// What a view of a bucket makes of listings that are old, and of objects that go.
#include <gtest/gtest.h>

#include "io/expect_error.hpp"
#include "store/bucket/bucket_kit.hpp"

namespace cairn::test {
namespace {

class ViewOfABucket : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& bytes) {
    client_->put("run/" + name, std::as_bytes(std::span(bytes)));
  }
  static std::string read(io::FileSystem& files, const std::string& name) {
    return io::read_file(files, "/run/" + name, 1000);
  }
  std::shared_ptr<io::FileSystem> view() const { return io::view_of(files_); }

  const std::shared_ptr<BucketServer> server_ = std::make_shared<BucketServer>();
  const std::shared_ptr<BucketFiles> files_ = server_->files();
  const std::unique_ptr<bucket::Requests> client_ = server_->connect();
  const std::string data_ = "ckpt-1.data-00000-of-00002", index_ = "ckpt-1.index";
};

TEST_F(ViewOfABucket, FindsWhatAnOldListingHides) {
  put(data_, "data"), put(index_, "index"), put("checkpoint", "state");
  server_->list_late(1000);
  const auto files = view();
  EXPECT_TRUE(files->list("/run").empty());
  for (const auto& name : {data_, index_}) EXPECT_TRUE(files->status("/run/" + name)) << name;
  EXPECT_EQ(read(*files, data_), "data");
  EXPECT_EQ(read(*files, index_), "index");
  EXPECT_EQ(read(*files, "checkpoint"), "state");
  EXPECT_FALSE(files->status("/run/ckpt-2.index"));
  EXPECT_EQ(files->list("/run").size(), 3u) << "what was found is there";
}

// The listing shows a save that was replaced by one whose objects have the same names.
TEST_F(ViewOfABucket, BelievesAnOldListingNothingOfASave) {
  put(data_, "old data"), put(index_, "old"), put("ckpt-1.h5", "old file");
  put(data_, "the new data"), put(index_, "the new one"), put("ckpt-1.h5", "the new file");
  server_->list_late(3);
  for (const bool lists : {false, true}) {
    const auto files = view();
    if (lists) files->list("/run");
    EXPECT_TRUE(files->status("/run/" + index_));
    EXPECT_EQ(read(*files, index_), "the new one");
    EXPECT_EQ(files->status("/run/" + index_).value().size, 11);
    EXPECT_EQ(files->status("/run/" + data_).value().size, 12);
    EXPECT_EQ(read(*files, data_), "the new data");
    EXPECT_EQ(read(*files, "ckpt-1.h5"), "the new file");
  }
}

TEST_F(ViewOfABucket, ForgetsWhenAReadFindsAnObjectGoneOrReplaced) {
  const auto known = [&] {
    put(data_, "data"), put(index_, "index");
    auto files = view();
    files->list("/run");
    EXPECT_EQ(read(*files, index_), "index");
    EXPECT_EQ(read(*files, data_), "data");
    return files;
  };
  auto files = known();
  client_->remove("run/" + index_);
  EXPECT_TRUE(files->status("/run/" + index_)) << "it need not ask";
  EXPECT_CAIRN_ERROR(read(*files, index_), Code::not_found, "there is no /run/ckpt-1.index");
  EXPECT_FALSE(files->status("/run/" + index_));
  EXPECT_EQ(files->list("/run"), std::vector{data_});

  for (const bool ahead : {false, true}) {
    const auto read_data = [&] {
      if (!ahead) return void(read(*files, data_));
      std::string bytes(4, '.');
      const io::Extent all{0, 0, 4, std::as_writable_bytes(std::span(bytes)).data()};
      files->read_ahead({"/run/" + data_}, {all}, DirectIo::automatic)->next();
    };
    files = known();
    put(data_, "other data");
    EXPECT_THROW(read_data(), Error);
    EXPECT_EQ(files->status("/run/" + data_).value().size, 10);
    files = known();
    client_->remove("run/" + data_);
    EXPECT_THROW(read_data(), Error);
    EXPECT_FALSE(files->status("/run/" + data_));
  }
}

}  // namespace
}  // namespace cairn::test
