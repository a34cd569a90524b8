#include "layout/hdf5/describe.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/text.hpp"
#include "layout/hdf5/key_path.hpp"
#include "model/keys.hpp"

namespace cairn::hdf5 {
namespace {

constexpr const char* what = "an attribute cannot be laid out";

// Text of variable length in UTF-8.
Handle text_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, what);
  check(H5Tset_size(type.get(), H5T_VARIABLE), what);
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), what);
  return type;
}

// Puts an attribute of `count` elements; a scalar if count < 0.
void put(hid_t object, const std::string& name, hid_t type, std::int64_t count, const void* data) {
  const auto extent = static_cast<hsize_t>(count);
  Handle space(count < 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &extent, nullptr), H5Sclose,
               what);
  Handle names(H5Pcreate(H5P_ATTRIBUTE_CREATE), H5Pclose, what);
  check(H5Pset_char_encoding(names.get(), H5T_CSET_UTF8), what);
  Handle attribute(H5Acreate2(object, name.c_str(), type, space.get(), names.get(), H5P_DEFAULT),
                   H5Aclose, what);
  check(H5Awrite(attribute.get(), type, data), what);
}

void put_text(hid_t object, const std::string& name, const std::string& text) {
  const char* begin = text.c_str();
  put(object, name, text_type().get(), -1, &begin);
}

void put_texts(hid_t object, const std::string& name, const std::vector<std::string>& texts) {
  std::vector<const char*> begins;
  for (const auto& text : texts) begins.push_back(text.c_str());
  put(object, name, text_type().get(), static_cast<std::int64_t>(texts.size()), begins.data());
}

// Puts a text of fixed length with a zero byte at its end, as HDF5's own programs write it.
void put_word(hid_t object, const std::string& name, const std::string& text) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, what);
  check(H5Tset_size(type.get(), text.size() + 1), what);
  put(object, name, type.get(), -1, text.c_str());
}

bool ends_early(const std::string& text) { return text.find('\0') != text.npos; }

// Puts a list of values of one kind as an array. Returns false for anything else.
bool put_list(hid_t object, const std::string& name, const nlohmann::json& list) {
  if (!list.is_array() || list.empty()) return false;
  const auto all = [&](auto is) { return std::all_of(list.begin(), list.end(), is); };
  const auto count = static_cast<std::int64_t>(list.size());
  const auto is_integer = [](const auto& one) {
    return one.is_number_integer() &&
           !(one.is_number_unsigned() &&
             !std::in_range<std::int64_t>(one.template get<std::uint64_t>()));
  };
  if (all(is_integer)) {
    const auto values = list.get<std::vector<std::int64_t>>();
    put(object, name, H5T_STD_I64LE, count, values.data());
  } else if (all([&](const auto& one) { return one.is_number_float() || is_integer(one); })) {
    const auto values = list.get<std::vector<double>>();
    put(object, name, H5T_IEEE_F64LE, count, values.data());
  } else if (all([](const auto& one) {
               return one.is_string() && !ends_early(one.template get<std::string>());
             })) {
    put_texts(object, name, list.get<std::vector<std::string>>());
  } else {
    return false;
  }
  return true;
}

// A value for which HDF5 has no type is put as its JSON text.
struct PutAttribute {
  hid_t object;
  const std::string& name;
  const Attribute& attribute;

  void operator()(bool value) const {
    // The enum as which h5py stores booleans.
    Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose, what);
    const signed char no = 0, yes = 1, bit = value ? 1 : 0;
    check(H5Tenum_insert(type.get(), "FALSE", &no), what);
    check(H5Tenum_insert(type.get(), "TRUE", &yes), what);
    put(object, name, type.get(), -1, &bit);
  }
  void operator()(std::int64_t value) const { put(object, name, H5T_STD_I64LE, -1, &value); }
  void operator()(std::uint64_t value) const { put(object, name, H5T_STD_U64LE, -1, &value); }
  void operator()(double value) const { put(object, name, H5T_IEEE_F64LE, -1, &value); }
  void operator()(const std::string& value) const {
    put_text(object, name, ends_early(value) ? attribute.json() : value);
  }
  // May also be a number, a boolean or a text: some language interfaces pass all values as JSON.
  void operator()(const Json& value) const {
    const auto parsed = parse_json(value.text, false);
    if (parsed.is_boolean()) return (*this)(parsed.get<bool>());
    if (parsed.is_number_unsigned() && !std::in_range<std::int64_t>(parsed.get<std::uint64_t>())) {
      return (*this)(parsed.get<std::uint64_t>());
    }
    if (parsed.is_number_integer()) return (*this)(parsed.get<std::int64_t>());
    if (parsed.is_number_float()) return (*this)(parsed.get<double>());
    if (parsed.is_string()) return (*this)(parsed.get<std::string>());
    if (!put_list(object, name, parsed)) put_text(object, name, value.text);
  }
};

