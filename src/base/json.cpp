#include "base/json.hpp"

#include <locale.h>

namespace cairn {
namespace {

// While it lives, this thread has the classic C locale: nlohmann::json reads fractions with strtod,
// whose decimal point depends on the locale.
class ClassicNumbers {
 public:
  ClassicNumbers() {
    // Made once for all threads, and never freed.
    static const locale_t classic = ::newlocale(LC_ALL_MASK, "C", nullptr);
    if (classic) before_ = ::uselocale(classic);
  }
  ~ClassicNumbers() {
    if (before_) ::uselocale(before_);
  }
  ClassicNumbers(const ClassicNumbers&) = delete;
  ClassicNumbers& operator=(const ClassicNumbers&) = delete;

 private:
  locale_t before_{};
};

}  // namespace

template <class Json>
Json parse_json(std::string_view text, bool throws) {
  const ClassicNumbers classic;
  return Json::parse(text, nullptr, throws);
}
template nlohmann::json parse_json(std::string_view, bool);
template nlohmann::ordered_json parse_json(std::string_view, bool);

template <class Json>
std::string dump_json(const Json& value, NotUtf8 not_utf8, int indent) {
  using Handler = nlohmann::detail::error_handler_t;
  return value.dump(indent, ' ', false,
                    not_utf8 == NotUtf8::throws ? Handler::strict : Handler::replace);
}
template std::string dump_json(const nlohmann::json&, NotUtf8, int);
template std::string dump_json(const nlohmann::ordered_json&, NotUtf8, int);

}  // namespace cairn
