#include <charconv>
#include <iomanip>

#include "base/text.hpp"
#include "base/utc.hpp"
#include "cairn/error.hpp"
#include "commit/names.hpp"
#include "commit/ownership.hpp"

namespace cairn::commit {
namespace {

// One line each, whatever the environment holds.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return text;
}

template <class T>
bool parse(std::string_view text, T& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc{} && result.ptr == text.data() + text.size();
}

}  // namespace

std::string print_owner(const OwnerRecord& record) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3);
  out << "token " << record.token << "\nhost " << one_line(record.host) << "\nkernel "
      << one_line(record.kernel) << "\npid " << record.pid << "\nprocesses "
      << one_line(record.processes) << "\njob " << one_line(record.job) << "\nstart "
      << record.start_seconds << "\nheartbeat " << record.heartbeat_seconds << "\nguard "
      << (record.by_heartbeat ? "heartbeat" : "lock") << "\n";
  return std::move(out).str();
}

std::optional<OwnerRecord> parse_owner(std::string_view text) {
  OwnerRecord record;
  bool good = true;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto space = std::min(line.find(' '), line.size());
    const auto key = line.substr(0, space);
    const auto value = line.substr(std::min(space + 1, line.size()));
    if (key == "token") record.token = value;
    if (key == "host") record.host = value;
    if (key == "kernel") record.kernel = value;
    if (key == "pid") good = good && parse(value, record.pid);
    if (key == "processes") record.processes = value;
    if (key == "job") record.job = value;
    if (key == "start") good = good && parse(value, record.start_seconds);
    if (key == "heartbeat") good = good && parse(value, record.heartbeat_seconds);
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

}  // namespace cairn::commit
