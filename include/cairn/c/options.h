#pragma once
/** Options, by the names that they have in C++: "keep.last", "store.format", "write.writer". The
 * member of that name in cairn/options.hpp, or in a header that it includes, says what an option
 * does; docs/c.md lists them. */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The options of a manager (cairn::ManagerOptions). A new object has the defaults. */
typedef struct cairn_options cairn_options;
int cairn_options_create(cairn_options** options);
void cairn_options_free(cairn_options* options);
/** cairn_options_set(options, "keep.last", "3"). Values are texts: "true" and "false", numbers, the
 * names that C++ has for the values of enums, "none" for an option that may have no value. Hints of
 * MPI-IO have their key in the name: "write.mpi_io.hints.KEY". Also TensorFlow's max_to_keep,
 * checkpoint_name, checkpoint_interval and keep_checkpoint_every_n_hours. Fails with
 * CAIRN_INVALID_ARGUMENT for a name that does not exist (the error proposes the nearest one), and
 * for a text that is no value of the option. Whether values fit together is checked when a manager
 * is made. */
int cairn_options_set(cairn_options* options, const char* name, const char* value);
/** `value` is valid until the next call of this function in this thread. */
int cairn_options_get(const cairn_options* options, const char* name, const char** value);
/** The names of the options that can be given as text, by index; NULL after the last. The name of
 * an option with a key ends in ".KEY". */
const char* cairn_options_name(size_t index);

/** Adds a callback that is called before each save reads the state, on all ranks, with the step.
 * Callbacks are called in the order in which they were given. They return CAIRN_OK or another code,
 * with which the save fails on all ranks. */
int cairn_options_before_save(cairn_options* options, int (*call)(void* context, int64_t step),
                              void* context);

/** The program that saved a checkpoint (cairn::Application). Members that are not known are "". */
typedef struct cairn_application {
  const char* name;
  const char* version;
  const char* commit;
} cairn_application;
/** Whether version `a` is newer than `b`: 1.10 is newer than 1.9. */
int cairn_is_newer_version(const char* a, const char* b);
/** What a migration may change in one restore, for this call only (cairn::Migration). */
typedef struct cairn_migration cairn_migration;
/** Sets an option of this restore, with the names of cairn_restore_options_set: "rename.KEY", … */
int cairn_migration_set(cairn_migration* migration, const char* name, const char* value);
struct cairn_state;
/** The state to fill: a copy of the program's, to which cairn_state_add_… may add tensors in the
 * migration's own memory. It is valid during the callback. */
struct cairn_state* cairn_migration_state(cairn_migration* migration);
/** Sets a function that is called when the state is filled, to compute new values from old ones. If
 * it returns another code than CAIRN_OK, the restore fails on all ranks, and the contents of the
 * state are unspecified. A later function replaces an earlier one. */
int cairn_migration_finish(cairn_migration* migration, int (*call)(void* context), void* context);
/** Sets a callback that is called on all ranks when a checkpoint of another version than this
 * program's ("store.application.version") is about to be restored, before any array is touched.
 * `from` and `migration` are valid during the call. It returns CAIRN_OK or another code, with which
 * the restore fails on all ranks. A later callback replaces an earlier one. */
int cairn_options_migrate(cairn_options* options,
                          int (*call)(void* context, const cairn_application* from,
                                      cairn_migration* migration),
                          void* context);
/** Limits shards to so many bytes, each in a file of its own (cairn::MaxShardSizePolicy). */
int cairn_options_max_shard_size(cairn_options* options, int64_t bytes);

/** The requests to this process to stop, for should_stop. Make it early, after MPI_Init; it
 * installs signal handlers. `names` and `values` are `count` texts each, with the names of
 * cairn::StopOptions, such as "signals" ("15,10") and "margin_seconds"; `count` 0 takes the
 * defaults. */
typedef struct cairn_stop cairn_stop;
int cairn_stop_create(size_t count, const char* const* names, const char* const* values,
                      cairn_stop** stop);
void cairn_stop_free(cairn_stop* stop);
/** The application asks to stop. On any rank, in any thread; also in a signal handler. */
void cairn_stop_request(cairn_stop* stop);
/** Whether cairn_stop_request was called on this rank. */
int cairn_stop_requested(const cairn_stop* stop);
/** The options keep what they need of `stop`, which may be freed at any time. */
int cairn_options_stop(cairn_options* options, const cairn_stop* stop);

/** Options of one save (cairn::SaveOptions): "metric", and "attributes.NAME", whose value is
 * JSON. */
typedef struct cairn_save_options cairn_save_options;
int cairn_save_options_create(cairn_save_options** options);
void cairn_save_options_free(cairn_save_options* options);
int cairn_save_options_set(cairn_save_options* options, const char* name, const char* value);

/** Options of one restore (cairn::RestoreOptions), the same on all ranks: "rename.KEY" (the stored
 * key), "offset.KEY" ("0,128"), "may_be_missing.KEY" ("true"), "all_may_be_missing", "unused"
 * ("error", "warn", "silent"), "convert_keys.KEY" ("refuse", "exact", "round"), "convert",
 * "direct_io", "verify_first", "accept" ("2.*"); docs/c.md has a table. */
typedef struct cairn_restore_options cairn_restore_options;
int cairn_restore_options_create(cairn_restore_options** options);
void cairn_restore_options_free(cairn_restore_options* options);
int cairn_restore_options_set(cairn_restore_options* options, const char* name, const char* value);

#ifdef __cplusplus
}
#endif
