#pragma once
/// A directory as its next owner finds it.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

/// What the removal of a checkpoint has set aside, and not finished, has its name again
/// (store/commit/removal.hpp). For reading. Knows what was set aside when it was made: what an
/// owner that lives removes just then is missing afterwards.
class GivenBack final : public io::FileSystemWrapper {
 public:
  explicit GivenBack(const Address& directory);

  /// Whether what makes this prefix a checkpoint is set aside.
  bool is_set_aside(const io::Path& prefix) const;

  std::unique_ptr<io::File> open_read(const io::Path&) override;
  bool is_link(const io::Path&) override;
  std::vector<std::string> list(const io::Path&) override;
  std::optional<io::Status> status(const io::Path&) override;

 private:
  io::Path now(const io::Path&);

  io::Path directory_;
  std::map<std::string, std::string> aside_;  // by the name that comes back
};

}  // namespace cairn
