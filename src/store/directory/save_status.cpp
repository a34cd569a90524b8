#include "store/directory/save_status.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/checksum.hpp"
#include "base/host_name.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "cairn/log.hpp"
#include "store/commit/names.hpp"

namespace cairn {
namespace {

constexpr std::size_t file_bytes = 4096, most_text_bytes = 1200;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

io::Path path_of(const Location& place) {
  return place.directory / commit::private_directory_name / commit::status_name(place.naming);
}

std::string dump(const nlohmann::json& object) { return dump_json(object, NotUtf8::replaced); }

nlohmann::json json_of(const SaveStatus& status) {
  return {{"failures", status.failures},
          {"since_seconds", status.since_seconds},
          {"failed_step", status.failed_step},
          {"failed_seconds", status.failed_seconds},
          {"code", status.code},
          {"error", status.error},
          {"process", status.process},
          {"saved_step", status.saved_step},
          {"saved_seconds", status.saved_seconds}};
}

SaveStatus status_of(const nlohmann::json& object) {
  SaveStatus status;
  object.at("failures").get_to(status.failures);
  object.at("since_seconds").get_to(status.since_seconds);
  object.at("failed_step").get_to(status.failed_step);
  object.at("failed_seconds").get_to(status.failed_seconds);
  object.at("code").get_to(status.code);
  object.at("error").get_to(status.error);
  object.at("process").get_to(status.process);
  object.at("saved_step").get_to(status.saved_step);
  object.at("saved_seconds").get_to(status.saved_seconds);
  return status;
}

}  // namespace

std::string SaveStatus::print() const {
  auto shown = *this;
  auto object = json_of(shown);
  // Escaped, a text may be six times as long.
  // 64 bytes are for the checksum, which is added afterwards.
  for (auto most = most_text_bytes; dump(object).size() + 64 > file_bytes; most /= 2) {
    shown.error.resize(std::min(shown.error.size(), most));
    object = json_of(shown);
  }
  object["checksum"] = hex(crc32c(dump(object)));
  auto text = dump(object);
  text.resize(file_bytes - 1, ' ');
  return text + '\n';
}

std::optional<SaveStatus> SaveStatus::parse(std::string_view text) {
  auto object = parse_json(text, false);
  if (!object.is_object()) return std::nullopt;
  const auto* sum = find_member(object, "checksum");
  if (!sum || !sum->is_string()) return std::nullopt;
  const auto expected = sum->get<std::string>();
  object.erase("checksum");
  if (hex(crc32c(dump(object))) != expected) return std::nullopt;
  try {
    return status_of(object);
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::optional<SaveStatus> read_save_status(const Location& place) {
  try {
    const auto text = io::try_read_file(*place.files, path_of(place), file_bytes);
    auto status = text ? SaveStatus::parse(*text) : std::nullopt;
    // The file is made when a directory is opened, before any save has failed.
    return status && status->failed_step >= 0 ? std::move(status) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::map<std::string, SaveStatus> read_all_status(const Address& directory) {
  std::map<std::string, SaveStatus> all;
  try {
    for (const auto& entry : (directory / commit::private_directory_name).list()) {
      if (commit::parse_private_name(entry).kind != commit::ParsedName::Kind::status) continue;
      auto name = entry.substr(entry.find('.') + 1);
      if (auto status = read_save_status(location_of(directory, name)))
        all.emplace(std::move(name), *std::move(status));
    }
  } catch (const Error&) {  // there is none, or it may not be looked into
  }
  return all;
}

std::string text_of(const SaveStatus& status, double newest_checkpoint_seconds) {
  const auto last = cat("step ", status.failed_step, " at ", utc_text(status.failed_seconds), ", ",
                        status.process, ": ", status.error);
  if (status.failures == 0 || newest_checkpoint_seconds > status.failed_seconds) {
    return cat("saved again since the last failure (", last, ")");
  }
  if (status.failures == 1) return cat("the last save failed: ", last);
  return cat("the last ", status.failures, " saves failed, since ", utc_text(status.since_seconds),
             "; the last of them: ", last);
}

void SaveRecorder::begin() {
  if (!place_.naming.numbered) return;  // one that each save overwrites: there would be many
  try {
    writes_ = true;
    const auto text = io::try_read_file(*place_.files, path_of(place_), file_bytes);
    const auto there = text ? SaveStatus::parse(*text) : std::nullopt;
    if (there) status_ = *there;
    if (!text) write(true);
  } catch (const Error& error) {
    log(LogLevel::info,
        cat("whether saves fail will not be told in the directory: ", error.what()));
  }
}

void SaveRecorder::failed(std::int64_t step, const Error& error, std::int64_t saved_step,
                          double saved_seconds) {
  if (!writes_) return;
  status_.failed_seconds = now();
  if (status_.failures++ == 0) status_.since_seconds = status_.failed_seconds;
  status_.failed_step = step;
  status_.code = code_name(error.code());
  status_.error = error.what();
  status_.process = cat("process ", ::getpid(), " on ", host_name());
  status_.saved_step = saved_step;
  status_.saved_seconds = saved_seconds;
  write(false);
}

void SaveRecorder::saved(std::int64_t step) {
  if (!writes_ || status_.failures == 0) return;
  status_.failures = 0;
  status_.saved_step = step;
  status_.saved_seconds = now();
  write(false);
}

// Behind a link, or another name, are somebody else's bytes: a backup by names has this file, too.
void SaveRecorder::write(bool is_new) const try {
  const auto path = path_of(place_);
  const auto text = status_.print();
  auto file = is_new ? nullptr : place_.files->open_sole(path);
  if (!file && !is_new) place_.files->remove(path);
  if (!file) file = place_.files->create(path);
  file->write_at(0, std::as_bytes(std::span(text)));
  if (is_new) file->sync();
  file->close();
} catch (const Error& error) {
  log(LogLevel::info,
      cat("that saves fail, or no longer do, is not told in the directory: ", error.what()));
}

}  // namespace cairn
