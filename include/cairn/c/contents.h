#pragma once
/** Functions that show what a checkpoint of any origin holds, and read parts of it. Not
 * collective. */
#include <stddef.h>
#include <stdint.h>

#include "cairn/c/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_contents cairn_contents;
/** Reads the index of PREFIX, of a bundle (TensorFlow's too) or of an HDF5 checkpoint. */
int cairn_open(const char* prefix, cairn_contents** contents);
void cairn_contents_free(cairn_contents* contents);

/** What a checkpoint of Cairn says about itself. */
typedef struct cairn_info {
  const char* prefix;
  const char* format; /**< "bundle", "hdf5" */
  int files;          /**< data files */
  int by_cairn;       /**< 0: by another program; then all members below are empty */
  int64_t step;
  int64_t sequence;
  double wall_time_seconds; /**< since 1970 */
  int ranks;                /**< so many ranks saved it */
  const char* version;      /**< of Cairn */
  int has_metric;
  double metric;
  const char* application; /**< that saved it; "" if not given, like the next two */
  const char* application_version;
  const char* application_commit;
} cairn_info;
/** The result, and those of the functions below, are valid as long as the contents. */
const cairn_info* cairn_contents_info(const cairn_contents* contents);

typedef struct cairn_stored_slice {
  const int64_t* start;
  const int64_t* extent;
  int32_t file;   /**< number of the data file */
  int64_t offset; /**< bytes */
  int64_t size;
  uint32_t crc32c;
  int32_t codec;    /**< 0: these bytes are the elements; else they are encoded */
  int64_t raw_size; /**< bytes decoded, which begin with the elements */
} cairn_stored_slice;

typedef struct cairn_tensor {
  const char* key;
  cairn_dtype dtype;
  int dims;
  const int64_t* shape;
  size_t slice_count;
  const cairn_stored_slice* const* slices;
  const char* problem; /**< why it cannot be read although the index can; "": it can */
  const char* units;
  size_t dimension_count; /**< 0, or dims */
  const char* const* dimensions;
} cairn_tensor;
size_t cairn_contents_count(const cairn_contents* contents);
/** Tensors in ascending order of their keys; NULL after the last. */
const cairn_tensor* cairn_contents_at(const cairn_contents* contents, size_t index);
/** NULL if there is none. */
const cairn_tensor* cairn_contents_find(const cairn_contents* contents, const char* key);
/** An attribute of a tensor, or of the checkpoint (key NULL), as JSON; NULL if there is none. Valid
 * until the next call of this function with these contents. */
const char* cairn_contents_attribute(cairn_contents* contents, const char* key, const char* name);

/** Copies the elements of a box of a tensor, row-major, to `out`. `size` must be the bytes of the
 * box. `start` and `extent` NULL: the whole tensor. Each stored slice that shares an element with
 * the box is read and checked whole. Fails with CAIRN_NOT_FOUND for the key, CAIRN_DATA_LOSS,
 * CAIRN_INVALID_ARGUMENT for a box outside of the tensor, another size, or strings. */
int cairn_contents_read(const cairn_contents* contents, const char* key, const int64_t* start,
                        const int64_t* extent, void* out, size_t size);
/** The strings of a tensor, row-major, valid until the next call with these contents. Sizes are in
 * bytes; `sizes` may be NULL. A zero byte follows each string. */
int cairn_contents_read_strings(cairn_contents* contents, const char* key, size_t* count,
                                const char* const** strings, const size_t** sizes);

#ifdef __cplusplus
}
#endif
