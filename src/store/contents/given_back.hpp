#pragma once
/// A directory as its next owner will find it.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

/// Shows files that an unfinished removal has set aside under their former names
/// (store/commit/removal.hpp). For reading. It knows what was set aside when it was made; a file
/// that a living owner removes after that is missing.
class GivenBack final : public io::FileSystemWrapper {
 public:
  explicit GivenBack(const Address& directory);

  /// Whether the main file of this prefix is set aside.
  bool is_set_aside(const io::Path& prefix) const;

  std::unique_ptr<io::File> open_read(const io::Path&) override;
  bool is_link(const io::Path&) override;
  std::vector<std::string> list(const io::Path&) override;
  std::optional<io::Status> status(const io::Path&) override;

 private:
  io::Path now(const io::Path&);

  io::Path directory_;
  std::map<std::string, std::string> aside_;  // keyed by the former name
};

}  // namespace cairn
