#include "cairn/c/state.h"

#include "c/c_text.hpp"
#include "c/callbacks.hpp"
#include "c/handles.hpp"
#include "cairn/resizable.hpp"
#include "cairn/sparse.hpp"
#include "model/follow.hpp"

using namespace cairn;
using c::call;
using c::dims_of;
using c::dims_or_none;
using c::dtype_of_number;
using c::given;

namespace {

// Runs `make`, and adds the key to an error that it throws.
template <class Make>
auto of_key(const std::string& key, Make&& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw named(error, key);
  }
}

template <class Make>
int add(cairn_state* state, const char* key, Make&& make) {
  return call([&] {
    auto& tensors = given(state, "the state").state;
    const std::string name = &given(key, "the key");
    tensors.add(name, of_key(name, make));
  });
}

// Adds a tensor made of the program's rows.
template <class Make>
int add_rows(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
             const int64_t* row_shape, const cairn_rows* rows, Make&& make) {
  return call([&] {
    auto& tensors = given(state, "the state").state;
    const std::string name = &given(key, "the key");
    of_key(name, [&] {
      const auto number = dtype_of_number(dtype);
      const auto shape = dims_of(dims, row_shape, "the shape of a row");
      const auto all = c::rows_of(rows, number, shape, state);
      tensors.add(name, make(all, number, shape));
      all->taken();
    });
  });
}

PrivateOptions private_options(int optional, cairn_deal deal, void* context) {
  PrivateOptions options;
  options.optional = optional != 0;
  if (!deal) return options;
  options.deal = [=](int rank, int ranks, int stored_ranks) {
    return deal(context, rank, ranks, stored_ranks);
  };
  return options;
}

LocalTensor whole_of(cairn_dtype dtype, int dims, void* data, const int64_t* shape,
                     const int64_t* strides) {
  const auto extent = dims_of(dims, shape, "the shape");
  return slice(dtype_of_number(dtype), data, extent, Dims(extent.size(), 0), extent,
               dims_or_none(dims, strides));
}

LocalTensor patches_of(cairn_dtype dtype, int dims, const int64_t* shape, size_t count,
                       const cairn_patch* list) {
  const auto number = dtype_of_number(dtype);
  const auto whole = dims_of(dims, shape, "the shape");
  if (count == 0) return nothing(number, whole);
  given(list, "the list of patches");
  std::vector<LocalTensor> slices;
  for (size_t i = 0; i < count; ++i) {
    const auto& one = list[i];
    slices.push_back(slice(number, one.data, whole, dims_of(dims, one.start, "the start"),
                           dims_of(dims, one.extent, "the extent"),
                           dims_or_none(dims, one.strides)));
  }
  return patches(std::move(slices));
}

// The description of a tensor so far, to which something is added.
Description described(const State& state, const std::string& key) {
  const auto& all = state.descriptions().by_key;
  const auto found = all.find(key);
  return found == all.end() ? Description{} : found->second;
}

template <class Change>
int describe(cairn_state* state, const char* key, Change&& change) {
  return call([&] {
    auto& tensors = given(state, "the state").state;
    const std::string name = &given(key, "the key");
    of_key(name, [&] {
      auto description = described(tensors, name);
      change(description);
      tensors.describe(name, std::move(description));
    });
  });
}

}  // namespace

int cairn_state_create(cairn_state** state) {
  return call([&] { c::make(state); });
}
void cairn_state_free(cairn_state* state) { delete state; }

int cairn_state_add_slice(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                          void* data, const int64_t* shape, const int64_t* start,
                          const int64_t* extent, const int64_t* strides) {
  return add(state, key, [&] {
    return slice(dtype_of_number(dtype), data, dims_of(dims, shape, "the shape"),
                 dims_of(dims, start, "the start"), dims_of(dims, extent, "the extent"),
                 dims_or_none(dims, strides));
  });
}

int cairn_state_add_slice_at(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                             void* const* data, const int64_t* shape, const int64_t* start,
                             const int64_t* extent, const int64_t* strides) {
  return add(state, key, [&] {
    given(data, "the address of the array's address");
    return each_time([=, number = dtype_of_number(dtype), whole = dims_of(dims, shape, "the shape"),
                      at = dims_of(dims, start, "the start"),
                      part = dims_of(dims, extent, "the extent"),
                      steps = dims_or_none(dims, strides)] {
      return slice(number, *data, whole, at, part, steps);
    });
  });
}

