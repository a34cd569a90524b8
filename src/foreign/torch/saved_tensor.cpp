#include "foreign/torch/saved_tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "foreign/torch/pickle.hpp"

namespace cairn::torch {
namespace {

using Kind = PickleValue::Kind;

struct Name {
  std::string_view dtype, storage;  // `storage`: torch's class of storages for it before 2.0
  DType is;
  bool is_bytes = false;  // `is` stores the bytes of a dtype that no checkpoint has

  StoredDType stored() const { return {is, is_bytes ? dtype : std::string_view()}; }
};
constexpr std::array<Name, 21> names{{
    {"float32", "FloatStorage", DType::float32},
    {"float64", "DoubleStorage", DType::float64},
    {"float16", "HalfStorage", DType::float16},
    {"bfloat16", "BFloat16Storage", DType::bfloat16},
    {"int64", "LongStorage", DType::int64},
    {"int32", "IntStorage", DType::int32},
    {"int16", "ShortStorage", DType::int16},
    {"int8", "CharStorage", DType::int8},
    {"uint8", "ByteStorage", DType::uint8},
    {"bool", "BoolStorage", DType::boolean},
    {"complex64", "ComplexFloatStorage", DType::complex64},
    {"complex128", "ComplexDoubleStorage", DType::complex128},
    {"uint16", "", DType::uint16},
    {"uint32", "", DType::uint32},
    {"uint64", "", DType::uint64},
    {"float8_e4m3fn", "", DType::float8_e4m3fn},
    {"float8_e5m2", "", DType::float8_e5m2},
    {"float8_e4m3fnuz", "", DType::float8_e4m3fnuz},
    {"float8_e5m2fnuz", "", DType::float8_e5m2fnuz},
    {"float8_e8m0fnu", "", DType::uint8, true},
    {"float4_e2m1fn_x2", "", DType::uint8, true},
}};

const Name* of_storage(std::string_view name) {
  const auto* found = std::find_if(names.begin(), names.end(), [&](const Name& one) {
    return !name.empty() && one.storage == name;
  });
  return found == names.end() ? nullptr : found;
}

// The classes and functions of a plain tensor's pickle.
bool known_in_tensor(std::string_view module, std::string_view name) {
  if (module == "torch") return dtype_of_torch(name) || of_storage(name);
  return (module == "torch.storage" && name == "UntypedStorage") ||
         (module == "torch._utils" &&
          (name == "_rebuild_tensor_v2" || name == "_rebuild_tensor_v3")) ||
         (module == "collections" && name == "OrderedDict");
}

// A plain value needs no class or function.
bool no_name(std::string_view, std::string_view) { return false; }

[[noreturn]] void no_tensor() { torch_refused("its pickle is no plain tensor"); }

// A shape or strides.
Dims numbers(const Pickle& pickle, const PickleValue& tuple) {
  if (tuple.kind != Kind::tuple || tuple.members.size() > 254) no_tensor();
  Dims all;
  for (std::size_t i = 0; i < tuple.members.size(); ++i) {
    const auto& one = pickle.member(tuple, i);
    if (one.kind != Kind::integer) no_tensor();
    if (one.integer < 0) torch_damaged("a tensor has a negative extent or stride");
    all.push_back(one.integer);
  }
  return all;
}

// Finds the number of the element that comes last in memory.
void find_last(SavedTensor& tensor) {
  tensor.last = tensor.first - 1;
  const auto empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  if (empty) return;
  std::int64_t last = tensor.first, bytes = 0;
  // No stride is negative, so the last index of each dimension is farthest.
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    std::int64_t more = 0;
    if (__builtin_mul_overflow(tensor.shape[d] - 1, tensor.strides[d], &more) ||
        __builtin_add_overflow(last, more, &last)) {
      torch_damaged("a tensor is larger than any file");
    }
  }
  const auto size = static_cast<std::int64_t>(dtype_size(tensor.type.dtype));
  if (last == std::numeric_limits<std::int64_t>::max() ||
      __builtin_mul_overflow(last + 1, size, &bytes)) {
    torch_damaged("a tensor is larger than any file");
  }
  tensor.last = last;
}

// The JSON of a plain value. Sets `whole` to false for anything else, also for a list in a list.
nlohmann::json plain(const PickleValue& value, bool& whole) {
  switch (value.kind) {
    case Kind::none:
      return nullptr;
    case Kind::boolean:
      return value.integer != 0;
    case Kind::integer:
      return value.integer;
    case Kind::real:
      whole = whole && std::isfinite(value.real);
      return value.real;
    case Kind::text:
      return std::string(value.text);
    default:
      return whole = false, nullptr;
  }
}

}  // namespace

