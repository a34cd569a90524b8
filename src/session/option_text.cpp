// Every option can be set and read by its name as text. `visit` lists the options; two visitors,
// Assign and Ask, find the one that is wanted, and overloads of take and give convert each type.
#include "session/option_text.hpp"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "base/nearest.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/descriptions.hpp"

namespace cairn {
namespace {

using Text = std::string_view;

// For each type: expected(): the possible values, for messages; how a value is read (false: the
// text is none); how it is written. A type without these functions is code.
template <class T>
requires std::is_arithmetic_v<T> std::string expected(const T&) {
  using Limits = std::numeric_limits<T>;
  return std::is_same_v<T, bool> ? "true or false"
         : std::is_integral_v<T>
             ? cat("a whole number of ", Limits::lowest(), " to ", Limits::max())
             : "a number";
}
template <class T>
requires std::is_arithmetic_v<T>
bool take(T& value, Text text) {
  if constexpr (std::is_same_v<T, bool>) {
    value = text == "true";
    return value || text == "false";
  } else {
    T read{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
    if (error != std::errc{} || end != text.data() + text.size()) return false;
    value = read;
    return true;
  }
}
template <class T>
requires std::is_arithmetic_v<T> std::string give(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else {
    char text[64];
    return {text, std::to_chars(text, text + sizeof(text), value).ptr};
  }
}

template <class T>
requires std::is_enum_v<T> std::string expected(const T& value) {
  std::string all;
  for (const auto* word : words(value)) all += cat(all.empty() ? "" : ", ", word);
  return all;
}
template <class T>
requires std::is_enum_v<T>
bool take(T& value, Text text) {
  const auto all = words(value);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (text != all[i]) continue;
    value = static_cast<T>(i);
    return true;
  }
  return false;
}
template <class T>
requires std::is_enum_v<T> std::string give(const T& value) {
  return words(value).at(static_cast<std::size_t>(value));
}

std::string expected(const std::string&) { return "a text"; }
bool take(std::string& value, Text text) { return value = text, true; }
std::string give(const std::string& value) { return value; }

std::string expected(const PathText&) { return "a path"; }
bool take(PathText& value, Text text) { return value = text, true; }
std::string give(const PathText& value) { return value.string(); }

std::string expected(const Attribute&) { return "JSON"; }
bool take(Attribute& value, Text text) { return value = Json{std::string(text)}, true; }
std::string give(const Attribute& value) { return value.json(); }

std::string expected(const KeyRule&) { return "KEYS, with :last=NUMBER, :every=NUMBER or both"; }
bool take(KeyRule& rule, Text text) {
  // A key may contain colons, so a part that is no option belongs to the key.
  while (true) {
    const auto at = text.rfind(':');
    const auto option = at == Text::npos ? Text() : text.substr(at + 1);
    constexpr Text last = "last=", every = "every=";
    if (option.starts_with(last)) {
      if (!take(rule.last, option.substr(last.size()))) return false;
    } else if (option.starts_with(every)) {
      if (!take(rule.every, option.substr(every.size()))) return false;
    } else {
      rule.keys = text;
      return !rule.keys.empty() && option.find('=') == Text::npos;  // it was meant as an option
    }
    text = text.substr(0, at);
  }
}
std::string give(const KeyRule& rule) {
  return cat(rule.keys, ":last=", rule.last, rule.every == 1 ? "" : cat(":every=", rule.every));
}

std::string expected(const Accept&) { return "versions, between commas"; }
bool take(Accept& value, Text text) {
  value.versions.clear();
  for (; !text.empty(); text.remove_prefix(std::min(text.find(',') + 1, text.size()))) {
    const auto end = std::min(text.find(','), text.size());
    if (end == 0) return false;
    value.versions.emplace_back(text.substr(0, end));
    if (end == text.size()) break;
  }
  return true;
}
std::string give(const Accept& value) {
  std::string text;
  for (const auto& one : value.versions) text += cat(text.empty() ? "" : ",", one);
  return text;
}

std::string expected(const Mtbf&) { return "seconds, seconds:node, learnt or learnt:seconds"; }
bool take(Mtbf& value, Text text) {
  if (text == "learnt") return value = Mtbf::learnt(), true;
  double seconds = 0;
  const auto colon = std::min(text.find(':'), text.size());
  if (text.substr(0, colon) == "learnt") {
    return take(seconds, text.substr(colon + 1)) && (value = Mtbf::learnt(seconds), true);
  }
  if (!take(seconds, text.substr(0, colon))) return false;
  const auto of = text.substr(colon);
  value = of.empty() ? Mtbf::job(seconds) : Mtbf::per_node(seconds);
  return of.empty() || of == ":node";
}
std::string give(const Mtbf& value) {
  const auto seconds = give(value.seconds);
  return value.of == Mtbf::Of::job    ? seconds
         : value.of == Mtbf::Of::node ? seconds + ":node"
                                      : "learnt:" + seconds;
}

template <class T>
struct ListOf {};
template <class T>
struct ListOf<std::vector<T>> {
  using type = T;
};
template <>
struct ListOf<Dims> {
  using type = std::int64_t;
};
template <class T>
concept List = requires(typename ListOf<T>::type& item) {
  { take(item, Text()) } -> std::same_as<bool>;
};
template <List T>
std::string expected(const T&) {
  return expected(typename ListOf<T>::type{}) + ", or several between commas";
}
template <List T>
bool take(T& value, Text text) {
  T all;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    typename ListOf<T>::type item{};
    // A comma at the end is refused, since an item is missing behind it.
    if (!take(item, text.substr(0, comma)) || comma + 1 == text.size()) return false;
    all.push_back(std::move(item));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  value = std::move(all);
  return true;
}
template <List T>
std::string give(const T& value) {
  std::string text;
  for (const auto& item : value) text += cat(&item == &*value.begin() ? "" : ",", give(item));
  return text;
}

template <class T>
concept Single = requires(T& value) {
  { take(value, Text()) } -> std::same_as<bool>;
};
template <Single T>
std::string expected(const std::optional<T>&) {
  return expected(T{}) + "; or none";
}
template <Single T>
bool take(std::optional<T>& value, Text text) {
  if (text == "none") return value.reset(), true;
  T read{};
  return take(read, text) && (value = read, true);
}
template <Single T>
std::string give(const std::optional<T>& value) {
  return value ? give(*value) : "none";
}

template <class T>
concept AsText = requires(T& value, Text text) {
  { take(value, text) } -> std::same_as<bool>;
};

// Types with members by key: a map has values, a set has or lacks a key.
template <class T>
struct Keyed : std::false_type {};
template <class T, class C>
struct Keyed<std::map<std::string, T, C>> : std::true_type {
  static void set(auto& values, const std::string& key, const auto& assign) {
    // A copy is assigned, so that a text that is refused changes nothing.
    T value = values.contains(key) ? values.at(key) : T(empty(static_cast<T*>(nullptr)));
    assign(value);
    if constexpr (std::is_same_v<T, Attribute>) {
      descriptions::encode_new({.attributes = {{key, value}}});  // throws if no save takes it
    }
    values.insert_or_assign(key, std::move(value));
  }
  static std::optional<std::string> get(const auto& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::nullopt : std::optional(give(found->second));
  }

