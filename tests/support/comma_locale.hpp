#pragma once
/// Locales in which 1.234,5 is a number. None of them need be installed.
#include <unistd.h>

#include <clocale>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <locale>
#include <string>
#include <string_view>

namespace cairn::test {

class Commas : public std::numpunct<char> {
 protected:
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

/// Calls use(NAME) while setlocale knows a C locale NAME for numbers, which is made for the moment.
/// Works with GNU's C library; with another one setlocale does not know NAME.
template <class F>
void with_c_locale(std::string_view decimal_point, F&& use) {
  // The format is that of locale/localeinfo.h in GNU's C library: the offsets of the items, then
  // the items.
  std::string file;
  const auto put = [&](std::uint32_t number) {
    file.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  constexpr std::uint32_t magic = 0x20031115 ^ LC_NUMERIC, items = 6, texts_at = 8 + 4 * items;
  std::string texts(decimal_point);
  texts += '\0';
  const auto separator_at = texts_at + static_cast<std::uint32_t>(texts.size());
  texts += std::string(".\0\3\3\0", 5);
  texts.resize((texts.size() + 3) / 4 * 4);
  const auto wide_at = texts_at + static_cast<std::uint32_t>(texts.size());
  for (const auto number : {magic, items, texts_at, separator_at, separator_at + 2, wide_at,
                            wide_at + 4, wide_at + 8}) {
    put(number);
  }
  file += texts;
  put(decimal_point.size() == 1 ? ',' : 0x66b);
  put('.');
  file += std::string("UTF-8\0", 6);

  auto folder = (std::filesystem::temp_directory_path() / "cairn-locale-XXXXXX").string();
  if (!::mkdtemp(folder.data())) return;
  std::filesystem::create_directory(folder + "/comma");
  std::ofstream(folder + "/comma/LC_NUMERIC", std::ios::binary) << file;
  const char* before = std::getenv("LOCPATH");
  const std::string kept = before ? before : "";
  ::setenv("LOCPATH", folder.c_str(), 1);
  use("comma");
  before ? ::setenv("LOCPATH", kept.c_str(), 1) : ::unsetenv("LOCPATH");
  std::filesystem::remove_all(folder);
}

/// While it lives, these are the process's global locales, of C++ and of C. A decimal point of the
/// latter may have several bytes.
class CommaLocale {
 public:
  explicit CommaLocale(std::string_view decimal_point = ",")
      : before_(std::locale::global(std::locale(std::locale::classic(), new Commas))),
        c_before_(std::setlocale(LC_NUMERIC, nullptr)) {
    with_c_locale(decimal_point, [](const char* name) { std::setlocale(LC_NUMERIC, name); });
  }
  ~CommaLocale() {
    std::locale::global(before_);
    std::setlocale(LC_NUMERIC, c_before_.c_str());
  }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;

 private:
  std::locale before_;
  std::string c_before_;
};

}  // namespace cairn::test
