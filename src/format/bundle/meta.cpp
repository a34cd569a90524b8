#include "format/bundle/meta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::bundle {
namespace {

using Json = nlohmann::json;

[[noreturn]] void bad_meta(std::string reason) {
  throw Error(Code::data_loss, "the checkpoint's own metadata is damaged", std::move(reason));
}

template <class T>
T member(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end()) bad_meta(cat("it lacks \"", name, "\""));
  if constexpr (std::is_same_v<T, std::string>) {
    if (at->is_string()) return at->get<std::string>();
    bad_meta(cat("\"", name, "\" is no text"));
  } else if constexpr (std::is_integral_v<T>) {
    const bool fits = at->is_number_unsigned()
                          ? std::in_range<T>(at->get<std::uint64_t>())
                          : at->is_number_integer() && std::in_range<T>(at->get<std::int64_t>());
    if (fits) return at->get<T>();
    bad_meta(cat("\"", name, "\" is no integer of ", sizeof(T) * 8, " bits"));
  } else {
    if (at->is_number()) return at->get<T>();
    bad_meta(cat("\"", name, "\" is no number"));
  }
}

// JSON has no word for these.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::optional<double> metric_of(const Json& object) {
  if (!object.contains("metric")) return std::nullopt;
  const auto& value = object["metric"];
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return member<double>(object, "metric");
}

}  // namespace

std::string encode_meta(const CheckpointMeta& meta) {
  Json object = {{"step", meta.step},       {"sequence", meta.sequence},
                 {"parent", meta.parent},   {"wall_time_seconds", meta.wall_time_seconds},
                 {"version", meta.version}, {"ranks", meta.ranks},
                 {"policy", meta.policy},   {"uuid", meta.uuid}};
  if (!meta.savers.empty()) object["savers"] = meta.savers;
  if (meta.metric) object["metric"] = number(*meta.metric);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

CheckpointMeta decode_meta(std::string_view json) {
  const auto object = Json::parse(json, nullptr, false);
  if (!object.is_object()) bad_meta("it is no JSON object");
  CheckpointMeta meta;
  meta.step = member<std::int64_t>(object, "step");
  meta.sequence = member<std::int64_t>(object, "sequence");
  if (object.contains("parent")) meta.parent = member<std::int64_t>(object, "parent");
  meta.wall_time_seconds = member<double>(object, "wall_time_seconds");
  meta.version = member<std::string>(object, "version");
  meta.ranks = member<int>(object, "ranks");
  meta.policy = member<std::string>(object, "policy");
  meta.uuid = member<std::string>(object, "uuid");
  if (object.contains("savers")) {
    try {
      meta.savers = object["savers"].get<std::map<std::string, std::set<std::string>>>();
    } catch (const Json::exception&) {
      bad_meta("\"savers\" is no list of keys for each name");
    }
  }
  meta.metric = metric_of(object);
  return meta;
}

std::optional<StoredTensor> take_meta_entry(CheckpointContents& contents) {
  const auto at = std::find_if(contents.tensors.begin(), contents.tensors.end(),
                               [](const auto& tensor) { return tensor.key == meta_key; });
  if (at == contents.tensors.end()) return std::nullopt;
  auto entry = std::move(*at);
  contents.tensors.erase(at);
  if (!entry.problem.empty()) bad_meta(entry.problem);
  if (entry.dtype != DType::string || !entry.shape.empty() || entry.sliced) {
    bad_meta("its entry is no string scalar");
  }
  return entry;
}

}  // namespace cairn::bundle