 private:
  // The value of a key before it is assigned.
  static Attribute empty(Attribute*) { return false; }
  template <class U>
  static U empty(U*) {
    return U{};
  }
};
template <>
struct Keyed<std::set<std::string>> : std::true_type {
  static void set(std::set<std::string>& values, const std::string& key, const auto& assign) {
    // The text of a key is true or false.
    bool there = false;
    assign(there);
    if (there) {
      values.insert(key);
    } else {
      values.erase(key);
    }
  }
  static std::optional<std::string> get(const std::set<std::string>& values,
                                        const std::string& key) {
    return values.contains(key) ? std::optional<std::string>("true") : std::nullopt;
  }
};

// An optional group of options. Its own name sets whether it exists, and setting a member makes it,
// too.
template <class T>
struct OptionalGroup : std::false_type {};
template <class T>
requires(!Single<T>) struct OptionalGroup<std::optional<T>> : std::true_type {
};

// The common part of both visitors. Options are found by their full names. All names are
// remembered, to suggest one if no option has the wanted name.
template <class Derived>
struct ByName {
  struct Search {
    Text wanted;
    bool found = false;
    std::vector<std::string> names = {};
  };
  Search& search;
  std::string group_name = {};

  // For texts it does not matter whether ranks must agree.
  template <class T>
  void agreed(const char* name, T& value) {
    member(cat(group_name, name), value);
  }
  template <class T>
  void validated(const char* name, T& value) {
    member(cat(group_name, name), value);
  }
  template <class T>
  void own(const char* name, T& value) {
    member(cat(group_name, name), value);
  }
  template <class T>
  void group(const char* name, T& options) {
    auto inner = self();
    inner.group_name = cat(group_name, name, ".");
    std::remove_const_t<T>::visit(options, inner);
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }

