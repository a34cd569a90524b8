#pragma once
/// Reads a Python pickle without Python and without running its code. The opcodes of plain values
/// and of objects become a tree of values. A call that the pickle asks for is recorded, never made:
/// a list of harmless functions to call would have to be right about each of them. Every other
/// opcode is refused, and every name of a class or function that the caller does not know. A caller
/// has to count what it copies out of a pickle against its length, since two bytes may name a value
/// again, any number of times.
///
/// Facts: Python's module pickletools, and PEP 3154.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::torch {

struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    list,
    tuple,
    dict,       ///< members: key, value, key, value, …
    global,     ///< a class or function: module and name
    object,     ///< members: its class, the tuple of arguments, and its state if it has one
    call,       ///< members: the function, the tuple of arguments, and the state set afterwards
    persistent  ///< members: the id by which the writing application knows it
  };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  ///< of a boolean 0 or 1
  double real = 0;
  std::string_view text;               ///< UTF-8; of a global its module
  std::string_view name;               ///< of a global
  std::vector<std::uint32_t> members;  ///< numbers of values; one may occur often

  bool is_global(std::string_view module, std::string_view its_name) const {
    return kind == Kind::global && text == module && name == its_name;
  }
};

/// Its texts are views into the bytes that were read. Values may be members of each other.
class Pickle {
 public:
  /// Whether the pickle may name this class or function.
  using Known = bool (*)(std::string_view module, std::string_view name);

  /// Takes some 100 bytes of memory for each byte. Throws data_loss unless the bytes are one whole
  /// pickle; unsupported for what is refused.
  Pickle(std::string_view bytes, Known known);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](std::uint32_t number) const { return values_[number]; }
  const PickleValue& member(const PickleValue& of, std::size_t index) const {
    return values_[of.members[index]];
  }
  /// The value of a text key of a dict; null if it is not there.
  const PickleValue* find(const PickleValue& dict, std::string_view key) const;
  /// The state of an object or call; null if it has none.
  const PickleValue* state(const PickleValue& object) const;
  /// Whether it is an object or a call of this class or function.
  bool made_by(const PickleValue& value, std::string_view module, std::string_view name) const;

 private:
  friend class PickleReader;
  std::vector<PickleValue> values_;
  std::uint32_t root_ = 0;
};

/// Throw data_loss and unsupported for pickles, and for what torch writes around them.
[[noreturn]] void torch_damaged(std::string reason);
[[noreturn]] void torch_refused(std::string reason);

}  // namespace cairn::torch