void put_attributes(hid_t object, const Attributes& attributes) {
  for (const auto& [name, attribute] : attributes) {
    std::visit(PutAttribute{object, name, attribute}, attribute.value());
  }
}

std::string parent(const std::string& path) {
  const auto end = path.rfind('/');
  return end == path.npos ? std::string() : path.substr(0, end);
}

std::string inside(const std::string& group, const std::string& name) {
  return group.empty() ? name : cat(group, '/', name);
}

// Puts attributes and lists of axes first, and notes in `scales_` which datasets use which axis. In
// the end each axis is marked as a dimension scale and lists its users.
class Describer {
 public:
  Describer(hid_t h5, const NewFile& file) : h5_(h5), said_(file.descriptions) {
    std::vector<std::string> keys;
    const auto take = [&](const auto& all) {
      for (const auto& one : all) {
        shapes_[one.key] = one.shape;
        keys.push_back(one.key);
      }
    };
    take(file.datasets);
    take(file.strings);
    const auto groups = groups_of(keys);
    groups_.insert(groups.begin(), groups.end());
    groups_.emplace(own_group);
  }

  void run() {
    Handle root(H5Gopen2(h5_, "/", H5P_DEFAULT), H5Gclose, what);
    put_attributes(root.get(), said_.attributes);
    for (const auto& [key, said] : said_.by_key) {
      if (!groups_.count(key)) continue;
      Handle group(H5Gopen2(h5_, key.c_str(), H5P_DEFAULT), H5Gclose, what);
      put_attributes(group.get(), said.attributes);
    }
    for (const auto& [key, shape] : shapes_) {
      auto at = said_.by_key.find(key);
      if (at == said_.by_key.end()) at = said_.by_key.find(std::string(without_rank(key)));
      if (at != said_.by_key.end()) describe_dataset(key, shape, at->second);
    }
    for (const auto& [path, uses] : scales_) make_scale(path, uses);
  }

 private:
  struct Use {  // an element of REFERENCE_LIST, as HDF5 stores it
    hobj_ref_t dataset;
    int dimension;
    int gap = 0;  // fills the padding, so that the bytes are the same each time
  };

  Handle open(const std::string& path) const {
    return {H5Dopen2(h5_, path.c_str(), H5P_DEFAULT), H5Dclose, what};
  }
  hobj_ref_t reference(const std::string& path) const {
    hobj_ref_t found = 0;
    check(H5Rcreate(&found, h5_, path.c_str(), H5R_OBJECT, -1), what);
    return found;
  }

  // Units and coordinates have the names that netCDF programs look for.
  void describe_dataset(const std::string& key, const Dims& shape, const Description& said) {
    const auto dataset = open(key);
    const auto id = dataset.get();
    if (!said.units.empty()) put_text(id, "units", said.units);
    if (!said.coordinates.empty()) {
      std::string names;
      for (const auto& name : said.coordinates) names += cat(names.empty() ? "" : " ", name);
      put_text(id, "coordinates", names);
    }
    put_attributes(id, said.attributes);
    if (!said.dimensions.empty() && said.dimensions.size() == shape.size()) {
      put_axes(id, key, shape, said.dimensions);
    }
  }

