#pragma once
/** Numbered checkpoints of one job in one directory. All functions are collective over the ranks of
 * the group, with the same arguments, except _free and those that say otherwise. */
#include <stddef.h>
#include <stdint.h>

#include "cairn/c/contents.h"
#include "cairn/c/group.h"
#include "cairn/c/options.h"
#include "cairn/c/state.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_manager cairn_manager;
/** Makes the directory if it is missing, becomes its owner and recovers it. `options` may be NULL.
 * Fails with CAIRN_BUSY if the directory is owned by another job, by another component of this job,
 * or by another copy of the library in this process. */
int cairn_manager_create(cairn_group* group, const char* directory, const cairn_options* options,
                         cairn_manager** manager);
/** Not collective. Waits until this rank's bytes of pending saves are written, and gives up the
 * directory. Call it before MPI_Finalize. */
void cairn_manager_free(cairn_manager* manager);

/** Writes the state and commits it; on return it is durable. `options` may be NULL. `prefix`, which
 * may be NULL too, becomes the checkpoint's path, valid until the next call with this manager. */
int cairn_manager_save(cairn_manager* manager, int64_t step, const cairn_state* state,
                       const cairn_save_options* options, const char** prefix);

/** A save that goes on while the application computes. */
typedef struct cairn_save cairn_save;
/** Copies the state and returns; with the option until = released of the save the state stays where
 * it is until cairn_save_release(). Later calls that save, poll or wait commit it. `save` may be
 * NULL; else free it with cairn_save_free. */
int cairn_manager_save_async(cairn_manager* manager, int64_t step, const cairn_state* state,
                             const cairn_save_options* options, cairn_save** save);
/** Commits saves whose bytes are written, without waiting. `idle`, which may be NULL, becomes 1 if
 * no save is pending, else 0. */
int cairn_manager_poll(cairn_manager* manager, int* idle);
/** Returns when no save is pending. */
int cairn_manager_wait(cairn_manager* manager);
/** Returns when, besides, the newest save is in the directory, not only on the nodes. */
int cairn_manager_wait_home(cairn_manager* manager);

/** The stages of a save. Up to CAIRN_COMMITTED each includes those before it. */
enum cairn_stage {
  CAIRN_CAPTURED = 0, /**< the arrays may be written again, if they were copied */
  CAIRN_WRITTEN = 1,  /**< this rank's bytes are durable */
  CAIRN_COMMITTED = 2,
  CAIRN_SKIPPED = 3,  /**< async.when_busy = skip */
  CAIRN_REPLACED = 4, /**< async.when_busy = replace, and a later save came */
  CAIRN_FAILED = 5
};
/** None of these is collective; all may be called on any thread. */
int cairn_save_stage(const cairn_save* save);
int64_t cairn_save_step(const cairn_save* save);
/** Returns when this rank's part is written or was given up; with the error if the save has
 * failed. */
int cairn_save_wait_written(const cairn_save* save);
/** After a save with the option until = released: returns when the arrays may be written again. See
 * SaveHandle::release in cairn/async.hpp. */
int cairn_save_release(const cairn_save* save);
/** CAIRN_OK, or the code of the error with which the save failed; cairn_last_error() has all of
 * it. */
int cairn_save_error(const cairn_save* save);
void cairn_save_free(cairn_save* save);

/** Whether to save now. Call this and cairn_manager_should_stop in every step (see
 * cairn/checkpoint_manager.hpp). */
int cairn_manager_should_save(cairn_manager* manager, int64_t step, int* yes);

/** Why to stop; the same on all ranks. */
typedef struct cairn_stop_reason {
  int kind;         /**< 1 time limit, 2 signal, 3 file, 4 application */
  int rank;         /**< the lowest rank with this reason */
  int signal;       /**< the number, for a signal */
  int exit_code;    /**< for the calling script: 75 another job should go on, 76 none should yet */
  const char* text; /**< "SIGUSR1 on rank 3" */
} cairn_stop_reason;
/** `reason` becomes NULL if there is none; else it is valid as long as the manager. */
int cairn_manager_should_stop(cairn_manager* manager, const cairn_stop_reason** reason);

/** What a restore did. */
typedef struct cairn_report {
  int64_t step;
  const char* prefix;
  int64_t bytes_read; /**< by all ranks */
  int unchecked;      /**< 1 for files of other programs: no checksum proves the bytes */
  size_t unused_count;
  const char* const* unused_keys; /**< in the checkpoint, but wanted by no rank */
  size_t kept_count;
  const char* const* kept_keys; /**< not in the checkpoint, as allowed: memory is unchanged */
  size_t skipped_count;
  const char* const* skipped; /**< newer checkpoints that were skipped: "step N: why" */
} cairn_report;
/** Restores the newest whole checkpoint, or else the newest that lacks only its metadata. `report`,
 * which may be NULL, becomes NULL if there is no checkpoint; else it is valid until the next
 * restore by this manager. `step`, which may be NULL, becomes -1 if there is none. */
int cairn_manager_restore_latest(cairn_manager* manager, cairn_state* state,
                                 const cairn_restore_options* options, int64_t* step,
                                 const cairn_report** report);
int cairn_manager_restore(cairn_manager* manager, int64_t step, cairn_state* state,
                          const cairn_restore_options* options, const cairn_report** report);

typedef struct cairn_step_info {
  int64_t step;
  int64_t sequence;
  int newest;
  int superseded; /**< a run went on from an earlier step */
  int pinned;
  int has_metric;
  double metric;
  const char* damage; /**< how it is damaged; "": no damage is known */
  int on_nodes;       /**< with a tier: where it can be restored from */
  int at_home;
  int margin;              /**< so many more nodes of any set may be lost */
  const char* passed_over; /**< why restore_latest skips it; "": it does not */
} cairn_step_info;
/** Collective. The steps in the order of their commits: the last is the newest. They are valid
 * until the next call of this function with this manager. */
int cairn_manager_steps(cairn_manager* manager, size_t* count,
                        const cairn_step_info* const** infos);
/** A pinned checkpoint is not removed and not saved over. Durable on return. */
int cairn_manager_pin(cairn_manager* manager, int64_t step);
int cairn_manager_unpin(cairn_manager* manager, int64_t step);
/** Marks a step as bad (`good` is 0): restore_latest skips it. Or as good: restore_latest may take
 * it, and the count of runs that restored it in vain is reset. Durable on return. */
int cairn_manager_mark(cairn_manager* manager, int64_t step, int good);
/** Returns what a checkpoint holds, so that the program can allocate memory for it. Free it with
 * cairn_contents_free. */
int cairn_manager_open(cairn_manager* manager, int64_t step, cairn_contents** contents);

/** Collective over the group; needs no manager. Fills the state from datasets of an HDF5 file that
 * another program wrote; keys are paths. See cairn/hdf5.hpp. */
int cairn_restore_hdf5(cairn_group* group, const char* file, cairn_state* state,
                       const cairn_restore_options* options);

#ifdef __cplusplus
}
#endif
