#include "layout/bundle/stored_gaps.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/box_in_shape.hpp"
#include "model/box_index.hpp"

namespace cairn::bundle {
namespace {

using Json = nlohmann::json;

[[noreturn]] void bad_gaps(std::string_view reason) {
  throw Error(Code::data_loss, "the checkpoint's own metadata is damaged",
              cat("\"gaps\": ", reason));
}

// JSON holds text, not any bytes.
std::string hex_of(const std::string& bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string bytes_of(const std::string& hex) {
  if (hex.empty() || hex.size() % 2 != 0 || hex.size() > 64 ||
      hex.find_first_not_of("0123456789abcdef") != hex.npos) {
    bad_gaps("a fill value is no element");
  }
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(value(hex[i]) << 4 | value(hex[i + 1]));
  }
  return bytes;
}

// A row has the starts of all dimensions, then the extents.
Box box_of(const Json& row) {
  const auto numbers = whole_numbers<std::int64_t>(row, bad_gaps);
  if (numbers.size() % 2 != 0) bad_gaps("a box has starts without extents");
  const auto half = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  return {Dims(numbers.begin(), half), Dims(half, numbers.end())};
}

// Why the gaps do not fit the tensor; empty if they do.
std::string misfit(const StoredTensor& tensor, const StoredGaps& gaps) {
  if (gaps.fill.size() != dtype_size(tensor.dtype)) return "their fill value is of another dtype";
  for (const auto& box : gaps.boxes) {
    if (!lies_inside(box, tensor.shape) || box.empty()) return "one lies outside of the tensor";
  }
  return first_overlap(gaps.boxes) ? "two overlap" : "";
}

}  // namespace

std::string encode_gaps(const GapsByKey& all) {
  auto object = Json::object();
  for (const auto& [key, gaps] : all) {
    auto rows = Json::array();
    for (const auto& box : gaps->boxes) {
      auto row = Json::array();
      for (const auto start : box.start) row.push_back(start);
      for (const auto extent : box.extent) row.push_back(extent);
      rows.push_back(std::move(row));
    }
    object[key] = {{"fill", hex_of(gaps->fill)}, {"boxes", std::move(rows)}};
  }
  return dump_json(object, NotUtf8::replaced);
}

GapsByKey decode_gaps(std::string_view json) {
  GapsByKey all;
  try {
    const auto object = parse_json(json);
    for (const auto& [key, said] : object.items()) {
      StoredGaps gaps{bytes_of(said.at("fill").get<std::string>()), {}};
      for (const auto& row : said.at("boxes")) gaps.boxes.push_back(box_of(row));
      all[key] = std::make_shared<const StoredGaps>(std::move(gaps));
    }
  } catch (const Json::exception& error) {
    bad_gaps(error.what());
  }
  return all;
}

void fit_gaps(CheckpointContents& contents) {
  if (!contents.meta) return;
  for (auto& tensor : contents.tensors) {
    const auto at = contents.meta->gaps.find(tensor.key);
    if (at == contents.meta->gaps.end() || !tensor.problem.empty()) continue;
    const auto why = misfit(tensor, *at->second);
    if (why.empty()) {
      tensor.gaps = at->second;
    } else {
      tensor.problem = cat("the metadata's gaps of it are damaged: ", why);
    }
  }
}

}  // namespace cairn::bundle
