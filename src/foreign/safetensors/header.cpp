#include "foreign/safetensors/header.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cairn/box.hpp"
#include "cairn/error.hpp"

namespace cairn::safetensors {
namespace {

using Json = nlohmann::json;

// A dtype in the format's spelling and in a checkpoint.
struct Name {
  std::string_view name;
  DType dtype;
  std::string_view stored_as_bytes = {};
};
// A byte holds two elements of F4. The format counts elements; torch and checkpoints count bytes.
constexpr std::string_view two_in_a_byte = "float4_e2m1fn_x2";
constexpr std::array<Name, 18> names{{
    {"BOOL", DType::boolean},
    {"U8", DType::uint8},
    {"I8", DType::int8},
    {"F8_E5M2", DType::float8_e5m2},
    {"F8_E4M3", DType::float8_e4m3fn},
    {"I16", DType::int16},
    {"U16", DType::uint16},
    {"F16", DType::float16},
    {"BF16", DType::bfloat16},
    {"I32", DType::int32},
    {"U32", DType::uint32},
    {"F32", DType::float32},
    {"F64", DType::float64},
    {"I64", DType::int64},
    {"U64", DType::uint64},
    {"C64", DType::complex64},
    {"F8_E8M0", DType::uint8, "float8_e8m0fnu"},
    {"F4", DType::uint8, two_in_a_byte},
}};

constexpr std::string_view metadata_key = "__metadata__";

[[noreturn]] void damaged(std::string reason, const std::string& key = "") {
  Error error(Code::data_loss, "this is no sound safetensors file", std::move(reason));
  throw error.of_tensor(key);
}

// The member of a tensor's description whose value the parser reads.
enum class Member { none, dtype, shape, offsets };

// Takes the text piece by piece. It refuses whatever the format does not have, and keeps only what
// the header or the map needs.
class Parser : public nlohmann::json_sax<Json> {
 public:
  // `index`: parses the index of several files, which fills `weights`, not a header.
  Parser(Header& header, bool index) : header_(header), is_index_(index) {}
  WeightMap weights;

  bool start_object(std::size_t) override {
    if (member_ != Member::none) unexpected("an object");
    ++depth_;
    if (is_index_ ? depth_ > 2 && in_weights_ : depth_ > 2) unexpected("an object in an object");
    // The description of a tensor begins.
    if (!is_index_ && depth_ == 2 && !in_metadata_) seen_ = {};
    return true;
  }
  bool key(std::string& key) override {
    if (is_index_) return index_key(key);
    if (depth_ == 1) {
      name_ = key;
      if (!keys_.insert(key).second) damaged(cat("the key '", key, "' is there twice"), key);
      in_metadata_ = key == metadata_key;
      if (!in_metadata_) {
        header_.tensors.emplace_back();
        header_.tensors.back().key = key;
      }
    } else if (in_metadata_) {
      text_key_ = key;
      if (header_.metadata.contains(key)) damaged(cat("the metadata '", key, "' are there twice"));
    } else {
      member_ = key == "dtype"          ? Member::dtype
                : key == "shape"        ? Member::shape
                : key == "data_offsets" ? Member::offsets
                                        : Member::none;
      if (member_ == Member::none) damaged(cat("it has '", key, "'"), name_);
      if (!seen_.insert(member_).second) damaged(cat("it has '", key, "' twice"), name_);
    }
    return true;
  }
  bool end_object() override {
    if (!is_index_ && depth_ == 2 && !in_metadata_ && seen_.size() != 3) {
      damaged("it lacks its dtype, its shape or its data_offsets", name_);
    }
    if (depth_ == 2) in_weights_ = in_metadata_ = false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (is_index_) return index_value("a list");
    if (member_ != Member::shape && member_ != Member::offsets) unexpected("a list");
    if (in_list_) unexpected("a list in a list");
    in_list_ = true;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    if (is_index_) return true;
    auto& tensor = header_.tensors.back();
    if (member_ == Member::shape) {
      tensor.shape = numbers_;
    } else {
      if (numbers_.size() != 2 || numbers_[0] > numbers_[1]) {
        damaged("its data_offsets are not two ascending numbers", name_);
      }
      tensor.offset = numbers_[0];
      tensor.size = numbers_[1] - numbers_[0];
    }
    in_list_ = false;
    member_ = Member::none;
    return true;
  }
  bool string(std::string& text) override {
    if (is_index_) return index_text(text);
    if (in_metadata_ && depth_ == 2) {
      header_.metadata[text_key_] = text;
      return true;
    }
    if (member_ != Member::dtype) unexpected("a text");
    const auto* found =
        std::find_if(names.begin(), names.end(), [&](const Name& one) { return one.name == text; });
    if (found == names.end()) {
      throw Error(Code::unsupported, cat("tensor '", name_, "' has the dtype ", text),
                  "no checkpoint has it")
          .of_tensor(name_);
    }
    header_.tensors.back().dtype = found->dtype;
    header_.tensors.back().stored_as_bytes = found->stored_as_bytes;
    member_ = Member::none;
    return true;
  }
  bool number_unsigned(std::uint64_t number) override {
    if (is_index_) return index_value("a number");
    if (!in_list_) unexpected("a number");
    if (number > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      damaged(cat("it has the number ", number), name_);
    }
    numbers_.push_back(static_cast<std::int64_t>(number));
    return true;
  }
  bool number_integer(std::int64_t) override { return index_or("a negative number"); }
  bool number_float(double, const std::string&) override { return index_or("a fraction"); }
  bool null() override { return index_or("null"); }
  bool boolean(bool) override { return index_or("true or false"); }
  // JSON text has no binary values.
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    damaged(cat("its text is no JSON at byte ", at));
  }

