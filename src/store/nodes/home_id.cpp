#include "store/nodes/home_id.hpp"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "io/file_system.hpp"
#include "store/commit/names.hpp"

namespace cairn::tier {
namespace {

constexpr std::int64_t longest_id_bytes = 4096;

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

// Returns whether the text "INODE MADE" describes this directory. Not every kernel tells when a
// directory of a network file system was made.
bool is_of(std::string_view text, const io::Status& status) {
  const auto space = text.find(' ');
  if (space == text.npos) return false;
  const auto inode = number_in<std::uint64_t>(text.substr(0, space));
  const auto made = number_in<std::int64_t>(text.substr(space + 1));
  if (!inode || !made || *inode != status.id.inode) return false;
  return *made == 0 || status.id.made_nanoseconds == 0 || *made == status.id.made_nanoseconds;
}

}  // namespace

std::string home_id(const Address& directory, bool may_write) {
  auto& files = *directory.files();
  const auto status = directory.status().value_or(io::Status{});
  const auto path = directory.path() / commit::private_directory_name / "home-id";
  // A file that is too large is damaged, like one with other words.
  if (const auto text = io::try_read_file(files, path, longest_id_bytes)) {
    const auto space = text->find(' ');
    auto id = text->substr(0, space);
    if (space != std::string::npos && commit::is_uuid(id) &&
        is_of(std::string_view(*text).substr(space + 1), status)) {
      return id;
    }
  }
  if (!may_write) return "";
  auto id = commit::new_uuid();
  io::replace_file(files, path, cat(id, " ", status.id.inode, " ", status.id.made_nanoseconds));
  return id;
}

}  // namespace cairn::tier
