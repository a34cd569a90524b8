#include "cairn/c/rows.h"

#include <new>

#include "c/callbacks.hpp"
#include "c/handles.hpp"

using namespace cairn;
using c::call;
using c::given;

// `bytes` is aligned for every dtype, as memory from operator new is.
struct cairn_vector {
  std::size_t row_bytes = 0;
  std::int64_t rows = 0;
  std::vector<std::byte> bytes = {};
};

namespace {

int64_t count_of(void* vector) { return cairn_vector_count(static_cast<cairn_vector*>(vector)); }
int resize_of(void* vector, int64_t rows) {
  const int code = cairn_vector_resize(static_cast<cairn_vector*>(vector), rows);
  const auto& error = *cairn_last_error();
  if (code != CAIRN_OK) cairn_set_error(code, error.problem, error.reason, error.way_out);
  return code;
}
void* data_of(void* vector) { return cairn_vector_data(static_cast<cairn_vector*>(vector)); }

IdOptions id_options(int64_t first, int64_t rows, const char* ids_key) {
  return {first, rows, ids_key ? ids_key : ""};
}

}  // namespace

int cairn_vector_create(cairn_dtype dtype, int dims, const int64_t* row_shape,
                        cairn_vector** vector) {
  return call([&] {
    const auto elements =
        detail::elements_per_row(c::dims_of(dims, row_shape, "the shape of a row"));
    const auto size = dtype_size(c::dtype_of_number(dtype));
    if (size == 0) throw Error(Code::invalid_argument, "rows of strings have no fixed size");
    c::make(vector, static_cast<std::size_t>(elements) * size);
  });
}
void cairn_vector_free(cairn_vector* vector) { delete vector; }
int64_t cairn_vector_count(const cairn_vector* vector) { return vector ? vector->rows : -1; }

int cairn_vector_resize(cairn_vector* vector, int64_t rows) {
  return call([&] {
    auto& all = given(vector, "the vector");
    const auto count = static_cast<std::size_t>(rows);
    if (rows < 0 || (all.row_bytes > 0 && count > all.bytes.max_size() / all.row_bytes)) {
      throw Error(Code::invalid_argument, cat("there is no vector of ", rows, " rows"));
    }
    try {
      all.bytes.resize(count * all.row_bytes);
    } catch (const std::bad_alloc&) {
      throw Error(Code::invalid_argument, cat("there is no memory for ", rows, " rows"),
                  cat("each has ", all.row_bytes, " bytes"));
    }
    all.rows = rows;
  });
}
void* cairn_vector_data(cairn_vector* vector) { return vector ? vector->bytes.data() : nullptr; }

cairn_rows cairn_vector_rows(cairn_vector* vector) {
  return {vector, vector ? count_of : nullptr, resize_of, data_of, nullptr};
}

int cairn_ids_create(cairn_dtype dtype, const void* list, int64_t count, int64_t first,
                     int64_t rows, const char* ids_key, cairn_ids** result) {
  return call([&] {
    if (count < 0) throw Error(Code::invalid_argument, cat("there cannot be ", count, " ids"));
    if (count > 0) given(static_cast<const std::byte*>(list), "the list of ids");
    c::make(result, ids(slice(c::dtype_of_number(dtype), list, {count}, {0}, {count}),
                        id_options(first, rows, ids_key)));
  });
}

int cairn_ids_create_rows(cairn_dtype dtype, const cairn_rows* list, int64_t first, int64_t rows,
                          const char* ids_key, cairn_ids** result) {
  return call([&] {
    const auto number = c::dtype_of_number(dtype);
    const auto given_rows = c::rows_of(list, number, {});
    auto look = [number, all = given_rows] {
      const auto count = all->count();
      LocalTensor tensor = nothing(number, {count});
      tensor.slices.push_back({Box::whole({count}), all->memory()});
      return tensor;
    };
    c::make(result, ids(each_time(std::move(look)), id_options(first, rows, ids_key)));
    given_rows->taken();
  });
}
void cairn_ids_free(cairn_ids* ids) { delete ids; }
