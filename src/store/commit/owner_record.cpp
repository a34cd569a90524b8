// The owner's record as text: a key and a value on each line. Unknown keys are passed over, so that
// a later version can add some.
#include "base/text.hpp"
#include "base/utc.hpp"
#include "cairn/error.hpp"
#include "io/local_path.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::commit {
namespace {

// Makes one line of a text, since the environment may hold line breaks.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return text;
}

}  // namespace

std::string print_owner(const OwnerRecord& record) {
  // The times have a fixed number of digits: a heartbeat writes over the record in place, and a
  // reader in between sees digits of the old time and the new one.
  return cat("token ", record.token, "\nhost ", one_line(record.host), "\nkernel ",
             one_line(record.kernel), "\npid ", record.pid, "\nprocesses ",
             one_line(record.processes), "\njob ", one_line(record.job), "\nstart ",
             fixed_text(record.start_seconds, 3), "\nheartbeat ",
             fixed_text(record.heartbeat_seconds, 3), "\nguard ",
             record.by_heartbeat ? "heartbeat" : "lock", "\n");
}

std::optional<OwnerRecord> parse_owner(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string OwnerRecord::*> texts[]{
      {"token", &OwnerRecord::token},
      {"host", &OwnerRecord::host},
      {"kernel", &OwnerRecord::kernel},
      {"processes", &OwnerRecord::processes},
      {"job", &OwnerRecord::job}};
  OwnerRecord record;
  bool good = true;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto space = std::min(line.find(' '), line.size());
    const auto key = line.substr(0, space);
    const auto value = line.substr(std::min(space + 1, line.size()));
    for (const auto& [name, field] : texts) {
      if (key == name) record.*field = value;
    }
    if (key == "pid") good = good && parse_number(value, record.pid);
    if (key == "start") good = good && parse_number(value, record.start_seconds);
    if (key == "heartbeat") good = good && parse_number(value, record.heartbeat_seconds);
    if (key == "guard") record.by_heartbeat = value == "heartbeat";
  }
  if (!good || !is_uuid(record.token)) return std::nullopt;
  return record;
}

std::optional<OwnerRecord> read_owner(io::FileSystem& files, const io::Path& directory) {
  const auto text = io::try_read_file(files, directory / private_directory_name / owner_name,
                                      largest_owner_record_bytes);
  return text ? parse_owner(*text) : std::nullopt;
}

std::string describe(const OwnerRecord& record) {
  std::string text = cat("process ", record.pid, " on host ", record.host);
  if (!record.job.empty()) text += ", job " + record.job;
  return text + ", since " + utc_text(record.start_seconds);
}

void require_path(const io::Path& directory) {
  if (!io::is_address(directory)) return;
  throw Error(Code::unsupported, cat("this cannot be done in ", directory.string()),
              "it is in a bucket, where files are neither renamed nor locked",
              "Do it in a download of the whole directory, and upload what has changed.")
      .at(directory.string());
}

void require_no_links(io::FileSystem& files, const io::Path& directory) {
  const auto ours = directory / private_directory_name;
  const auto require = [&](const io::Path& path) {
    if (!files.is_link(path)) return;
    throw Error(Code::invalid_argument, cat(path.string(), " is a symbolic link"),
                "what is behind it may be anybody's, and Cairn changes its own files only",
                "Remove the link, and give the directory itself that it leads to.")
        .at(path.string());
  };
  require(ours);
  for (const char* below : private_folders) require(ours / below);
}

}  // namespace cairn::commit
