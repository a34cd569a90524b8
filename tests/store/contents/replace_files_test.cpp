// Files that are replaced, and put back when something fails.
#include "store/contents/replace_files.hpp"

#include <gtest/gtest.h>

#include "support/forwarding_files.hpp"
#include "testing/memory.hpp"

namespace cairn {
namespace {

// Carries renames to this path out, and reports an error.
class Unsure : public test::ForwardingFiles {
 public:
  explicit Unsure(std::shared_ptr<io::FileSystem> files) : ForwardingFiles(std::move(files)) {}
  std::string path;

 protected:
  void around(const char* kind, const io::Path& to, bool,
              const std::function<void()>& operation) override {
    operation();
    if (std::string(kind) == "rename" && to == path) throw Error(Code::io, "no answer");
  }
};

TEST(ReplacedFiles, ComeBackAlsoWhereARenameWasCarriedOutAndFailed) {
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  const auto files = std::make_shared<Unsure>(disk);
  disk->create_directory("/d");
  const std::string path = "/d/a.data-00000-of-00001";
  io::write_file(*disk, path, "old");
  const auto owner = commit::Ownership::take(files, "/d", 0);
  FileReplacer replacer(*files, "/d/a", owner);
  replacer.stage(path, [](io::File& file) {
    file.write_at(0, std::as_bytes(std::span(std::string_view("new"))));
  });
  files->path = path;
  EXPECT_THROW(replacer.put_in_place(path), Error);
  EXPECT_EQ(io::read_file(*disk, path, 100), "new");
  files->path.clear();
  replacer.put_back();
  EXPECT_EQ(io::read_file(*disk, path, 100), "old");
}

}  // namespace
}  // namespace cairn