  // Notes each axis of the dataset under the axis's path, for make_scale(), and lists the axes at
  // the dataset.
  void put_axes(hid_t dataset, const std::string& key, const Dims& shape,
                const std::vector<std::string>& names) {
    std::vector<std::string> axes;
    for (std::size_t d = 0; d < names.size(); ++d) {
      axes.push_back(find_axis(key, names[d], shape[d]));
    }
    if (axes.front() == key) {  // the dataset is its own axis, and gets no list of axes
      scales_[key];
      return;
    }
    put_texts(dataset, "DIMENSION_LABELS", names);
    std::vector<hobj_ref_t> references(axes.size());
    std::vector<hvl_t> lists(axes.size());
    bool any = false;
    for (std::size_t d = 0; d < axes.size(); ++d) {
      if (axes[d].empty()) continue;
      any = true;
      references[d] = reference(axes[d]);
      lists[d] = {1, &references[d]};
      scales_[axes[d]].push_back({reference(key), static_cast<int>(d)});
    }
    if (!any) return;
    Handle type(H5Tvlen_create(H5T_STD_REF_OBJ), H5Tclose, what);
    put(dataset, "DIMENSION_LIST", type.get(), static_cast<std::int64_t>(lists.size()),
        lists.data());
  }

  // The path of the axis of this name and extent. If there is none, makes a dimension beside `key`;
  // returns "" if its place is taken.
  std::string find_axis(const std::string& key, const std::string& name, std::int64_t extent) {
    for (auto group = parent(key);; group = parent(group)) {
      const auto at = shapes_.find(inside(group, name));
      if (at != shapes_.end() && at->second == Dims{extent}) return at->first;
      if (group.empty()) break;
    }
    const auto path = inside(parent(key), name);
    if (shapes_.count(path) || groups_.count(path) || name == ".") return "";
    const auto [made, is_new] = made_.emplace(path, extent);
    if (is_new) make_dimension(path, extent);
    return made->second == extent ? path : "";
  }

  // Makes a dataset without values, as netCDF-4 stores a dimension that has no variable.
  void make_dimension(const std::string& path, std::int64_t extent) const {
    const auto count = static_cast<hsize_t>(extent);
    Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose, what);
    Handle link(H5Pcreate(H5P_LINK_CREATE), H5Pclose, what);
    check(H5Pset_char_encoding(link.get(), H5T_CSET_UTF8), what);
    Handle how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
    // Nothing is ever written to it, so it takes no room in the file.
    check(H5Pset_alloc_time(how.get(), H5D_ALLOC_TIME_LATE), what);
    check(H5Pset_obj_track_times(how.get(), false), what);
    const Handle dataset(H5Dcreate2(h5_, path.c_str(), H5T_IEEE_F32LE, space.get(), link.get(),
                                    how.get(), H5P_DEFAULT),
                         H5Dclose, what);
  }

  // Marks a dataset as an axis, in the form of HDF5's dimension scales, and lists the datasets that
  // use it.
  void make_scale(const std::string& path, const std::vector<Use>& uses) const {
    const auto dataset = open(path);
    const auto made = made_.find(path);
    auto name = path.substr(path.rfind('/') + 1);
    if (made != made_.end()) {  // netCDF knows such a dimension by this sentence
      char sentence[96];
      std::snprintf(sentence, sizeof sentence,
                    "This is a netCDF dimension but not a netCDF variable.%10lld",
                    static_cast<long long>(made->second));
      name = sentence;
    }
    put_word(dataset.get(), "CLASS", "DIMENSION_SCALE");
    put_word(dataset.get(), "NAME", name);
    if (uses.empty()) return;
    Handle type(H5Tcreate(H5T_COMPOUND, sizeof(Use)), H5Tclose, what);
    check(H5Tinsert(type.get(), "dataset", HOFFSET(Use, dataset), H5T_STD_REF_OBJ), what);
    check(H5Tinsert(type.get(), "dimension", HOFFSET(Use, dimension), H5T_NATIVE_INT), what);
    put(dataset.get(), "REFERENCE_LIST", type.get(), static_cast<std::int64_t>(uses.size()),
        uses.data());
  }

  hid_t h5_;
  const Descriptions& said_;
  // Of all datasets of tensors, by key.
  std::map<std::string, Dims> shapes_;
  // Paths of all groups. No dimension can be made at one of them.
  std::set<std::string> groups_;
  std::map<std::string, std::int64_t> made_;        // dimensions without values: their extents
  std::map<std::string, std::vector<Use>> scales_;  // axes, and the datasets that use them
};

}  // namespace

void describe(hid_t h5, const NewFile& file) {
  if (!file.descriptions.empty()) Describer(h5, file).run();
}

}  // namespace cairn::hdf5
