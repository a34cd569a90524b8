#pragma once
/** What a rank gives to a checkpoint and gets back from it. A state refers to the application's
 * memory and owns none of it: arrays must stay where they are as long as the state is used, and
 * those of an asynchronous save may be changed as soon as cairn_manager_save_async has returned. */
#include <stddef.h>
#include <stdint.h>

#include "cairn/c/rows.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_state cairn_state;
int cairn_state_create(cairn_state** state);
void cairn_state_free(cairn_state* state);

/** The slice of a global tensor that this rank holds. `dims` numbers each: the tensor's `shape`,
 * and `start` and `extent` of the slice; `strides` of the array in memory, NULL for row-major
 * without gaps. `data` is the slice's first element: an array with halos is given by its first
 * owned element and the strides of the whole array. Fails, as all functions that add, with
 * CAIRN_INVALID_ARGUMENT for a key that is empty, not UTF-8, begins with "_cairn/" or is there
 * already, and for a slice outside of the shape. */
int cairn_state_add_slice(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                          void* data, const int64_t* shape, const int64_t* start,
                          const int64_t* extent, const int64_t* strides);
/** The same where `*data` is looked at anew at each save and restore: for arrays that take turns or
 * move. */
int cairn_state_add_slice_at(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                             void* const* data, const int64_t* shape, const int64_t* start,
                             const int64_t* extent, const int64_t* strides);
/** All of a tensor. On several ranks: replicas, of which one is written. A scalar has 0 dims. */
int cairn_state_add_whole(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                          void* data, const int64_t* shape, const int64_t* strides);

typedef struct cairn_patch {
  void* data;
  const int64_t* start;
  const int64_t* extent;
  const int64_t* strides; /**< NULL: row-major without gaps */
} cairn_patch;
/** Several disjoint slices of one tensor; none: this rank has no part of it. */
int cairn_state_add_patches(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                            const int64_t* shape, size_t count, const cairn_patch* patches);

/** What a restore does to memory whose elements the checkpoint does not hold. */
enum cairn_gaps {
  CAIRN_FILL_GAPS = 0, /**< they get the fill value */
  CAIRN_KEEP_GAPS = 1  /**< they stay as they are */
};
/** As cairn_state_add_patches, of a tensor of which the ranks need not hold everything. `fill`, one
 * number of `fill_dtype`, is what the rest reads as: see cairn/sparse.hpp. All ranks that have the
 * key give it with the same value. */
int cairn_state_add_sparse(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                           const int64_t* shape, size_t count, const cairn_patch* patches,
                           cairn_dtype fill_dtype, const void* fill, int gaps);

/** Text in fixed memory, the same on all ranks: `count` texts of `capacity` bytes each, one behind
 * the other (-1: a scalar, one text). A text ends before the first zero byte; with ' ' as `padding`
 * before its trailing blanks. A restore pads, and fails where a text has more than `capacity`
 * bytes; with zero as padding, one byte less. */
int cairn_state_add_text(cairn_state* state, const char* key, char* text, size_t capacity,
                         int64_t count, char padding);

/** A list of byte strings of any length, for which the library has the memory. A restore replaces
 * the strings; the list must have as many as are stored. */
typedef struct cairn_strings cairn_strings;
int cairn_strings_create(cairn_strings** strings);
void cairn_strings_free(cairn_strings* strings);
int cairn_strings_append(cairn_strings* strings, const char* bytes, size_t size);
void cairn_strings_clear(cairn_strings* strings);
size_t cairn_strings_count(const cairn_strings* strings);
/** Stays until the list changes. A zero byte follows. NULL if there are fewer; `size` may be NULL.
 */
const char* cairn_strings_at(const cairn_strings* strings, size_t index, size_t* size);
int cairn_state_add_strings(cairn_state* state, const char* key, cairn_strings* strings);
/** The same where a restore takes as many as are stored. The list must live as long as the state is
 * used. */
int cairn_state_add_resizable_strings(cairn_state* state, const char* key, cairn_strings* strings);

/** All of a tensor [rows, row_shape…], the same on all ranks, of which a restore takes as many rows
 * as are stored: cairn/resizable.hpp. `dims` and `row_shape` are of one row. */
int cairn_state_add_resizable(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                              const int64_t* row_shape, const cairn_rows* rows);

/** How many of `total` rows a rank gets in a restore. All ranks together must take all. */
typedef int64_t (*cairn_distribution)(void* context, int64_t total, int rank, int ranks);
/** This rank's rows of a tensor [total, row_shape…], in rank order. A restore deals them evenly, or
 * by `distribution` (NULL: none), and resizes the memory. `dims` and `row_shape` are of one row. */
int cairn_state_add_ragged(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                           const int64_t* row_shape, const cairn_rows* rows,
                           cairn_distribution distribution, void* context);

/** The rank, of `stored_ranks`, whose item this rank gets in a restore; -1: none. */
typedef int (*cairn_deal)(void* context, int rank, int ranks, int stored_ranks);
/** An item of this rank alone, restored on as many ranks; on others by `deal` (NULL: none), or, if
 * `optional`, left as it is. */
int cairn_state_add_private(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                            void* data, const int64_t* shape, int optional, cairn_deal deal,
                            void* context);
int cairn_state_add_private_rows(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                                 const int64_t* row_shape, const cairn_rows* rows, int optional,
                                 cairn_deal deal, void* context);

/** Rows with global ids, one for each of `ids`, in their order. `dims` and `shape` are of the whole
 * array [number of ids, row shape…]. */
int cairn_state_add_indexed(cairn_state* state, const char* key, const cairn_ids* ids,
                            cairn_dtype dtype, int dims, void* data, const int64_t* shape,
                            const int64_t* strides);
/** In memory that a restore resizes to the number of ids; `dims` and `row_shape` are of one row. */
int cairn_state_add_indexed_rows(cairn_state* state, const char* key, const cairn_ids* ids,
                                 cairn_dtype dtype, int dims, const int64_t* row_shape,
                                 const cairn_rows* rows);

/** How tensors are stored: "automatic", "sliced" or "dense". The same on all ranks. */
int cairn_state_store(cairn_state* state, const char* storage);

/** What is said of a tensor, or of the checkpoint (key NULL), beside its values
 * (docs/attributes.md). The value of an attribute is JSON. */
int cairn_state_units(cairn_state* state, const char* key, const char* units);
int cairn_state_dimensions(cairn_state* state, const char* key, int dims, const char* const* names);
int cairn_state_attribute(cairn_state* state, const char* key, const char* name, const char* json);

#ifdef __cplusplus
}
#endif