int cairn_state_add_whole(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                          void* data, const int64_t* shape, const int64_t* strides) {
  return add(state, key, [&] { return whole_of(dtype, dims, data, shape, strides); });
}

int cairn_state_add_patches(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                            const int64_t* shape, size_t count, const cairn_patch* patches) {
  return add(state, key, [&] { return patches_of(dtype, dims, shape, count, patches); });
}

int cairn_state_add_sparse(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                           const int64_t* shape, size_t count, const cairn_patch* patches,
                           cairn_dtype fill_dtype, const void* fill, int gaps) {
  return add(state, key, [&] {
    if (gaps != CAIRN_FILL_GAPS && gaps != CAIRN_KEEP_GAPS) {
      throw Error(Code::invalid_argument, cat(gaps, " is no way to restore gaps"), "",
                  "Give CAIRN_FILL_GAPS or CAIRN_KEEP_GAPS.");
    }
    given(static_cast<const std::byte*>(fill), "the fill value");
    return sparse(patches_of(dtype, dims, shape, count, patches), dtype_of_number(fill_dtype), fill,
                  gaps == CAIRN_KEEP_GAPS ? Gaps::keep : Gaps::fill);
  });
}

int cairn_state_add_text(cairn_state* state, const char* key, char* text, size_t capacity,
                         int64_t count, char padding) {
  return add(state, key, [&] {
    if (count < -1) throw Error(Code::invalid_argument, cat("there cannot be ", count, " texts"));
    const Dims shape = count < 0 ? Dims{} : Dims{count};
    const auto texts = static_cast<size_t>(count < 0 ? 1 : count);
    if (texts > 0 && capacity > static_cast<size_t>(PTRDIFF_MAX) / texts) {
      throw Error(Code::invalid_argument,
                  cat(texts, " texts of ", capacity, " bytes are in no memory"));
    }
    if (count != 0) given(text, "the text");
    auto tensor = nothing(DType::string, shape);
    tensor.strings =
        c::fixed_text(text, texts, capacity, static_cast<std::ptrdiff_t>(capacity), padding);
    return tensor;
  });
}

int cairn_strings_create(cairn_strings** list) {
  return call([&] { c::make(list); });
}
void cairn_strings_free(cairn_strings* list) { delete list; }
int cairn_strings_append(cairn_strings* list, const char* bytes, size_t size) {
  return call([&] {
    auto& values = *given(list, "the list of strings").values;
    values.emplace_back(size == 0 ? std::string() : std::string(&given(bytes, "a string"), size));
  });
}
void cairn_strings_clear(cairn_strings* list) {
  if (list) list->values->clear();
}
size_t cairn_strings_count(const cairn_strings* list) { return list ? list->values->size() : 0; }
const char* cairn_strings_at(const cairn_strings* list, size_t index, size_t* size) {
  if (index >= cairn_strings_count(list)) return nullptr;
  const auto& value = (*list->values)[index];
  if (size) *size = value.size();
  return value.c_str();
}

namespace {

// The memory of a tensor of strings. It keeps the vector of strings alive.
struct OwnedStrings final : StringMemory, TensorSource {
  explicit OwnedStrings(std::shared_ptr<std::vector<std::string>> list) : values(std::move(list)) {}
  std::vector<std::string> get() const override { return *values; }
  void set(std::vector<std::string> restored) override { *values = std::move(restored); }
  Footprint footprint() const override { return footprint_of(*values); }
  void refresh(LocalTensor& tensor) const override {
    tensor.shape = {static_cast<std::int64_t>(values->size())};
  }
  std::shared_ptr<std::vector<std::string>> values;
};

}  // namespace

int cairn_state_add_strings(cairn_state* state, const char* key, cairn_strings* list) {
  return add(state, key, [&] {
    const auto kept = std::make_shared<OwnedStrings>(given(list, "the list of strings").values);
    auto tensor = nothing(DType::string, {static_cast<std::int64_t>(kept->values->size())});
    tensor.strings = kept;
    tensor.source = kept;
    return tensor;
  });
}

