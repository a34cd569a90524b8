#pragma once
/** Rows whose number changes, in memory that the application or a cairn_vector can resize; and ids
 * of rows. */
#include <stddef.h>
#include <stdint.h>

#include "cairn/c/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rows in memory that grows and shrinks. Each save and restore calls these functions anew. The
 * table is copied; the object behind `context` must live as long as the state is used. `release` is
 * called once for each function that took the table, and never for one that failed. */
typedef struct cairn_rows {
  void* context;
  int64_t (*count)(void* context);            /**< rows; a negative number is an error */
  int (*resize)(void* context, int64_t rows); /**< CAIRN_OK, or a code; NULL: for saving only */
  void* (*data)(void* context);   /**< row-major; valid until the next resize; NULL for no rows */
  void (*release)(void* context); /**< called after the last use of the rows; NULL: not needed */
} cairn_rows;

/** An array of rows that the library resizes, for programs without one of their own. It must live
 * as long as the states that use it. */
typedef struct cairn_vector cairn_vector;
int cairn_vector_create(cairn_dtype dtype, int dims, const int64_t* row_shape,
                        cairn_vector** vector);
void cairn_vector_free(cairn_vector* vector);
int64_t cairn_vector_count(const cairn_vector* vector);
int cairn_vector_resize(cairn_vector* vector, int64_t rows); /**< new rows are zeros */
/** Row-major; valid until the program or a restore resizes the vector. */
void* cairn_vector_data(cairn_vector* vector);
/** The table of this vector, for the functions that take rows. */
cairn_rows cairn_vector_rows(cairn_vector* vector);

/** The global ids of this rank's rows. Tensors whose rows have the same ids share them. */
typedef struct cairn_ids cairn_ids;
/** `count` ids of an integer dtype, in memory that must live as long as the states that use them.
 * `first` is the id of row 0. `rows` is the number of rows on all ranks; -1: as many as ids. With
 * an `ids_key` (NULL: none) ids may have gaps, and are stored under that key. cairn/indexed.hpp has
 * the promises and errors. */
int cairn_ids_create(cairn_dtype dtype, const void* ids, int64_t count, int64_t first, int64_t rows,
                     const char* ids_key, cairn_ids** result);
/** The same for ids that change: each save and restore asks for them anew. */
int cairn_ids_create_rows(cairn_dtype dtype, const cairn_rows* ids, int64_t first, int64_t rows,
                          const char* ids_key, cairn_ids** result);
void cairn_ids_free(cairn_ids* ids);

#ifdef __cplusplus
}
#endif