 private:
  [[noreturn]] void unexpected(const char* what) const {
    damaged(cat("it has ", what, " where the format has none"), name_);
  }
  // An index may have such a value outside of its map, a header nowhere.
  bool index_or(const char* what) {
    return is_index_ ? index_value(what) : (unexpected(what), false);
  }

  bool index_key(const std::string& key) {
    if (depth_ == 1) {
      in_weights_ = key == "weight_map";
      if (in_weights_ && !keys_.insert(key).second) damaged("it has 'weight_map' twice");
    } else if (in_weights_) {
      name_ = key;
      if (weights.contains(key)) damaged(cat("the key '", key, "' is there twice"), key);
    }
    return true;
  }
  // An index may hold more beside its map, which other programs use.
  bool index_value(const char* what) {
    if (depth_ == 0 || in_weights_) unexpected(what);
    return true;
  }
  // A text in the map names a file, which must lie beside the index.
  bool index_text(const std::string& text) {
    if (depth_ == 0) unexpected("a text");
    if (depth_ != 2 || !in_weights_) return true;
    if (!is_name_of_neighbour(text)) {
      damaged(cat("its file '", text, "' is not the name of one beside it"), name_);
    }
    weights[name_] = text;
    return true;
  }

  Header& header_;
  const bool is_index_;
  // How many objects are open: 1 is the whole text, 2 a tensor, the metadata or the map.
  int depth_ = 0;
  bool in_metadata_ = false, in_weights_ = false, in_list_ = false;
  Member member_ = Member::none;
  // Members of the present tensor; and all keys so far, to find those that come twice.
  std::set<Member> seen_;
  std::set<std::string> keys_;
  // The present tensor's name, for errors; and the key of the present text in the metadata.
  std::string name_, text_key_;
  // Of the present list.
  std::vector<std::int64_t> numbers_;
};

// The size of a tensor in bytes; -1 if it is more than any file has.
std::int64_t bytes_of(const Tensor& tensor) {
  auto bytes = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return 0;
  for (const auto extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return -1;
  }
  return bytes;
}

// Turns a shape that counts elements of half a byte into one that counts bytes.
void count_bytes(Tensor& tensor) {
  if (tensor.stored_as_bytes != two_in_a_byte) return;
  if (tensor.shape.empty() || tensor.shape.back() % 2 != 0) {
    damaged(cat("its dtype is F4, of which two are in a byte, and its shape ",
                shape_text(tensor.shape)),
            tensor.key);
  }
  tensor.shape.back() /= 2;
}

// Tensors ascend by offset; they have to lie end to end, from the first byte of the data to the
// last.
void check(const Header& header, std::int64_t data_size) {
  std::int64_t at = 0;
  for (const auto& tensor : header.tensors) {
    if (tensor.size != bytes_of(tensor)) {
      damaged(cat("it has ", tensor.size, " bytes, which is not what ", dtype_name(tensor.dtype),
                  ' ', shape_text(tensor.shape), " needs"),
              tensor.key);
    }
    if (tensor.offset < at) damaged("its bytes overlap another tensor's", tensor.key);
    if (tensor.offset > at) damaged(cat("there is a gap before its bytes, at ", at), tensor.key);
    at += tensor.size;
    if (at > data_size) damaged("its bytes end behind the file's", tensor.key);
  }
  if (at != data_size) damaged(cat(data_size - at, " bytes at its end belong to no tensor"));
}

}  // namespace

