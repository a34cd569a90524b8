#pragma once
/** Where a job is in its data: who takes which samples of an epoch, and which of them were used.
 * What cairn/cursor.hpp says holds here. */
#include <stdint.h>

#include "cairn/c/state.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_cursor cairn_cursor;
/** Over the samples 0 … samples - 1, of which this is rank `rank` of `ranks`. `shuffle` 0: in each
 * epoch in this order. A state that has the cursor keeps it. */
int cairn_cursor_create(int64_t samples, uint64_t seed, int shuffle, int rank, int ranks,
                        cairn_cursor** cursor);
void cairn_cursor_free(cairn_cursor* cursor);

/** The next samples of this rank's part of the epoch, `most` or those that are left; `count` is
 * their number. */
int cairn_cursor_take(cairn_cursor* cursor, int64_t most, int64_t* samples, int64_t* count);
/** So many more of those that were taken have been used: what is saved from here on has them. */
int cairn_cursor_done(cairn_cursor* cursor, int64_t count);
/** What was taken and is not done is taken again. */
int cairn_cursor_rewind(cairn_cursor* cursor);
int cairn_cursor_next_epoch(cairn_cursor* cursor);

/** How many batches of this size it takes until no rank has samples of the epoch left, from its
 * beginning or from where a restore found it: the same on all ranks. */
int cairn_cursor_batches(const cairn_cursor* cursor, int64_t size, int64_t* batches);
/** That samples are taken from, from 0; -1 of NULL, as those below. */
int64_t cairn_cursor_epoch(const cairn_cursor* cursor);
int64_t cairn_cursor_left(const cairn_cursor* cursor);    /**< of this rank's, not taken */
int64_t cairn_cursor_share(const cairn_cursor* cursor);   /**< of this rank, in all */
int64_t cairn_cursor_waiting(const cairn_cursor* cursor); /**< taken and not done */

/** Saved as key/deal and key/done. */
int cairn_state_add_cursor(cairn_state* state, const char* key, cairn_cursor* cursor);

#ifdef __cplusplus
}
#endif
