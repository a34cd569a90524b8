// Functions that the Fortran modules call besides the C interface: those that take arrays.
#include <string>

#include "base/face_words.hpp"
#include "cairn/bundle.hpp"
#include "cairn/c/bridge.hpp"
#include "cairn/error.hpp"
#include "cairn/indexed.hpp"
#include "cairn/ragged.hpp"
#include "cairn/sparse.hpp"
#include "fortran/descriptors.hpp"

using namespace cairn;
using fortran::extent_of;
using fortran::tensor_of;

namespace {

// Calls a function, and adds the tensor's key to its errors.
template <class Call>
int named(const char* key, const Call& call) {
  return c::call([&] {
    try {
      call();
    } catch (const Error& error) {
      if (!error.tensor().empty()) throw;
      throw Error(error.code(), "tensor '" + std::string(key) + "': " + error.problem(),
                  error.reason(), error.way_out())
          .of_tensor(key);
    }
  });
}

template <class Make>
int add(cairn_state* state, const char* key, const Make& make) {
  return named(key, [&] { state->state.add(key, make()); });
}

LocalTensor whole_of(const CFI_cdesc_t& array) {
  const auto extent = extent_of(array);
  return tensor_of(array, extent, Dims(extent.size(), 0));
}

// A tensor of which this rank holds several boxes, given one by one.
struct Patches final : TensorSource {
  void refresh(LocalTensor& tensor) const override { tensor.slices = slices; }
  std::vector<LocalSlice> slices;
};

bool same_fill(const SparseFill* one, const SparseFill* other) {
  if (!one || !other) return one == other;
  return one->dtype == other->dtype && one->element == other->element && one->gaps == other->gaps;
}

// Returns the earlier patches under this key; nullptr if there are none.
Patches* patches_of(const State& state, const std::string& key, const LocalTensor& next) {
  const auto* found = state.find(key);
  auto* patches = found ? dynamic_cast<Patches*>(found->source.get()) : nullptr;
  if (!patches) return nullptr;
  if (found->dtype != next.dtype || found->shape != next.shape) {
    throw Error(Code::invalid_argument, "a patch has another type or shape than those before it");
  }
  if (!same_fill(found->sparse.get(), next.sparse.get())) {
    throw Error(Code::invalid_argument, "a patch has another fill value than those before it", "",
                "Give the same one, and the same keep=, with each patch of a tensor.");
  }
  return patches;
}

// Adds one more of this rank's parts of a tensor.
void add_patch(State& state, const std::string& key, LocalTensor next) {
  State alone;  // throws the errors of this patch
  alone.add(key, next);
  if (auto* before = patches_of(state, key, next)) {
    auto slices = before->slices;
    slices.push_back(std::move(next.slices.front()));
    next.slices = slices;
    State().add(key, std::move(next));  // throws if the patches overlap
    before->slices = std::move(slices);
    return;
  }
  const auto patches = std::make_shared<Patches>();
  patches->slices = next.slices;
  next.source = patches;
  state.add(key, std::move(next));
}

// Returns the texts of a box of a stored tensor, in row-major order.
std::vector<std::string> part_of(const std::vector<std::string>& all, const StoredTensor& stored,
                                 const Box& box) {
  for (std::size_t d = 0; d < box.rank(); ++d) {
    const auto room = d < stored.shape.size() ? stored.shape[d] - box.extent[d] : -1;
    if (box.rank() == stored.shape.size() && box.start[d] >= 0 && box.start[d] <= room) continue;
    throw Error(Code::invalid_argument, "the array reaches out of '" + stored.key + "'", "",
                "Give start from 1 on for each dimension, or a smaller array.")
        .of_tensor(stored.key);
  }
  std::vector<std::string> part;
  const auto strides = row_major_strides(stored.shape);
  Dims index(box.rank(), 0);
  for (auto left = box.count(); left > 0; --left) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) at += (box.start[d] + index[d]) * strides[d];
    part.push_back(all.at(static_cast<std::size_t>(at)));
    for (auto d = index.size(); d-- > 0 && ++index[d] == box.extent[d];) index[d] = 0;
  }
  return part;
}

}  // namespace

