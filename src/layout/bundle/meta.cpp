#include "layout/bundle/meta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/json_depth.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/stored_gaps.hpp"
#include "model/descriptions.hpp"

namespace cairn::bundle {
namespace {

using Json = nlohmann::json;

[[noreturn]] void bad_meta(std::string reason) {
  throw Error(Code::data_loss, "the checkpoint's own metadata is damaged", std::move(reason));
}

// A member that has to be there and of this type.
template <class T>
T member(const Json& object, const char* name) {
  const auto* at = find_member(object, name);
  if (!at) bad_meta(cat("it lacks \"", name, "\""));
  if constexpr (std::is_same_v<T, std::string>) {
    if (at->is_string()) return at->get<std::string>();
    bad_meta(cat("\"", name, "\" is no text"));
  } else if constexpr (std::is_integral_v<T>) {
    if (is_whole<T>(*at)) return at->get<T>();
    bad_meta(cat("\"", name, "\" is no integer of ", sizeof(T) * 8, " bits"));
  } else {
    if (at->is_number()) return at->get<T>();
    bad_meta(cat("\"", name, "\" is no number"));
  }
}

// JSON has no numbers that are not finite.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::optional<double> metric_of(const Json& object) {
  const auto* value = find_member(object, "metric");
  if (!value) return std::nullopt;
  if (*value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (*value == "inf") return std::numeric_limits<double>::infinity();
  if (*value == "-inf") return -std::numeric_limits<double>::infinity();
  return member<double>(object, "metric");
}

// Microseconds are enough, and short as text.
double seconds(double value) { return std::round(value * 1e6) / 1e6; }

Json json_of(const SaveStatistics& save) {
  const auto& s = save.seconds;
  Json object = {{"asynchronous", save.asynchronous},
                 {"plan_reused", save.plan_reused},
                 {"bytes", save.bytes},
                 {"replica_bytes", save.replica_bytes},
                 {"files", save.files},
                 {"recycled_files", save.recycled_files},
                 {"blocked_seconds", seconds(save.blocked_seconds)},
                 {"total_seconds", seconds(save.total_seconds)},
                 {"wait_seconds", seconds(s.wait)},
                 {"plan_seconds", seconds(s.plan)},
                 {"capture_seconds", seconds(s.capture)},
                 {"write_seconds", seconds(s.write)},
                 {"merge_seconds", seconds(s.merge)},
                 {"slowest_rank", save.slowest.rank},
                 {"waiting_seconds", seconds(save.slowest.waiting_seconds)}};
  if (save.unchanged_bytes > 0) object["unchanged_bytes"] = save.unchanged_bytes;
  if (save.gap_bytes > 0) object["gap_bytes"] = save.gap_bytes;
  if (save.peak_resident_bytes > 0) object["peak_resident_bytes"] = save.peak_resident_bytes;
  if (!save.blocking_because.empty()) object["blocking_because"] = save.blocking_because;
  if (!save.shares.empty()) {
    auto& bytes = object["rank_bytes"] = Json::array();
    auto& times = object["rank_write_seconds"] = Json::array();
    for (const auto& share : save.shares) {
      bytes.push_back(share.bytes);
      times.push_back(seconds(share.write_seconds));
    }
  }
  return object;
}

// A past save is a row of numbers: there are many saves, and names would be most of the text.
Json row_of(const PastSave& save) {
  return {save.sequence,
          save.parent,
          save.step,
          std::round(save.wall_time_seconds * 1e3) / 1e3,
          save.ranks,
          save.bytes,
          seconds(save.total_seconds),
          seconds(save.blocked_seconds),
          seconds(save.write_seconds),
          int{save.asynchronous}};
}

// A later version may have longer rows.
PastSave past_save_of(const Json& row) {
  if (!row.is_array() || row.size() < 10) bad_meta("a row of \"before\" is short");
  PastSave save;
  save.sequence = whole<std::int64_t>(row[0], bad_meta);
  save.parent = whole<std::int64_t>(row[1], bad_meta);
  save.step = whole<std::int64_t>(row[2], bad_meta);
  save.wall_time_seconds = row[3].get<double>();
  save.ranks = whole<int>(row[4], bad_meta);
  save.bytes = whole<std::int64_t>(row[5], bad_meta);
  save.total_seconds = row[6].get<double>();
  save.blocked_seconds = row[7].get<double>();
  save.write_seconds = row[8].get<double>();
  save.asynchronous = whole<int>(row[9], bad_meta) != 0;
  return save;
}

void add_notes(Json& object, const RunNotes& run) {
  if (!run.keep.empty()) object["keep"] = run.keep;
  if (run.before.empty()) return;
  auto& rows = object["before"] = Json::array();
  for (const auto& save : run.before) rows.push_back(row_of(save));
}

// Some members may be missing. Statistics that lack another one are none at all.
std::optional<SaveStatistics> statistics_of(const Json& object, std::int64_t step) {
  if (!object.is_object()) return std::nullopt;
  try {
    SaveStatistics save;
    auto& s = save.seconds;
    save.step = step;
    save.asynchronous = object.value("asynchronous", false);
    save.plan_reused = object.value("plan_reused", false);
    save.blocking_because = object.value("blocking_because", std::string());
    save.bytes = member<std::int64_t>(object, "bytes");
    save.replica_bytes = member<std::int64_t>(object, "replica_bytes");
    const auto if_there = [&](const char* name) {
      return object.contains(name) ? member<std::int64_t>(object, name) : std::int64_t{0};
    };
    save.gap_bytes = if_there("gap_bytes");
    save.unchanged_bytes = if_there("unchanged_bytes");
    save.peak_resident_bytes = if_there("peak_resident_bytes");
    save.files = member<std::int64_t>(object, "files");
    save.recycled_files = member<std::int64_t>(object, "recycled_files");
    save.slowest.rank = member<int>(object, "slowest_rank");
    save.blocked_seconds = member<double>(object, "blocked_seconds");
    save.total_seconds = member<double>(object, "total_seconds");
    s.wait = member<double>(object, "wait_seconds");
    s.plan = member<double>(object, "plan_seconds");
    s.capture = member<double>(object, "capture_seconds");
    s.write = member<double>(object, "write_seconds");
    s.merge = member<double>(object, "merge_seconds");
    save.slowest.waiting_seconds = member<double>(object, "waiting_seconds");
    if (const auto* of_ranks = find_member(object, "rank_bytes")) {
      const auto bytes = whole_numbers<std::int64_t>(*of_ranks, bad_meta);
      const auto times = object.at("rank_write_seconds").get<std::vector<double>>();
      for (std::size_t i = 0; i < std::min(bytes.size(), times.size()); ++i) {
        save.shares.push_back({bytes[i], times[i]});
      }
    }
    return save;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// A damaged row empties the list of earlier saves: no restore needs it.
RunNotes notes_of(const Json& object) {
  RunNotes run;
  try {
    run.keep = object.value("keep", std::string());
    const auto* rows = find_member(object, "before");
    if (!rows) return run;
    for (const auto& row : *rows) run.before.push_back(past_save_of(row));
  } catch (const Json::exception&) {
    run.before.clear();
  } catch (const Error&) {
    run.before.clear();
  }
  return run;
}

void take_statistics(const Json& object, CheckpointMeta& meta) {
  meta.statistics = statistics_of(object, meta.step);
  if (meta.statistics) meta.run = notes_of(object);
}

Application application_of(const Json& object) {
  if (!object.is_object()) bad_meta("\"application\" is no object");
  return {member<std::string>(object, "name"), member<std::string>(object, "version"),
          member<std::string>(object, "commit")};
}

std::vector<Thinned> thinned_of(const Json& list) {
  if (!list.is_array()) bad_meta("\"thinned\" is no list");
  std::vector<Thinned> all;
  for (const auto& one : list) {
    if (!one.is_object()) bad_meta("what is told as thinned is no object");
    all.push_back({member<std::string>(one, "keys"), member<std::int64_t>(one, "tensors"),
                   member<std::int64_t>(one, "bytes"), member<std::int64_t>(one, "after"),
                   find_member(one, "every") ? member<std::int64_t>(one, "every") : 0});
  }
  return all;
}

// Readers search the keys, so they are sorted here.
NotFinite noted_of(const Json& object) {
  const auto keys_of = [&](const char* name) {
    std::vector<std::string> keys;
    const auto* list = object.is_object() ? find_member(object, name) : nullptr;
    if (!list || !list->is_array()) bad_meta("\"not_finite\" has no lists of keys");
    for (const auto& key : *list) {
      if (!key.is_string()) bad_meta("what is told as not finite is no key");
      keys.push_back(key.get<std::string>());
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  };
  return {keys_of("keys"), keys_of("turned")};
}

}  // namespace

std::string encode_statistics(const SaveStatistics& save, const RunNotes& run) {
  auto object = json_of(save);
  add_notes(object, run);
  return dump_json(object, NotUtf8::replaced);
}

void decode_statistics(std::string_view json, CheckpointMeta& meta) {
  take_statistics(parse_json(json, false), meta);
}

// Members that say nothing are left out.
std::string encode_meta(const CheckpointMeta& meta) {
  Json object = {{"step", meta.step},       {"sequence", meta.sequence},
                 {"parent", meta.parent},   {"wall_time_seconds", meta.wall_time_seconds},
                 {"version", meta.version}, {"ranks", meta.ranks},
                 {"policy", meta.policy},   {"uuid", meta.uuid}};
  if (!meta.savers.empty()) object["savers"] = meta.savers;
  if (!meta.name.empty()) object["name"] = meta.name;
  if (meta.metric) object["metric"] = number(*meta.metric);
  if (meta.statistics) {
    auto& statistics = object["statistics"] = json_of(*meta.statistics);
    add_notes(statistics, meta.run);
  }
  if (!meta.descriptions.empty()) {
    object["descriptions"] = parse_json(descriptions::encode(meta.descriptions));
  }
  if (!meta.gaps.empty()) object["gaps"] = parse_json(encode_gaps(meta.gaps));
  if (const auto& by = meta.application; !by.empty()) {
    object["application"] = {{"name", by.name}, {"version", by.version}, {"commit", by.commit}};
  }
  for (const auto& one : meta.thinned) {
    Json told = {
        {"keys", one.keys}, {"tensors", one.tensors}, {"bytes", one.bytes}, {"after", one.after}};
    if (one.every > 0) told.emplace("every", one.every);
    object["thinned"].push_back(std::move(told));
  }
  if (const auto& noted = meta.not_finite) {
    object["not_finite"] = {{"keys", noted->keys}, {"turned", noted->turned}};
  }
  return dump_json(object, NotUtf8::replaced);
}

// A few members have to be there; all others may be missing.
CheckpointMeta decode_meta(std::string_view json) {
  // The text comes from a file, and each level of it takes some stack when it is copied.
  if (json_depth(json) > descriptions::deepest_json + 10) bad_meta("it is nested too deep");
  const auto object = parse_json(json, false);
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
  if (const auto* savers = find_member(object, "savers")) {
    try {
      meta.savers = savers->get<std::map<std::string, std::set<std::string>>>();
    } catch (const Json::exception&) {
      bad_meta("\"savers\" is no list of keys for each name");
    }
  }
  if (object.contains("name")) meta.name = member<std::string>(object, "name");
  meta.metric = metric_of(object);
  if (const auto* save = find_member(object, "statistics")) take_statistics(*save, meta);
  if (const auto* said = find_member(object, "descriptions")) {
    meta.descriptions = descriptions::decode(said->dump());
  }
  if (const auto* gaps = find_member(object, "gaps")) meta.gaps = decode_gaps(gaps->dump());
  if (const auto* by = find_member(object, "application")) meta.application = application_of(*by);
  if (const auto* thinned = find_member(object, "thinned")) meta.thinned = thinned_of(*thinned);
  if (const auto* noted = find_member(object, "not_finite")) meta.not_finite = noted_of(*noted);
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