  // One option. What it may be follows from its type: members by key, an optional group, a value
  // with a text, or code, which has no text.
  template <class T>
  void member(const std::string& name, T& value) {
    using Value = std::remove_const_t<T>;
    if constexpr (Keyed<Value>::value) {
      search.names.push_back(name + ".KEY");
      if (!search.wanted.starts_with(name + ".")) return;
      search.found = true;
      self().on_key(name, std::string(search.wanted.substr(name.size() + 1)), value);
    } else if constexpr (OptionalGroup<Value>::value) {
      // Its members are looked up in a copy, so that asking for one does not make the group.
      bool there = value.has_value();
      const bool before = there;
      member(name, there);
      auto inside = value.value_or(typename Value::value_type{});
      // Whether the group's own name was wanted, and not that of a member.
      const bool found = search.found;
      group(name.substr(group_name.size()).c_str(), inside);
      if constexpr (!std::is_const_v<T>) {
        if (there != before) value = there ? std::optional(inside) : std::nullopt;
        if (search.found && !found) value = inside;
      }
    } else if constexpr (AsText<Value>) {
      search.names.push_back(name);
      if (search.wanted != name) return;
      search.found = true;
      self().on_value(name, value);
    } else if (search.wanted == name) {
      throw Error(Code::unsupported, cat("option '", name, "' cannot be given as text"),
                  "its value is code or an object of the program",
                  "Give it through the function that the language has for it.");
    }
  }
};

struct Assign : ByName<Assign> {
  Text text = {};

  template <class T>
  void on_value(const std::string& name, T& value) {
    if (take(value, text)) return;
    throw Error(Code::invalid_argument, cat("option '", name, "' cannot be '", text, "'"), "",
                cat("It may be: ", expected(value), "."));
  }
  template <class T>
  void on_key(const std::string& name, const std::string& key, T& values) {
    Keyed<T>::set(values, key, [&](auto& value) { on_value(cat(name, ".", key), value); });
  }
};

struct Ask : ByName<Ask> {
  std::string* text = nullptr;