std::int64_t Header::data_size() const {
  return tensors.empty() ? 0 : tensors.back().offset + tensors.back().size;
}

std::int64_t header_length(std::string_view first_bytes, std::int64_t file_size) {
  if (file_size < length_bytes || std::ssize(first_bytes) < length_bytes) {
    damaged("it is shorter than the length of a header");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(first_bytes[i])} << (8 * i);
  }
  if (length > std::uint64_t{longest_header}) damaged(cat("its header has ", length, " bytes"));
  if (std::cmp_greater(length, file_size - length_bytes)) {
    damaged(cat("its header would end behind the file, which has ", file_size, " bytes"));
  }
  return static_cast<std::int64_t>(length);
}

Header parse_header(std::string_view text, std::int64_t data_size) {
  if (!text.starts_with('{')) damaged("its header does not begin with '{'");
  Header header;
  Parser parser(header, false);
  Json::sax_parse(text, &parser);
  for (auto& tensor : header.tensors) count_bytes(tensor);
  // A tensor without bytes comes before one that begins at the same offset.
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const Tensor& a, const Tensor& b) {
                     return std::pair(a.offset, a.size) < std::pair(b.offset, b.size);
                   });
  check(header, data_size);
  return header;
}

std::string encode_header(const Header& header) {
  auto text = Json::object();
  for (const auto& [name, value] : header.metadata) text[std::string(metadata_key)][name] = value;
  for (const auto& tensor : header.tensors) {
    const auto* found = std::find_if(names.begin(), names.end(), [&](const Name& one) {
      return one.dtype == tensor.dtype && one.stored_as_bytes == tensor.stored_as_bytes;
    });
    if (found == names.end()) {
      throw Error(Code::internal, "safetensors has no such dtype").of_tensor(tensor.key);
    }
    auto shape = tensor.shape;
    if (tensor.stored_as_bytes == two_in_a_byte) shape.back() *= 2;
    text[tensor.key] = {{"dtype", found->name},
                        {"shape", shape},
                        {"data_offsets", {tensor.offset, tensor.offset + tensor.size}}};
  }
  auto bytes = dump_json(text, NotUtf8::throws);
  // JSON allows blanks at its end.
  bytes.append((8 - bytes.size() % 8) % 8, ' ');
  if (std::ssize(bytes) > longest_header) {
    throw Error(Code::unsupported,
                cat("the header of a safetensors file has ", bytes.size(), " bytes"),
                cat("no reader takes more than ", longest_header),
                "Make several files with --max-shard-size, or choose tensors with --under PATH.");
  }
  std::string length(length_bytes, '\0');
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length[i] = static_cast<char>(bytes.size() >> (8 * i) & 0xff);
  }
  return length + bytes;
}

bool is_metadata(std::string_view key) { return key == metadata_key; }

bool has_dtype(DType dtype) {
  return std::any_of(names.begin(), names.end(),
                     [&](const Name& one) { return one.dtype == dtype; });
}

bool has_dtype_of_bytes(std::string_view name, const Dims& shape) {
  if (name == two_in_a_byte && shape.empty()) return false;
  return std::any_of(names.begin(), names.end(),
                     [&](const Name& one) { return !name.empty() && one.stored_as_bytes == name; });
}

// The parser needs a header, which stays empty.
WeightMap parse_index(std::string_view text) {
  Header none;
  Parser parser(none, true);
  Json::sax_parse(text, &parser);
  if (parser.weights.empty()) damaged("it has no weight_map, or an empty one");
  return std::move(parser.weights);
}

std::string encode_index(const WeightMap& weights, std::int64_t total_size) {
  Json text;
  text["metadata"]["total_size"] = total_size;
  text["weight_map"] = weights;
  return dump_json(text, NotUtf8::throws, 2) + "\n";
}

}  // namespace cairn::safetensors
