#include "layout/hdf5/holders.hpp"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::hdf5 {
namespace {

using Json = nlohmann::json;

constexpr std::string_view digits = "0123456789abcdef";

// JSON holds text, not any bytes.
std::string hex_of(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    hex += digits[static_cast<unsigned char>(c) >> 4];
    hex += digits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

[[noreturn]] void bad(std::string reason) {
  throw Error(Code::data_loss, "what is stored of the holders of slices is damaged",
              std::move(reason));
}

std::string bytes_of(const std::string& hex) {
  if (hex.size() % 2 != 0) bad("a key is no hexadecimal number");
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const auto high = digits.find(hex[i]), low = digits.find(hex[i + 1]);
    if (high == digits.npos || low == digits.npos) bad("a key is no hexadecimal number");
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

// A slice is a list: starts, extents, number of the task.
HeldSlice slice_of(const Json& item, std::size_t tasks) {
  HeldSlice slice;
  slice.box.start = whole_numbers<std::int64_t>(item.at(0), bad);
  slice.box.extent = whole_numbers<std::int64_t>(item.at(1), bad);
  const auto task = whole<std::int64_t>(item.at(2), bad);
  const auto rank = slice.box.start.size();
  if (rank != slice.box.extent.size()) bad("a box has two ranks");
  for (std::size_t d = 0; d < rank; ++d) {
    const auto start = slice.box.start[d], extent = slice.box.extent[d];
    if (start < 0 || extent < 0 || extent > std::numeric_limits<std::int64_t>::max() - start) {
      bad(cat("a box begins at ", start, " and has ", extent, " indices"));
    }
  }
  if (task < 0 || static_cast<std::size_t>(task) >= tasks) bad(cat("there is no task ", task));
  slice.task = static_cast<std::size_t>(task);
  return slice;
}

}  // namespace

// A key that is not UTF-8 is given in hexadecimal, under another name.
std::string encode_holders(const Holders& holders) {
  Json tensors = Json::array();
  for (const auto& [key, slices] : holders.tensors) {
    Json list = Json::array();
    for (const auto& one : slices) {
      list.push_back(Json::array({one.box.start, one.box.extent, one.task}));
    }
    const bool text = is_utf8(key);
    tensors.push_back({{text ? "key" : "key_hex", text ? key : hex_of(key)}, {"slices", list}});
  }
  const Json all = {{"tasks", holders.tasks}, {"tensors", std::move(tensors)}};
  return dump_json(all, NotUtf8::replaced);
}

Holders decode_holders(std::string_view json) {
  const auto all = parse_json(json, false);
  if (!all.is_object()) bad("it is no JSON object");
  try {
    Holders holders;
    holders.tasks = all.at("tasks").get<std::vector<std::string>>();
    for (const auto& one : all.at("tensors")) {
      auto key = one.contains("key") ? one.at("key").get<std::string>()
                                     : bytes_of(one.at("key_hex").get<std::string>());
      auto& slices = holders.tensors[std::move(key)];
      for (const auto& item : one.at("slices")) {
        slices.push_back(slice_of(item, holders.tasks.size()));
      }
    }
    return holders;
  } catch (const Json::exception& error) {
    bad(error.what());
  }
}

}  // namespace cairn::hdf5
