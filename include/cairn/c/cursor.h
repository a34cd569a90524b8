#pragma once
/** The position of a job in its data: which rank takes which samples of an epoch, and which of them
 * were used. What cairn/cursor.hpp says holds here. */
#include <stdint.h>

#include "cairn/c/state.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_cursor cairn_cursor;
/** Makes a cursor over the samples 0 … samples - 1, for rank `rank` of `ranks`. `shuffle` 0: each
 * epoch has this order. A state that has the cursor keeps it alive. */
int cairn_cursor_create(int64_t samples, uint64_t seed, int shuffle, int rank, int ranks,
                        cairn_cursor** cursor);
void cairn_cursor_free(cairn_cursor* cursor);

/** Takes the next samples of this rank's part of the epoch: `most`, or fewer at its end. `samples`
 * has room for `most`; `count` becomes their number. */
int cairn_cursor_take(cairn_cursor* cursor, int64_t most, int64_t* samples, int64_t* count);
/** Notes that the program has used so many more of the samples that it took: later saves store them
 * as done. */
int cairn_cursor_done(cairn_cursor* cursor, int64_t count);
/** Samples that were taken and are not done will be taken again. */
int cairn_cursor_rewind(cairn_cursor* cursor);
int cairn_cursor_next_epoch(cairn_cursor* cursor);

/** The number of batches of this size after which no rank has samples of the epoch left, counted
 * from its beginning or from where a restore found it. The same on all ranks. */
int cairn_cursor_batches(const cairn_cursor* cursor, int64_t size, int64_t* batches);
/** The epoch that samples are taken from; 0 is the first. This function and those below return -1
 * for NULL. */
int64_t cairn_cursor_epoch(const cairn_cursor* cursor);
int64_t cairn_cursor_left(const cairn_cursor* cursor);    /**< of this rank's part, not taken yet */
int64_t cairn_cursor_share(const cairn_cursor* cursor);   /**< samples in this rank's part */
int64_t cairn_cursor_waiting(const cairn_cursor* cursor); /**< samples taken and not done */

/** The cursor is saved as key/deal and key/done. */
int cairn_state_add_cursor(cairn_state* state, const char* key, cairn_cursor* cursor);

#ifdef __cplusplus
}
#endif