extern "C" {

/// Returns the error of cairn_last_error(), in the terms of the Fortran interface.
const cairn_error* cairn_fortran_last_error(void) {
  thread_local std::string problem, reason, way_out, text;
  thread_local cairn_error shown;
  shown = *cairn_last_error();
  const auto say = [](const char*& of, std::string& kept) {
    kept = in_words_of(Face::fortran, of, Face::c);
    of = kept.c_str();
  };
  say(shown.problem, problem);
  say(shown.reason, reason);
  say(shown.way_out, way_out);
  say(shown.text, text);
  return &shown;
}

int cairn_fortran_add_patch(cairn_state* state, const char* key, const CFI_cdesc_t* array, int dims,
                            const std::int64_t* shape, int starts, const std::int64_t* start) {
  return named(key, [&] {
    if (dims != starts) {
      throw Error(Code::invalid_argument, "global_shape and start differ in length");
    }
    auto next =
        tensor_of(*array, fortran::reversed(dims, shape, 0), fortran::reversed(dims, start, 1));
    if (next.strings) throw Error(Code::invalid_argument, "characters have no patches");
    add_patch(state->state, key, std::move(next));
  });
}

int cairn_fortran_add_whole(cairn_state* state, const char* key, const CFI_cdesc_t* array) {
  return add(state, key, [&] { return whole_of(*array); });
}

int cairn_fortran_add_slice(cairn_state* state, const char* key, const CFI_cdesc_t* array, int dims,
                            const std::int64_t* shape, int starts, const std::int64_t* start) {
  return add(state, key, [&] {
    if (dims != starts) {
      throw Error(Code::invalid_argument, "global_shape has " + std::to_string(dims) +
                                              " numbers, and start " + std::to_string(starts));
    }
    return tensor_of(*array, fortran::reversed(dims, shape, 0), fortran::reversed(dims, start, 1));
  });
}

/// Adds a part of a tensor with gaps; a rank may add several. An array without elements adds no
/// part.
int cairn_fortran_add_sparse(cairn_state* state, const char* key, const CFI_cdesc_t* array,
                             int dims, const std::int64_t* shape, int starts,
                             const std::int64_t* start, int fill_dtype, const void* fill,
                             int keep) {
  return named(key, [&] {
    if (dims != starts) {
      throw Error(Code::invalid_argument, "global_shape and start differ in length");
    }
    const auto number = dtype_from_number(fill_dtype);
    if (!number) {
      throw Error(Code::invalid_argument,
                  "the fill value is no number of a kind that is known here", "",
                  "Give an integer, a real or a complex of 4 or 8 bytes.");
    }
    auto part =
        tensor_of(*array, fortran::reversed(dims, shape, 0), fortran::reversed(dims, start, 1));
    add_patch(state->state, key,
              sparse(std::move(part), *number, fill, keep != 0 ? Gaps::keep : Gaps::fill));
  });
}

int cairn_fortran_add_private(cairn_state* state, const char* key, const CFI_cdesc_t* array,
                              int optional) {
  return add(state, key, [&] {
    PrivateOptions options;
    options.optional = optional != 0;
    return rank_private(whole_of(*array), std::move(options));
  });
}

/// The last dimension of the array counts the ids.
int cairn_fortran_add_indexed(cairn_state* state, const char* key, const CFI_cdesc_t* array,
                              const CFI_cdesc_t* ids, std::int64_t first, std::int64_t rows,
                              const char* ids_key) {
  return add(state, key, [&] {
    return indexed(cairn::ids(whole_of(*ids), {first, rows, ids_key}), whole_of(*array));
  });
}

/// Does what cairn_vector_rows does, but returns the struct by address, as Fortran needs it.
void cairn_fortran_rows(cairn_vector* vector, cairn_rows* rows) {
  *rows = cairn_vector_rows(vector);
}

/// Returns CAIRN_OK if a pointer of the wanted dtype and rank can point to the rows, else a code.
int cairn_fortran_check_rows(const cairn_vector* vector, cairn_dtype dtype, int rank,
                             cairn_dtype wanted_dtype, int wanted_rank) {
  return c::call([&] {
    if (!vector) throw Error(Code::invalid_argument, "the vector is NULL");
    if (dtype != wanted_dtype) {
      throw Error(Code::invalid_argument,
                  "the rows are " + std::string(cairn_dtype_name(dtype)) +
                      ", and the pointer is to " + cairn_dtype_name(wanted_dtype),
                  "", "Let it point to elements of the type that init() was given.");
    }
    if (rank == wanted_rank) return;
    throw Error(Code::invalid_argument,
                "the rows are an array of rank " + std::to_string(rank) +
                    ", and the pointer is to one of rank " + std::to_string(wanted_rank),
                "",
                "The last dimension counts the rows, those before are the row_shape of init().");
  });
}

/// Returns the dtype of an array, or a negative error code, whose error is in cairn_last_error().
int cairn_fortran_dtype(const CFI_cdesc_t* array) {
  int dtype = 0;
  const int code = c::call([&] { dtype = static_cast<int>(fortran::dtype_of_array(*array)); });
  return code == CAIRN_OK ? dtype : -code;
}

/// Reads the box of a stored tensor that begins at `start` (from 1 on, in Fortran's order; without
/// numbers: the whole tensor) and is as large as the array.
int cairn_fortran_read(const char* prefix, const char* key, const CFI_cdesc_t* array, int starts,
                       const std::int64_t* start) {
  return c::call([&] {
    const BundleReader reader(prefix);
    const auto extent = extent_of(*array);
    const Dims at = starts > 0 ? fortran::reversed(starts, start, 1) : Dims(extent.size(), 0);
    const auto* stored = reader.contents().find(key);
    if (!stored) {
      (void)reader.read(key);  // throws, and lists the keys that are there
      return;
    }
    if (stored->dtype != fortran::dtype_of_array(*array)) {
      throw Error(Code::invalid_argument,
                  "'" + std::string(key) + "' is " + std::string(dtype_name(stored->dtype)) +
                      ", and the array " + std::string(dtype_name(fortran::dtype_of_array(*array))))
          .of_tensor(key);
    }
    if (starts == 0 && stored->shape != extent) {
      throw Error(Code::invalid_argument,
                  "'" + std::string(key) + "' has another shape than the array", "",
                  "Give start, or an array of the same shape.")
          .of_tensor(key);
    }
    if (stored->dtype == DType::string) {
      const auto texts = tensor_of(*array, extent, Dims(extent.size(), 0)).strings;
      texts->set(part_of(reader.read_strings(key), *stored, Box{at, extent}));
      return;
    }
    const auto bytes = reader.read(key, Box{at, extent});
    fortran::memory_of(*array)->write(Box::whole(extent),
                                      reinterpret_cast<const std::byte*>(bytes.data()));
  });
}

}  // extern "C"
