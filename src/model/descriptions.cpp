#include "model/descriptions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/json_depth.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::descriptions {
namespace {

using Json = nlohmann::json;

// The owner of an attribute, for errors.
struct Owner {
  std::string key;  // empty: the checkpoint
  std::string text() const { return key.empty() ? "the checkpoint" : cat("tensor '", key, "'"); }
};

[[noreturn]] void refuse(const Owner& owner, std::string_view what, std::string reason,
                         std::string way_out = "") {
  throw Error(Code::invalid_argument, cat(what, " of ", owner.text(), " cannot be stored"),
              std::move(reason), std::move(way_out))
      .of_tensor(owner.key);
}

void require_text(const Owner& owner, std::string_view what, const std::string& text) {
  if (!is_utf8(text)) refuse(owner, what, "it is not UTF-8");
  if (text.find('\0') == text.npos) return;
  refuse(owner, what, "it has a zero byte, where HDF5 ends a text");
}

void require_name(const Owner& owner, std::string_view what, const std::string& name) {
  require_text(owner, what, name);
  if (name.empty()) refuse(owner, what, "its name is empty");
}

// Names of attributes that HDF5's dimension scales, netCDF and Cairn write on datasets themselves.
bool is_reserved(std::string_view name) {
  constexpr std::array<std::string_view, 6> taken = {
      "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", "dtype"};
  return std::find(taken.begin(), taken.end(), name) != taken.end() ||
         name.starts_with("_Netcdf4") || name.starts_with("_nc3_") || name == "_NCProperties";
}

// Reasons of nlohmann begin with the name of an exception in brackets.
std::string reason_of(const Json::exception& error) {
  const std::string_view text = error.what();
  const auto end = text.find("] ");
  return std::string(end == text.npos ? text : text.substr(end + 2));
}

// Makes the JSON value of an attribute, and refuses what JSON cannot hold.
class Encoder {
 public:
  Encoder(const Owner& owner, const std::string& name)
      : owner_(owner), what_(cat("attribute '", name, "'")) {}

  Json operator()(bool value) const { return value; }
  Json operator()(std::int64_t value) const { return value; }
  Json operator()(std::uint64_t value) const { return value; }
  Json operator()(double value) const {
    if (!std::isfinite(value)) {
      refuse(owner_, what_, cat("JSON has no number ", value), "Give it as a text.");
    }
    return value;
  }
  Json operator()(const std::string& value) const {
    if (!is_utf8(value)) refuse(owner_, what_, "it is not UTF-8");
    return value;
  }
  Json operator()(const cairn::Json& value) const {
    try {
      return parse_json(value.text);
    } catch (const Json::exception& error) {
      refuse(owner_, what_, cat("it is not JSON: ", reason_of(error)),
             "A text is given as a string, not as Json.");
    }
  }

 private:
  const Owner& owner_;
  std::string what_;
};

Json encode(const Owner& owner, const Attributes& attributes) {
  Json object = Json::object();
  for (const auto& [name, attribute] : attributes) {
    object[name] = std::visit(Encoder(owner, name), attribute.value());
  }
  return object;
}

// Members that say nothing are left out.
Json encode(const Owner& owner, const Description& said) {
  Json object = Json::object();
  if (!said.units.empty()) object["units"] = said.units;
  if (!said.dimensions.empty()) object["dimensions"] = said.dimensions;
  if (!said.coordinates.empty()) object["coordinates"] = said.coordinates;
  if (!said.attributes.empty()) object["attributes"] = encode(owner, said.attributes);
  return object;
}

// Refuses what another reader could not store as an attribute of HDF5 or netCDF.
void require_new(const Owner& owner, const Attributes& attributes) {
  for (const auto& [name, attribute] : attributes) {
    const auto what = cat("attribute '", name, "'");
    require_name(owner, "an attribute", name);
    if (is_reserved(name)) {
      refuse(owner, what, "HDF5, netCDF or Cairn itself use this name", "Give it another name.");
    }
    const auto* json = std::get_if<cairn::Json>(&attribute.value());
    if (json == nullptr || json_depth(json->text) <= deepest_json) continue;
    refuse(owner, what, cat("it is nested deeper than ", deepest_json, " levels"));
  }
}

void require_new(const Owner& owner, const Description& said) {
  require_text(owner, "the unit", said.units);
  for (const auto& name : said.dimensions) {
    require_name(owner, "a dimension", name);
    if (name.find('/') == name.npos) continue;
    refuse(owner, cat("dimension '", name, "'"), "its name has a '/'");
  }
  for (const auto& name : said.coordinates) {
    require_name(owner, "a coordinate", name);
    if (name.find_first_of(" \t\n") == name.npos) continue;
    refuse(owner, cat("coordinate '", name, "'"), "its name has a blank, which ends a name there");
  }
  for (const char* taken : {"units", "dimensions", "coordinates"}) {
    if (!said.attributes.count(taken)) continue;
    refuse(owner, cat("attribute '", taken, "'"), "it is a member of its own",
           cat("Give it as Description::", taken, "."));
  }
  require_new(owner, said.attributes);
}

// The bytes of the texts as they are given, which is the least that they take.
std::size_t text_bytes(const Attributes& attributes) {
  std::size_t all = 0;
  for (const auto& [name, attribute] : attributes) {
    all += name.size();
    if (const auto* text = std::get_if<std::string>(&attribute.value())) all += text->size();
  }
  return all;
}

// All readers of a checkpoint read the descriptions.
void require_few(std::size_t bytes) {
  if (bytes <= most_description_bytes) return;
  throw Error(Code::invalid_argument,
              cat("what is said of the checkpoint and its tensors takes ", bytes, " bytes"),
              cat("it is read with each look at a checkpoint, so that ", most_description_bytes,
                  " are the limit"),
              "Save what is large as a tensor.");
}

[[noreturn]] void bad(std::string reason) {
  throw Error(Code::data_loss, "what is said of tensors is damaged", std::move(reason));
}

// Numbers, booleans and texts become values of C++; the rest stays JSON.
Attribute attribute_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::boolean:
      return value.get<bool>();
    case Json::value_t::number_integer:
      return value.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      return value.get<std::uint64_t>();
    case Json::value_t::number_float:
      return value.get<double>();
    case Json::value_t::string:
      return value.get<std::string>();
    default:
      return cairn::Json{dump_json(value, NotUtf8::throws)};
  }
}

