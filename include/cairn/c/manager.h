#pragma once
/** Numbered checkpoints of one job in one directory. All functions are collective over the ranks of
 * the group, with the same arguments, but those that say so and _free. */
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
 * Fails with CAIRN_BUSY when another job owns the directory, another component of this one, or
 * another copy of the library in this process. */
int cairn_manager_create(cairn_group* group, const char* directory, const cairn_options* options,
                         cairn_manager** manager);
/** Not collective. Waits for this rank's bytes of saves pending, and gives up the directory.
 * Before MPI_Finalize. */
void cairn_manager_free(cairn_manager* manager);

/** Writes the state and commits it; on return it is durable. `options` may be NULL, and `prefix`
 * too, which is the checkpoint's path until the next call with this manager. */
int cairn_manager_save(cairn_manager* manager, int64_t step, const cairn_state* state,
                       const cairn_save_options* options, const char** prefix);

/** A save that goes on while the application computes. */
typedef struct cairn_save cairn_save;
/** Copies the state and returns. Later calls that save, poll or wait commit it. `save` may be NULL;
 * else it is freed by cairn_save_free. */
int cairn_manager_save_async(cairn_manager* manager, int64_t step, const cairn_state* state,
                             const cairn_save_options* options, cairn_save** save);
/** Commits what is ready, without waiting. `idle`: nothing is pending; may be NULL. */
int cairn_manager_poll(cairn_manager* manager, int* idle);
/** Returns when nothing is pending. */
int cairn_manager_wait(cairn_manager* manager);
/** ... and the newest save is in the directory, not on the nodes alone. */
int cairn_manager_wait_home(cairn_manager* manager);

/** Each includes what those before it say, up to CAIRN_COMMITTED. */
enum cairn_stage {
  CAIRN_CAPTURED = 0, /**< the arrays may be written again */
  CAIRN_WRITTEN = 1,  /**< this rank's bytes are durable */
  CAIRN_COMMITTED = 2,
  CAIRN_SKIPPED = 3,  /**< async.when_busy = skip */
  CAIRN_REPLACED = 4, /**< async.when_busy = replace, and a later save came */
  CAIRN_FAILED = 5
};
/** None of these is collective; all may be called on any thread. */
int cairn_save_stage(const cairn_save* save);
int64_t cairn_save_step(const cairn_save* save);
/** When this rank's part is written or was given up; the error if the save has failed. */
int cairn_save_wait_written(const cairn_save* save);
/** CAIRN_OK, or why the save failed: the code, and all of it in cairn_last_error(). */
int cairn_save_error(const cairn_save* save);
void cairn_save_free(cairn_save* save);

/** Whether to save now; both belong into every step (see cairn/checkpoint_manager.hpp). */
int cairn_manager_should_save(cairn_manager* manager, int64_t step, int* yes);

/** Why to stop; the same on all ranks. */
typedef struct cairn_stop_reason {
  int kind;         /**< 1 time limit, 2 signal, 3 file, 4 application */
  int rank;         /**< the lowest with this reason */
  int signal;       /**< of a signal */
  int exit_code;    /**< for the script around: 75 another job should go on, 76 none should yet */
  const char* text; /**< "SIGUSR1 on rank 3" */
} cairn_stop_reason;
/** `reason` is NULL if there is none, else it stays as long as the manager. */
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
  const char* const* kept_keys; /**< not in the checkpoint, as allowed: memory stayed as it was */
  size_t skipped_count;
  const char* const* skipped; /**< newer checkpoints that were passed over: "step: why" */
} cairn_report;
/** Restores the newest whole checkpoint, or else the newest that lacks only its metadata. `report`
 * (it may be NULL) is NULL if there is none, else it stays until the next restore by this manager.
 * `step`, if not NULL, is -1 if there is none. */
int cairn_manager_restore_latest(cairn_manager* manager, cairn_state* state,
                                 const cairn_restore_options* options, int64_t* step,
                                 const cairn_report** report);
int cairn_manager_restore(cairn_manager* manager, int64_t step, cairn_state* state,
                          const cairn_restore_options* options, const cairn_report** report);

typedef struct cairn_step_info {
  int64_t step;
  int64_t sequence;
  int newest;
  int superseded; /**< a restore to an earlier step has left it behind */
  int pinned;
  int has_metric;
  double metric;
  const char* damage; /**< why it was found damaged; empty: not known to be */
  int on_nodes;       /**< of a manager with a tier: where it can be had */
  int at_home;
  int margin;              /**< on the nodes: how many more of any set may be lost */
  const char* passed_over; /**< why restore_latest passes it over; empty: it does not */
} cairn_step_info;
/** Collective. In the order of their commits: the last is the newest. They stay until the next call
 * of this function with this manager. */
int cairn_manager_steps(cairn_manager* manager, size_t* count,
                        const cairn_step_info* const** infos);
/** A pinned checkpoint is not removed and not saved over. Durable on return. */
int cairn_manager_pin(cairn_manager* manager, int64_t step);
int cairn_manager_unpin(cairn_manager* manager, int64_t step);
/** Marks it bad (`good` is 0): restore_latest passes it over. Or good: it does not, and how often
 * it was restored in vain is forgotten. Durable on return. */
int cairn_manager_mark(cairn_manager* manager, int64_t step, int good);
/** What a checkpoint holds, before anything is allocated. Freed by cairn_contents_free. */
int cairn_manager_open(cairn_manager* manager, int64_t step, cairn_contents** contents);

/** Collective over the group, without a manager: fills the state from datasets of an HDF5 file that
 * another program wrote; keys are paths. See cairn/hdf5.hpp. */
int cairn_restore_hdf5(cairn_group* group, const char* file, cairn_state* state,
                       const cairn_restore_options* options);

#ifdef __cplusplus
}
#endif