  template <class T>
  void on_value(const std::string&, const T& value) {
    if (text) *text = give(value);
  }
  template <class T>
  void on_key(const std::string& name, const std::string& key, const T& values) {
    auto found = Keyed<T>::get(values, key);
    if (!found) throw Error(Code::not_found, cat("option '", name, "' has no '", key, "'"));
    if (text) *text = std::move(*found);
  }
};

constexpr Text any_key = ".KEY";

// Cuts `name` to as many parts as `other` has: "renam" of "renam.u/v.w" for "rename".
Text as_many_parts(Text name, Text other) {
  std::size_t end = 0;
  for (auto dots = std::count(other.begin(), other.end(), '.'); dots >= 0; --dots) {
    end = std::min(name.find('.', end == 0 ? 0 : end + 1), name.size());
  }
  return name.substr(0, end);
}
Text last_part(Text name) { return name.substr(name.rfind('.') + 1); }

// What may have been meant: a similar name, a similar name with a key, or a name that ends like
// this one.
std::string like(Text wanted, const std::vector<std::string>& names) {
  Nearest nearest(wanted);
  for (const auto& name : names) nearest.offer(name);
  if (!nearest.word().empty()) return nearest.word();
  for (const Text name : names) {
    if (!name.ends_with(any_key)) continue;
    const auto group = name.substr(0, name.size() - any_key.size());
    const auto part = as_many_parts(wanted, group);
    Nearest with_key(part);
    with_key.offer(group);
    if (!with_key.word().empty()) return cat(group, wanted.substr(part.size()));
  }
  Nearest ending(last_part(wanted));
  for (const auto& name : names) ending.offer(last_part(name));
  for (const auto& name : names) {
    if (last_part(name) == ending.word()) return name;
  }
  return "";
}

[[noreturn]] void refuse(Text wanted, const std::vector<std::string>& names) {
  const auto with_key = cat(wanted, any_key);
  const bool lacks_key = std::find(names.begin(), names.end(), with_key) != names.end();
  if (lacks_key) {
    throw Error(Code::invalid_argument, cat("there is no option '", wanted, "'"), "",
                cat("Name the key, too: '", wanted, ".KEY'."));
  }
  std::string its;
  for (const auto& name : names) {
    if (name.starts_with(cat(wanted, '.'))) its += (its.empty() ? "" : ", ") + name;
  }
  if (!its.empty()) {
    throw Error(Code::invalid_argument, cat("there is no option '", wanted, "'"), "",
                cat("It is a group: ", its, "."));
  }
  const auto meant = like(wanted, names);
  throw Error(Code::invalid_argument, cat("there is no option '", wanted, "'"), "",
              meant.empty() ? "" : cat("Did you mean '", meant, "'?"));
}

template <class Options>
void set(Options& options, Text name, Text value) {
  typename Assign::Search search{name};
  Options::visit(options, Assign{{search}, value});
  if (!search.found) refuse(name, search.names);
}

template <class Options>
std::vector<std::string> names_of(const Options& options) {
  typename Ask::Search search{};
  Options::visit(options, Ask{{search}});
  return search.names;
}

// Arguments of tf.train.CheckpointManager.
const std::map<Text, Text>& tensorflow_words() {
  static const std::map<Text, Text> words = {{"max_to_keep", "keep.last"},
                                             {"checkpoint_name", "name"},
                                             {"checkpoint_interval", "when.interval.steps"},
                                             {"keep_checkpoint_every_n_hours", "keep.every_hours"}};
  return words;
}

// Refuses a name that is more similar to a word of TensorFlow's than to any option.
Text in_our_words(Text name) {
  const auto found = tensorflow_words().find(name);
  if (found != tensorflow_words().end()) return found->second;
  const auto names = option_names(ManagerOptions{});
  if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  Nearest nearest(name);
  for (const auto& [word, ours] : tensorflow_words()) nearest.offer(std::string(word));
  if (!nearest.word().empty()) refuse(name, {nearest.word()});
  return name;
}

}  // namespace

void set_option(ManagerOptions& options, Text name, Text value) {
  set(options, in_our_words(name), value);
}
void set_option(SaveOptions& options, Text name, Text value) { set(options, name, value); }
void set_option(RestoreOptions& options, Text name, Text value) { set(options, name, value); }
void set_option(StopOptions& options, Text name, Text value) { set(options, name, value); }

std::string option_text(const ManagerOptions& options, Text name) {
  std::string text;
  typename Ask::Search search{in_our_words(name)};
  ManagerOptions::visit(options, Ask{{search}, &text});
  if (!search.found) refuse(name, search.names);
  return text;
}

std::vector<std::string> option_names(const ManagerOptions& options) { return names_of(options); }
std::vector<std::string> option_names(const SaveOptions& options) { return names_of(options); }
std::vector<std::string> option_names(const RestoreOptions& options) { return names_of(options); }
std::vector<std::string> option_names(const StopOptions& options) { return names_of(options); }

}  // namespace cairn