Attributes decode_attributes(const Json& object) {
  if (!object.is_object()) bad("\"attributes\" is no object");
  Attributes attributes;
  for (const auto& [name, value] : object.items()) attributes.emplace(name, attribute_of(value));
  return attributes;
}

std::vector<std::string> decode_names(const Json& list) {
  if (!list.is_array()) bad("a list of names is no array");
  std::vector<std::string> names;
  for (const auto& name : list) {
    if (!name.is_string()) bad("a name is no text");
    names.push_back(name.get<std::string>());
  }
  return names;
}

Description decode_description(const Json& object) {
  if (!object.is_object()) bad("what is said of a tensor is no object");
  Description said;
  if (const auto* units = find_member(object, "units")) {
    if (!units->is_string()) bad("\"units\" is no text");
    said.units = units->get<std::string>();
  }
  if (const auto* names = find_member(object, "dimensions")) {
    said.dimensions = decode_names(*names);
  }
  if (const auto* names = find_member(object, "coordinates")) {
    said.coordinates = decode_names(*names);
  }
  if (const auto* attributes = find_member(object, "attributes")) {
    said.attributes = decode_attributes(*attributes);
  }
  return said;
}

}  // namespace

std::string encode(const Descriptions& said) {
  if (said.empty()) return "";
  Json object = Json::object();
  if (!said.attributes.empty()) object["attributes"] = encode({}, said.attributes);
  for (const auto& [key, one] : said.by_key) object["tensors"][key] = encode({key}, one);
  return dump_json(object, NotUtf8::throws);
}

std::string encode_new(const Descriptions& said) {
  require_new({}, said.attributes);
  std::size_t least = text_bytes(said.attributes);
  for (const auto& [key, one] : said.by_key) {
    require_new({key}, one);
    least += key.size() + text_bytes(one.attributes);
  }
  // Before the JSON is made, which would take as much memory again.
  require_few(least);
  auto text = encode(said);
  require_few(text.size());
  return text;
}

// Other members than these two are ignored: a later version may have added them.
Descriptions decode(std::string_view json) {
  Descriptions said;
  if (json.empty()) return said;
  // The text comes from a file. The levels around an attribute are few; copying a parsed text uses
  // the stack.
  if (json_depth(json) > deepest_json + 8) bad("it is nested too deep");
  const auto object = parse_json(json, false);
  if (!object.is_object()) bad("it is no JSON object");
  if (const auto* attributes = find_member(object, "attributes")) {
    said.attributes = decode_attributes(*attributes);
  }
  if (const auto* tensors = find_member(object, "tensors")) {
    if (!tensors->is_object()) bad("\"tensors\" is no object");
    for (const auto& [key, one] : tensors->items()) {
      said.by_key.emplace(key, decode_description(one));
    }
  }
  return said;
}

}  // namespace cairn::descriptions