std::optional<StoredDType> dtype_of_torch(std::string_view name) {
  for (const auto& one : names) {
    if (one.dtype == name) return one.stored();
  }
  return std::nullopt;
}

// The dtype that the pickle names or, without one, that of the storage's type.
static StoredDType dtype_of(const PickleValue& type, const PickleValue* dtype) {
  if (type.kind != Kind::global || (dtype && dtype->kind != Kind::global)) no_tensor();
  if (dtype) {
    const auto found = dtype_of_torch(dtype->name);
    if (!found) no_tensor();
    return *found;
  }
  const auto* found = type.text == "torch" ? of_storage(type.name) : nullptr;
  if (!found) no_tensor();
  return found->stored();
}

SavedTensor parse_saved_tensor(std::string_view bytes) {
  const Pickle pickle(bytes, known_in_tensor);
  const auto& root = pickle.root();
  const bool third = pickle.made_by(root, "torch._utils", "_rebuild_tensor_v3");
  if (!third && !pickle.made_by(root, "torch._utils", "_rebuild_tensor_v2")) no_tensor();
  const auto& arguments = pickle.member(root, 1);
  // The arguments are storage, first element, shape, strides, requires_grad and hooks; in v3 also
  // the dtype. More of them would change the elements' meaning, for example to conjugates.
  const std::size_t needed = third ? 7 : 6;
  if (arguments.members.size() != needed || root.members.size() != 2) no_tensor();
  const auto& storage = pickle.member(arguments, 0);
  if (storage.kind != Kind::persistent) no_tensor();
  const auto& id = pickle.member(storage, 0);
  if (id.kind != Kind::tuple || id.members.size() != 5) no_tensor();
  // The id of a storage: "storage", its type, its key, its device, and how many elements it has.
  const auto& key = pickle.member(id, 2);
  const auto& first = pickle.member(arguments, 1);
  if (pickle.member(id, 0).text != "storage" || key.kind != Kind::text ||
      first.kind != Kind::integer) {
    no_tensor();
  }
  SavedTensor tensor;
  tensor.type = dtype_of(pickle.member(id, 1), third ? &pickle.member(arguments, 6) : nullptr);
  tensor.storage = key.text;
  tensor.first = first.integer;
  tensor.shape = numbers(pickle, pickle.member(arguments, 2));
  tensor.strides = numbers(pickle, pickle.member(arguments, 3));
  if (tensor.first < 0 || tensor.shape.size() != tensor.strides.size()) {
    torch_damaged("a tensor does not lie in its storage");
  }
  find_last(tensor);
  return tensor;
}

std::optional<Attribute> parse_saved_value(std::string_view bytes) try {
  const Pickle pickle(bytes, no_name);
  const auto& root = pickle.root();
  bool whole = true;
  if (root.kind == Kind::list || root.kind == Kind::tuple) {
    // A pickle stores a text once, however often a list has it: two bytes may stand for any number.
    const auto most_text = (std::size_t{1} << 20) + 16 * bytes.size();
    std::size_t text = 0;
    auto list = nlohmann::json::array();
    for (std::size_t i = 0; i < root.members.size(); ++i) {
      const auto& member = pickle.member(root, i);
      text += member.text.size();
      if (text > most_text) return std::nullopt;
      list.push_back(plain(member, whole));
    }
    return whole ? std::optional<Attribute>(Json{dump_json(list, NotUtf8::throws)}) : std::nullopt;
  }
  const auto value = plain(root, whole);
  if (!whole) return std::nullopt;
  switch (root.kind) {
    case Kind::boolean:
      return Attribute(root.integer != 0);
    case Kind::integer:
      return Attribute(root.integer);
    case Kind::real:
      return Attribute(root.real);
    case Kind::text:
      return Attribute(std::string(root.text));
    default:
      return Attribute(Json{dump_json(value, NotUtf8::throws)});
  }
} catch (const Error& error) {
  if (error.code() == Code::unsupported) return std::nullopt;
  throw;
}

}  // namespace cairn::torch
