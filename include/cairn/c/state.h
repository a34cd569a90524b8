#pragma once
/** The tensors that a rank saves to a checkpoint and gets back from it. A state refers to the
 * application's memory and owns none of it: arrays must stay where they are as long as the state is
 * used. Those of an asynchronous save may be changed as soon as cairn_manager_save_async has
 * returned. */
#include <stddef.h>
#include <stdint.h>

#include "cairn/c/rows.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_state cairn_state;
int cairn_state_create(cairn_state** state);
void cairn_state_free(cairn_state* state);

/** The slice of a global tensor that this rank holds. The tensor's `shape`, the slice's `start` and
 * `extent`, and the array's `strides` in memory (in elements; NULL: row-major without gaps) have
 * `dims` numbers each. `data` is the slice's first element: give an array with halos by its first
 * owned element and the strides of the whole array. Fails, as all functions that add, with
 * CAIRN_INVALID_ARGUMENT for a key that is empty, not UTF-8, begins with "_cairn/" or is there
 * already, and for a slice outside of the shape. */
int cairn_state_add_slice(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                          void* data, const int64_t* shape, const int64_t* start,
                          const int64_t* extent, const int64_t* strides);
/** The same, but each save and restore reads `*data` anew: for arrays that are swapped or move. */
int cairn_state_add_slice_at(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                             void* const* data, const int64_t* shape, const int64_t* start,
                             const int64_t* extent, const int64_t* strides);
/** All of a tensor. If several ranks give it, they are replicas, of which one is written. A scalar
 * has 0 dims. */
int cairn_state_add_whole(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                          void* data, const int64_t* shape, const int64_t* strides);

typedef struct cairn_patch {
  void* data;
  const int64_t* start;
  const int64_t* extent;
  const int64_t* strides; /**< NULL: row-major without gaps */
} cairn_patch;
/** Several disjoint slices of one tensor; `count` 0: this rank has no part of it. */
int cairn_state_add_patches(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                            const int64_t* shape, size_t count, const cairn_patch* patches);

/** What a restore does to memory whose elements the checkpoint does not hold. */
enum cairn_gaps {
  CAIRN_FILL_GAPS = 0, /**< they become the fill value */
  CAIRN_KEEP_GAPS = 1  /**< they stay as they are */
};
/** As cairn_state_add_patches, for a tensor of which the ranks need not hold everything. Readers
 * get `fill`, one number of `fill_dtype`, for elements that no rank holds: see cairn/sparse.hpp.
 * All ranks that have the key give the same value. */
int cairn_state_add_sparse(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                           const int64_t* shape, size_t count, const cairn_patch* patches,
                           cairn_dtype fill_dtype, const void* fill, int gaps);

/** Text in fixed memory, the same on all ranks: `count` texts of `capacity` bytes each, one after
 * the other (-1: a scalar, one text). A text ends before the first zero byte or, with ' ' as
 * `padding`, before its trailing blanks. A restore pads, and fails if a text has more than
 * `capacity` bytes (with zero as padding: more than `capacity` - 1). */
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
/** Valid until the list changes. A zero byte follows. NULL if there are fewer; `size` may be
 * NULL. */
const char* cairn_strings_at(const cairn_strings* strings, size_t index, size_t* size);
int cairn_state_add_strings(cairn_state* state, const char* key, cairn_strings* strings);
/** The same, but a restore makes the list as long as the stored one. The list must live as long as
 * the state is used. */
int cairn_state_add_resizable_strings(cairn_state* state, const char* key, cairn_strings* strings);

/** All of a tensor [rows, row_shape…], the same on all ranks. A restore resizes it to the stored
 * number of rows: cairn/resizable.hpp. `dims` and `row_shape` are those of one row. */
int cairn_state_add_resizable(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                              const int64_t* row_shape, const cairn_rows* rows);

/** How many of `total` rows a rank gets in a restore. All ranks together must take all rows. */
typedef int64_t (*cairn_distribution)(void* context, int64_t total, int rank, int ranks);
/** This rank's rows of a tensor [total, row_shape…], in rank order. A restore deals the rows
 * evenly, or by `distribution` (NULL: evenly), and resizes the memory. `dims` and `row_shape` are
 * those of one row. */
int cairn_state_add_ragged(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                           const int64_t* row_shape, const cairn_rows* rows,
                           cairn_distribution distribution, void* context);

/** Which of the `stored_ranks` ranks' items this rank gets in a restore; -1: none. */
typedef int (*cairn_deal)(void* context, int rank, int ranks, int stored_ranks);
/** An item of this rank alone, restored on the same number of ranks. On another number `deal` (may
 * be NULL) chooses the item; without it memory is left as it is if `optional`, else the restore
 * fails. */
int cairn_state_add_private(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                            void* data, const int64_t* shape, int optional, cairn_deal deal,
                            void* context);
int cairn_state_add_private_rows(cairn_state* state, const char* key, cairn_dtype dtype, int dims,
                                 const int64_t* row_shape, const cairn_rows* rows, int optional,
                                 cairn_deal deal, void* context);

/** Rows with global ids, one for each of `ids`, in their order. `dims` and `shape` are those of the
 * whole array [number of ids, row shape…]. */
int cairn_state_add_indexed(cairn_state* state, const char* key, const cairn_ids* ids,
                            cairn_dtype dtype, int dims, void* data, const int64_t* shape,
                            const int64_t* strides);
/** The same in memory that a restore resizes to the number of ids; `dims` and `row_shape` are those
 * of one row. */
int cairn_state_add_indexed_rows(cairn_state* state, const char* key, const cairn_ids* ids,
                                 cairn_dtype dtype, int dims, const int64_t* row_shape,
                                 const cairn_rows* rows);

/** How tensors are stored: "automatic", "sliced" or "dense". The same on all ranks. */
int cairn_state_store(cairn_state* state, const char* storage);

/** Describes a tensor, or the checkpoint (key NULL) (docs/attributes.md). The value of an attribute
 * is JSON. */
int cairn_state_units(cairn_state* state, const char* key, const char* units);
int cairn_state_dimensions(cairn_state* state, const char* key, int dims, const char* const* names);
int cairn_state_attribute(cairn_state* state, const char* key, const char* name, const char* json);

#ifdef __cplusplus
}
#endif
