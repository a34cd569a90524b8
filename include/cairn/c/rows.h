#pragma once
/** Rows whose number changes: memory that the application, or a cairn_vector, can resize; ids. */
#include <stddef.h>
#include <stdint.h>

#include "cairn/c/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rows in memory that grows and shrinks, asked anew at each save and restore. The table is copied;
 * what `context` leads to must live as long as the state is used. `release` is called once for each
 * function that took the table, and never for one that failed. */
typedef struct cairn_rows {
  void* context;
  int64_t (*count)(void* context);            /**< rows; a negative number is an error */
  int (*resize)(void* context, int64_t rows); /**< CAIRN_OK, or a code; NULL: for saving only */
  void* (*data)(void* context);   /**< row-major; used until the next resize; NULL for no rows */
  void (*release)(void* context); /**< when nothing uses the rows any more; NULL: not needed */
} cairn_rows;

/** An array of rows that the library resizes, for those who have none of their own. It must live as
 * long as states that use it. */
typedef struct cairn_vector cairn_vector;
int cairn_vector_create(cairn_dtype dtype, int dims, const int64_t* row_shape,
                        cairn_vector** vector);
void cairn_vector_free(cairn_vector* vector);
int64_t cairn_vector_count(const cairn_vector* vector);
int cairn_vector_resize(cairn_vector* vector, int64_t rows); /**< new rows are zeros */
/** Row-major; stays until the vector is resized, by the program or by a restore. */
void* cairn_vector_data(cairn_vector* vector);
/** For the functions that take rows. */
cairn_rows cairn_vector_rows(cairn_vector* vector);

/** The global ids of this rank's rows, for all tensors that have the same ones. */
typedef struct cairn_ids cairn_ids;
/** `count` ids of an integer dtype, in memory that must live as long as states that use them.
 * `first` is the id of row 0. `rows` is how many there are on all ranks; -1: as many as ids. With
 * an `ids_key` (NULL: none) ids may have gaps, and are stored under that key. What is promised and
 * refused stands in cairn/indexed.hpp. */
int cairn_ids_create(cairn_dtype dtype, const void* ids, int64_t count, int64_t first, int64_t rows,
                     const char* ids_key, cairn_ids** result);
/** The same for ids that change: they are asked for at each save and restore. */
int cairn_ids_create_rows(cairn_dtype dtype, const cairn_rows* ids, int64_t first, int64_t rows,
                          const char* ids_key, cairn_ids** result);
void cairn_ids_free(cairn_ids* ids);

#ifdef __cplusplus
}
#endif
