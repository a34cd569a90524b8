#pragma once
/// Options of the campaigns' programs.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::campaign {

/// Gets the place of each option, then reads them. Unknown options and invalid numbers are refused.
class CommandLine {
 public:
  /// Source: the file whose head says how to use the program.
  explicit CommandLine(std::string source) : source_(std::move(source)) {}

  void flag(const std::string& name, bool& to) { flags_[name] = &to; }
  void text(const std::string& name, std::string& to) {
    options_[name] = [&to](const std::string& value) { to = value; };
  }
  template <class T>
  void number(const std::string& name, T& to) {
    options_[name] = [this, &to](const std::string& value) {
      to = static_cast<T>(number_in(value));
    };
  }
  /// "A" or "A-B", with that character between; A alone is both.
  void range(const std::string& name, char between, std::uint64_t& first, std::uint64_t& last) {
    options_[name] = [this, between, &first, &last](const std::string& value) {
      const auto at = value.find(between);
      first = last = number_in(value.substr(0, at));
      if (at != value.npos) last = number_in(value.substr(at + 1));
    };
  }

  void read(int count, char** arguments) const {
    for (int i = 1; i < count; ++i) {
      const std::string name = arguments[i];
      if (const auto flag = flags_.find(name); flag != flags_.end()) {
        *flag->second = true;
        continue;
      }
      const auto option = options_.find(name);
      if (option == options_.end()) refuse(cat("'", name, "' is not known"));
      if (++i == count) refuse(cat("'", name, "' lacks its value"));
      option->second(arguments[i]);
    }
  }

  /// Each word of a comma-separated list must be one of these: otherwise it would choose nothing.
  void check(const std::string& list, const std::set<std::string>& known) const {
    for (std::size_t at = 0; !list.empty() && at <= list.size();) {
      const auto end = std::min(list.find(',', at), list.size());
      const auto word = list.substr(at, end - at);
      if (!known.count(word)) refuse(cat("there is no '", word, "'"));
      at = end + 1;
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Code::invalid_argument, what, "",
                cat("The head of ", source_, " says how to use it."));
  }

 private:
  std::uint64_t number_in(const std::string& text) const {
    char* end = nullptr;
    const auto value = std::strtoull(text.c_str(), &end, 10);
    if (text.empty() || *end) refuse(cat("'", text, "' is no number"));
    return value;
  }

  std::string source_;
  std::map<std::string, bool*> flags_;
  std::map<std::string, std::function<void(const std::string&)>> options_;
};

}  // namespace cairn::campaign
