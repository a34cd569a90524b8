#pragma once
/// A new directory on the disk, which is removed with its contents at the end of a test.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace cairn::test {

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(
      const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
    std::string pattern = (in / "cairn-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no temporary directory";
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cairn::test