int cairn_state_add_resizable_strings(cairn_state* state, const char* key, cairn_strings* list) {
  return add(state, key, [&] { return resizable(*given(list, "the list of strings").values); });
}

int cairn_state_add_resizable(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                              const int64_t* row_shape, const cairn_rows* rows) {
  return add_rows(state, key, dtype, dims, row_shape, rows,
                  [&](const auto& all, auto number, const auto& shape) {
                    return resizable(all, number, shape);
                  });
}

int cairn_state_add_ragged(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                           const int64_t* row_shape, const cairn_rows* rows,
                           cairn_distribution distribution, void* context) {
  return add_rows(state, key, dtype, dims, row_shape, rows,
                  [&](const auto& all, auto number, const auto& shape) {
                    RowDistribution deal;
                    if (distribution) {
                      deal = [=](std::int64_t total, int rank, int ranks) {
                        return distribution(context, total, rank, ranks);
                      };
                    }
                    return ragged(all, number, shape, std::move(deal));
                  });
}

int cairn_state_add_private(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                            void* data, const int64_t* shape, int optional, cairn_deal deal,
                            void* context) {
  return add(state, key, [&] {
    return rank_private(whole_of(dtype, dims, data, shape, nullptr),
                        private_options(optional, deal, context));
  });
}

int cairn_state_add_private_rows(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                                 const int64_t* row_shape, const cairn_rows* rows, int optional,
                                 cairn_deal deal, void* context) {
  return add_rows(state, key, dtype, dims, row_shape, rows,
                  [&](const auto& all, auto number, const auto& shape) {
                    return rank_private(all, number, shape,
                                        private_options(optional, deal, context));
                  });
}

int cairn_state_add_indexed(cairn_state* state, const char* key, const cairn_ids* ids,
                            cairn_dtype dtype, int dims, void* data, const int64_t* shape,
                            const int64_t* strides) {
  return add(state, key, [&] {
    return indexed(given(ids, "the ids").ids, whole_of(dtype, dims, data, shape, strides));
  });
}

int cairn_state_add_indexed_rows(cairn_state* state, const char* key, const cairn_ids* ids,
                                 cairn_dtype dtype, int dims, const int64_t* row_shape,
                                 const cairn_rows* rows) {
  return add_rows(state, key, dtype, dims, row_shape, rows,
                  [&](const auto& all, auto number, const auto& shape) {
                    return indexed(given(ids, "the ids").ids, all, number, shape);
                  });
}

int cairn_state_store(cairn_state* state, const char* storage) {
  return call([&] {
    const std::string_view word = &given(storage, "the way to store");
    auto& tensors = given(state, "the state").state;
    if (word == "automatic") {
      tensors.store(Storage::automatic);
    } else if (word == "sliced") {
      tensors.store(Storage::sliced);
    } else if (word == "dense") {
      tensors.store(Storage::dense);
    } else {
      throw Error(Code::invalid_argument, cat("tensors cannot be stored as '", word, "'"), "",
                  "It may be: automatic, sliced, dense.");
    }
  });
}

int cairn_state_units(cairn_state* state, const char* key, const char* units) {
  return describe(state, key, [&](Description& one) { one.units = &given(units, "the units"); });
}

int cairn_state_dimensions(cairn_state* state, const char* key, int dims,
                           const char* const* names) {
  return describe(state, key, [&](Description& one) {
    if (dims < 0) throw Error(Code::invalid_argument, cat("there are ", dims, " dimensions"));
    one.dimensions.clear();
    for (int i = 0; i < dims; ++i) {
      one.dimensions.emplace_back(
          &given((&given(names, "the names of dimensions"))[i], "the name of a dimension"));
    }
  });
}

int cairn_state_attribute(cairn_state* state, const char* key, const char* name, const char* json) {
  const auto attribute = [&] {
    return std::pair<const std::string, Attribute>(&given(name, "the name of an attribute"),
                                                   Json{&given(json, "the value")});
  };
  if (!key) {
    return call([&] { given(state, "the state").state.describe(Attributes{attribute()}); });
  }
  return describe(state, key, [&](Description& one) {
    auto value = attribute();
    one.attributes.insert_or_assign(value.first, std::move(value.second));
  });
}
