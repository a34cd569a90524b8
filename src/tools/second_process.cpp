#include "tools/second_process.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <utility>

#include "base/checksum.hpp"
#include "base/host_name.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

constexpr std::int64_t most_errand_bytes = std::int64_t{8} << 20;
constexpr int watched_lines = 2000;
// A watch ends after this time, as the text may never become visible here.
constexpr std::chrono::seconds longest_watch{60};

// What is in a file that another process replaces again and again.
struct Seen {
  std::int64_t whole = 0, missing = 0, torn = 0;

  // Returns the line of which the text is made, or nothing.
  std::string look(const Address& file) {
    std::string text;
    try {
      text = file.read(most_errand_bytes);
    } catch (const Error& error) {
      if (error.code() != Code::not_found) throw;
      ++missing;
      return "";
    }
    auto line = text.substr(0, text.find('\n'));
    const bool is_whole = !line.empty() && text == watched_text(line);
    ++(is_whole ? whole : torn);
    return is_whole ? std::move(line) : "";
  }
  std::string text() const { return cat("missing ", missing, " torn ", torn, " whole ", whole); }
};

std::string watch(const Address& file, const std::string& last, std::promise<void> begun) {
  Seen seen;
  const auto end = std::chrono::steady_clock::now() + longest_watch;
  bool first = true;
  try {
    while (seen.look(file) != last && std::chrono::steady_clock::now() < end) {
      if (std::exchange(first, false)) begun.set_value();
    }
  } catch (...) {
    if (first) begun.set_value();
    throw;
  }
  if (first) begun.set_value();
  return seen.text();
}

std::string read_text(const Address& file) {
  try {
    return file.read(most_errand_bytes);
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
    return "missing";
  }
}

}  // namespace

std::string watched_text(const std::string& line) {
  std::string text;
  text.reserve((line.size() + 1) * watched_lines);
  for (int i = 0; i < watched_lines; ++i) text += line + '\n';
  return text;
}

std::string striped_bytes() {
  std::string bytes(13000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251 + 1);
  return bytes;
}

void write_stripes(io::File& file, bool odd) {
  constexpr std::size_t stripe = 1000;
  const auto bytes = striped_bytes();
  for (std::size_t at = odd ? stripe : 0; at < bytes.size(); at += 2 * stripe) {
    file.write_at(static_cast<std::int64_t>(at),
                  std::as_bytes(std::span(bytes).subspan(at, stripe)));
  }
  file.sync();
}

std::string Errands::who() { return cat(boot_identity(), ' ', host_name()); }

std::string Errands::run(const std::string& errand) {
  const auto first = std::min(errand.find(' '), errand.size());
  const auto second = std::min(errand.find(' ', std::min(first + 1, errand.size())), errand.size());
  const auto from = [&](std::size_t at) { return std::min(at + 1, errand.size()); };
  try {
    return run_verb(errand.substr(0, first), errand.substr(from(first), second - from(first)),
                    errand.substr(from(second)));
  } catch (const std::exception& error) {
    std::string text = error.what();
    for (auto& c : text) c = c == '\n' ? ' ' : c;
    return "failed: " + text;
  }
}

std::string Errands::run_verb(const std::string& verb, const std::string& name,
                              const std::string& text) {
  const auto file = directory_ / name;
  const auto& path = file.path();
  const auto& files = file.files();
  const std::map<std::string, std::function<std::string()>> verbs{
      {"create",
       [&]() -> std::string {
         try {
           file.create()->close();
           return "made";
         } catch (const Error& error) {
           if (error.code() != Code::already_exists) throw;
           return "there";
         }
       }},
      {"read", [&] { return read_text(file); }},
      {"sum",
       [&] {
         const auto bytes = file.read(most_errand_bytes);
         return cat(bytes.size(), ' ', crc32c(std::string_view(bytes)));
       }},
      {"put",
       [&]() -> std::string {
         io::write_file(*files, path, text);
         return "written";
       }},
      {"overwrite",
       [&]() -> std::string {
         const auto open = files->open_write(path);
         open->write_at(0, std::as_bytes(std::span(text)));
         open->close();
         return "written";
       }},
      {"lock",
       [&]() -> std::string {
         try {
           auto lock = files->try_lock(path);
           if (!lock) return "busy";
           locks_[name] = std::move(lock);
           return "taken";
         } catch (const Error& error) {
           if (error.code() != Code::unsupported) throw;
           return "unsupported";
         }
       }},
      {"names",
       [&] {
         const auto status = file.status();
         return status ? cat(status->names) : "missing";
       }},
      {"hold",
       [&]() -> std::string {
         held_ = file.open_read();
         return "open";
       }},
      {"held",
       [&] {
         std::string bytes(static_cast<std::size_t>(std::min(held_->size(), most_errand_bytes)),
                           ' ');
         held_->read_at(0, std::as_writable_bytes(std::span(bytes)));
         return bytes;
       }},
      {"drop",
       [&]() -> std::string {
         held_.reset();
         return "closed";
       }},
      {"share",
       [&]() -> std::string {
         shared_ = files->open_write(path);
         return "open";
       }},
      {"stripes",
       [&]() -> std::string {
         write_stripes(*shared_, true);
         shared_->close();
         return "written";
       }},
      {"watch",
       [&]() -> std::string {
         std::promise<void> begun;
         auto begins = begun.get_future();
         watch_ = std::async(std::launch::async, [file, text, begun = std::move(begun)]() mutable {
           return watch(file, text, std::move(begun));
         });
         begins.wait();
         return "watching";
       }},
      {"watched", [&] { return watch_.get(); }},
  };
  const auto found = verbs.find(verb);
  if (found == verbs.end()) {
    throw Error(Code::invalid_argument, cat("there is no errand '", verb, "'"),
                "the two processes have different versions of Cairn", "Install one on both hosts.");
  }
  return found->second();
}

}  // namespace cairn
