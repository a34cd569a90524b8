#include "foreign/torch/pickle.hpp"

#include <bit>
#include <cstdio>
#include <unordered_map>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::torch {

void torch_damaged(std::string reason) {
  throw Error(Code::data_loss, "this is no sound file of torch", std::move(reason));
}

void torch_refused(std::string reason) {
  throw Error(Code::unsupported, "this file of torch is refused", std::move(reason),
              "Load it with torch, if you trust it, and save what you need.");
}

using Kind = PickleValue::Kind;

namespace {

// The text in an error of a name that anybody may have written.
std::string printable(std::string_view name) {
  std::string text(name.substr(0, 80));
  for (auto& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace

// A pickle is a program for a stack machine. This runs only its instructions that make values.
class PickleReader {
 public:
  PickleReader(Pickle& out, std::string_view bytes, Pickle::Known known)
      : values_(out.values_), bytes_(bytes), known_(known) {
    values_.resize(4);  // None, False, True and (), which every pickle shares
    values_[no].kind = values_[yes].kind = Kind::boolean;
    values_[yes].integer = 1;
    values_[nothing].kind = Kind::tuple;
    while (!ended_) step();
    if (at_ != bytes_.size()) torch_damaged("there are bytes behind the end of a pickle");
    out.root_ = pop();
    if (!stack_.empty()) torch_damaged("a pickle leaves several values");
  }

 private:
  // Numbers of the shared values.
  static constexpr std::uint32_t none = 0, no = 1, yes = 2, nothing = 3;
  // On the stack: where the members of a container begin. No value has this number.
  static constexpr std::uint32_t mark = ~std::uint32_t{0};

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) torch_damaged("a pickle ends too early");
    const auto taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  std::uint64_t number(std::size_t count) {
    std::uint64_t value = 0;
    const auto taken = take(count);
    for (std::size_t i = 0; i < count; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    }
    return value;
  }
  // The text up to the end of the line, as old opcodes have it.
  std::string_view line() {
    const auto end = bytes_.find('\n', at_);
    if (end == bytes_.npos) torch_damaged("a pickle ends too early");
    const auto taken = take(end - at_);
    ++at_;
    return taken;
  }
  // A new value, and its number. References to values do not outlive this: the list may move.
  std::uint32_t make(Kind kind) {
    values_.emplace_back().kind = kind;
    return static_cast<std::uint32_t>(values_.size() - 1);
  }
  void push(std::uint32_t value) { stack_.push_back(value); }
  std::uint32_t pop() {
    if (stack_.empty() || stack_.back() == mark) torch_damaged("a pickle takes what is not there");
    const auto value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::uint32_t top() {
    const auto value = pop();
    push(value);
    return value;
  }
  // Takes all values above the last mark, and the mark, off the stack.
  std::vector<std::uint32_t> to_mark() {
    auto from = stack_.size();
    while (from > 0 && stack_[from - 1] != mark) --from;
    if (from == 0) torch_damaged("a pickle takes what is not there");
    std::vector<std::uint32_t> taken(stack_.begin() + static_cast<std::ptrdiff_t>(from),
                                     stack_.end());
    stack_.resize(from - 1);
    return taken;
  }

  void integer(std::int64_t value) {
    const auto made = make(Kind::integer);
    values_[made].integer = value;
    push(made);
  }
  void text(std::string_view value) {
    if (!is_utf8(value)) torch_damaged("a text of a pickle is not UTF-8");
    const auto made = make(Kind::text);
    values_[made].text = value;
    push(made);
  }
  // Two's complement, in as many bytes as the number needs.
  void long_integer() {
    const auto size = number(1);
    if (size > 8) torch_refused(cat("a pickle has an integer of ", size, " bytes"));
    auto value = number(size);
    const bool negative = size > 0 && (value >> (8 * size - 1) & 1) != 0;
    if (negative && size < 8) value |= ~std::uint64_t{0} << (8 * size);
    integer(std::bit_cast<std::int64_t>(value));
  }
  void tuple(std::size_t size) {
    std::vector<std::uint32_t> members(size);
    for (auto i = size; i-- > 0;) members[i] = pop();
    collect(Kind::tuple, std::move(members));
  }
  void collect(Kind kind, std::vector<std::uint32_t> members) {
    const auto made = make(kind);
    values_[made].members = std::move(members);
    push(made);
  }
  // Names of classes and functions are what makes a pickle dangerous: an unknown one ends the
  // reading.
  void global(std::string_view module, std::string_view name) {
    if (!known_(module, name)) {
      torch_refused(cat("its pickle asks for ", printable(module), '.', printable(name),
                        ", which could run any code"));
    }
    const auto made = make(Kind::global);
    values_[made].text = module;
    values_[made].name = name;
    push(made);
  }
  void stack_global() {
    const auto name = pop(), module = pop();
    if (values_[name].kind != Kind::text || values_[module].kind != Kind::text) {
      torch_damaged("a pickle asks for a class whose name is no text");
    }
    global(values_[module].text, values_[name].text);
  }
  // Records a call or a new object. Nothing is called.
  void call(Kind kind) {
    const auto arguments = pop(), callee = pop();
    if (values_[callee].kind != Kind::global || values_[arguments].kind != Kind::tuple) {
      torch_refused("its pickle calls what is no class or function");
    }
    collect(kind, {callee, arguments});
  }
  // Gives an object its state. Only one that was just made may get one, and only once.
  void build() {
    const auto state = pop(), object = top();
    auto& value = values_[object];
    if ((value.kind != Kind::object && value.kind != Kind::call) || value.members.size() != 2) {
      torch_refused("its pickle sets the state of what is no new object");
    }
    value.members.push_back(state);
  }
  void append(const std::vector<std::uint32_t>& members, Kind kind) {
    auto& target = values_[top()];
    if (target.kind != kind || (kind == Kind::dict && members.size() % 2 != 0)) {
      torch_refused("its pickle adds to what is no list or dict");
    }
    target.members.insert(target.members.end(), members.begin(), members.end());
  }
  // A pickle keeps values in numbered places, from which it takes them again.
  void memoize(std::uint64_t place) { memo_[place] = top(); }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) torch_damaged("a pickle recalls what it has not kept");
    push(found->second);
  }
  void step() {
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (!(values(code) || containers(code) || memory(code) || objects(code))) {
      char digits[8];
      std::snprintf(digits, sizeof digits, "0x%02x", code);
      torch_refused(cat("its pickle has the opcode ", digits, " at byte ", at_ - 1,
                        ", which no checkpoint needs"));
    }
  }
  // In pickletools' names: NONE, NEWTRUE, NEWFALSE, BININT, BININT1, BININT2, LONG1, BINFLOAT
  // (big-endian), SHORT_BINUNICODE, BINUNICODE, BINUNICODE8.
  bool values(unsigned char code) {
    switch (code) {
      case 'N':
        return push(none), true;
      case 0x88:
        return push(yes), true;
      case 0x89:
        return push(no), true;
      case 'J':
        return integer(std::int32_t(number(4))), true;
      case 'K':
        return integer(std::int64_t(number(1))), true;
      case 'M':
        return integer(std::int64_t(number(2))), true;
      case 0x8a:
        return long_integer(), true;
      case 'G': {
        std::uint64_t bits = 0;
        for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
        const auto made = make(Kind::real);
        values_[made].real = std::bit_cast<double>(bits);
        return push(made), true;
      }
      case 0x8c:
        return text(take(number(1))), true;
      case 'X':
        return text(take(number(4))), true;
      case 0x8d:
        return text(take(number(8))), true;
      default:
        return false;
    }
  }
  // MARK, EMPTY_TUPLE, EMPTY_LIST, EMPTY_DICT, TUPLE1, TUPLE2, TUPLE3, TUPLE, APPEND, APPENDS,
  // SETITEM, SETITEMS.
  bool containers(unsigned char code) {
    switch (code) {
      case '(':
        return stack_.push_back(mark), true;
      case ')':
        return push(nothing), true;
      case ']':
        return collect(Kind::list, {}), true;
      case '}':
        return collect(Kind::dict, {}), true;
      case 0x85:
        return tuple(1), true;
      case 0x86:
        return tuple(2), true;
      case 0x87:
        return tuple(3), true;
      case 't':
        return collect(Kind::tuple, to_mark()), true;
      case 'a': {
        const auto one = pop();
        return append({one}, Kind::list), true;
      }
      case 'e':
        return append(to_mark(), Kind::list), true;
      case 's': {
        const auto value = pop(), key = pop();
        return append({key, value}, Kind::dict), true;
      }
      case 'u':
        return append(to_mark(), Kind::dict), true;
      default:
        return false;
    }
  }
  // BINPUT, LONG_BINPUT, MEMOIZE, BINGET, LONG_BINGET.
  bool memory(unsigned char code) {
    switch (code) {
      case 'q':
        return memoize(number(1)), true;
      case 'r':
        return memoize(number(4)), true;
      case 0x94:
        return memoize(memo_.size()), true;
      case 'h':
        return recall(number(1)), true;
      case 'j':
        return recall(number(4)), true;
      default:
        return false;
    }
  }
  // PROTO, FRAME, STOP, GLOBAL, STACK_GLOBAL, NEWOBJ, REDUCE, BUILD, BINPERSID.
  bool objects(unsigned char code) {
    switch (code) {
      case 0x80:
        if (const auto protocol = number(1); protocol < 2 || protocol > 5) {
          torch_refused(cat("its pickle has protocol ", protocol));
        }
        return true;
      case 0x95:
        return frame(number(8)), true;
      case '.':
        return ended_ = true;
      case 'c': {
        const auto module = line(), name = line();
        return global(module, name), true;
      }
      case 0x93:
        return stack_global(), true;
      case 0x81:
        return call(Kind::object), true;
      case 'R':
        return call(Kind::call), true;
      case 'b':
        return build(), true;
      case 'Q': {
        const auto id = pop();
        return collect(Kind::persistent, {id}), true;
      }
      default:
        return false;
    }
  }
  // A frame only says how many bytes a reader may fetch at once.
  void frame(std::uint64_t size) const {
    if (size > bytes_.size() - at_) torch_damaged("a pickle ends too early");
  }

  std::vector<PickleValue>& values_;
  std::string_view bytes_;
  Pickle::Known known_;
  std::size_t at_ = 0;
  bool ended_ = false;
  // Numbers of values, and marks.
  std::vector<std::uint32_t> stack_;
  // The value at each place.
  std::unordered_map<std::uint64_t, std::uint32_t> memo_;
};

Pickle::Pickle(std::string_view bytes, Known known) { PickleReader(*this, bytes, known); }

// Goes through the members: callers limit how many there may be.
const PickleValue* Pickle::find(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != Kind::dict) return nullptr;
  for (std::size_t i = 0; i + 1 < dict.members.size(); i += 2) {
    const auto& one = member(dict, i);
    if (one.kind == Kind::text && one.text == key) return &member(dict, i + 1);
  }
  return nullptr;
}

const PickleValue* Pickle::state(const PickleValue& object) const {
  const bool made = object.kind == Kind::object || object.kind == Kind::call;
  return made && object.members.size() == 3 ? &member(object, 2) : nullptr;
}

bool Pickle::made_by(const PickleValue& value, std::string_view module,
                     std::string_view name) const {
  return (value.kind == Kind::object || value.kind == Kind::call) &&
         member(value, 0).is_global(module, name);
}

}  // namespace cairn::torch
