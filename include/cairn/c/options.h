#pragma once
/** Options, by the names that they have in C++: "keep.last", "store.format", "write.writer". What
 * each of them does stands at the member of that name in cairn/options.hpp and the headers that it
 * includes; docs/c.md lists them. */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Of a manager (cairn::ManagerOptions); a new one has the defaults. */
typedef struct cairn_options cairn_options;
int cairn_options_create(cairn_options** options);
void cairn_options_free(cairn_options* options);
/** cairn_options_set(options, "keep.last", "3"). Values are texts: "true" and "false", numbers, the
 * names that C++ has for the values of enums, "none" where there may be no value. Hints of MPI-IO
 * have their key in the name: "write.mpi_io.hints.KEY". Also TensorFlow's max_to_keep,
 * checkpoint_name, checkpoint_interval and keep_checkpoint_every_n_hours. Fails with
 * CAIRN_INVALID_ARGUMENT for a name that does not exist, and proposes the nearest; and for a text
 * that is no value of the option. What values go together is checked when a manager is made. */
int cairn_options_set(cairn_options* options, const char* name, const char* value);
/** `value` stays until the next call of this function in this thread. */
int cairn_options_get(const cairn_options* options, const char* name, const char** value);
/** The name of each option that can be given as text; NULL from the last on. Of options with a key
 * it ends in ".KEY". */
const char* cairn_options_name(size_t index);

/** Called before each save looks at the state, on all ranks, with the step. Callbacks are called in
 * the order in which they were given; they return CAIRN_OK or another code, with which the save
 * fails on all ranks. */
int cairn_options_before_save(cairn_options* options, int (*call)(void* context, int64_t step),
                              void* context);

/** Who saved a checkpoint (cairn::Application); what it does not say is "". */
typedef struct cairn_application {
  const char* name;
  const char* version;
  const char* commit;
} cairn_application;
/** Whether version `a` comes behind `b`: 1.10 comes behind 1.9. */
int cairn_is_newer_version(const char* a, const char* b);
/** What a migration may change of one restore, for this call alone (cairn::Migration). */
typedef struct cairn_migration cairn_migration;
/** An option of this restore, as cairn_restore_options_set has them: "rename.KEY", … */
int cairn_migration_set(cairn_migration* migration, const char* name, const char* value);
struct cairn_state;
/** What is filled: a copy of the program's state, to which cairn_state_add_… add tensors in memory
 * of the migration's. It goes with the callback. */
struct cairn_state* cairn_migration_state(cairn_migration* migration);
/** Called when all is filled, to make new values of old ones. Where it returns another code than
 * CAIRN_OK the restore fails on all ranks, and the contents of the state are unspecified. A later
 * one takes the place of an earlier one. */
int cairn_migration_finish(cairn_migration* migration, int (*call)(void* context), void* context);
/** Called on all ranks when a checkpoint of another version than this program's
 * ("store.application.version") is about to be restored, before anything is touched. `from` and
 * `migration` go with the call. It returns CAIRN_OK or another code, with which the restore fails
 * on all ranks. A later callback takes the place of an earlier one. */
int cairn_options_migrate(cairn_options* options,
                          int (*call)(void* context, const cairn_application* from,
                                      cairn_migration* migration),
                          void* context);
/** Shards of at most so many bytes, in files of their own (cairn::MaxShardSizePolicy). */
int cairn_options_max_shard_size(cairn_options* options, int64_t bytes);

/** What asks the process to stop, for should_stop. Make it early, after MPI_Init; it installs
 * signal handlers. Options by name as in cairn::StopOptions, such as "signals" ("15,10") and
 * "margin_seconds": the names and values are `count` texts each; 0 takes the defaults. */
typedef struct cairn_stop cairn_stop;
int cairn_stop_create(size_t count, const char* const* names, const char* const* values,
                      cairn_stop** stop);
void cairn_stop_free(cairn_stop* stop);
/** The application's own reason, on any rank, in any thread; also in a signal handler. */
void cairn_stop_request(cairn_stop* stop);
/** What this rank alone knows. */
int cairn_stop_requested(const cairn_stop* stop);
/** The options keep what they need of `stop`. */
int cairn_options_stop(cairn_options* options, const cairn_stop* stop);

/** Of one save (cairn::SaveOptions): "metric", and "attributes.NAME", whose value is JSON. */
typedef struct cairn_save_options cairn_save_options;
int cairn_save_options_create(cairn_save_options** options);
void cairn_save_options_free(cairn_save_options* options);
int cairn_save_options_set(cairn_save_options* options, const char* name, const char* value);

/** Of one restore (cairn::RestoreOptions), the same on all ranks: "rename.KEY" (the stored key),
 * "offset.KEY" ("0,128"), "may_be_missing.KEY" ("true"), "all_may_be_missing", "unused" ("error",
 * "warn", "silent"), "convert_keys.KEY" ("refuse", "exact", "round"), "convert", "direct_io",
 * "verify_first", "accept" ("2.*"); docs/c.md has a table. */
typedef struct cairn_restore_options cairn_restore_options;
int cairn_restore_options_create(cairn_restore_options** options);
void cairn_restore_options_free(cairn_restore_options* options);
int cairn_restore_options_set(cairn_restore_options* options, const char* name, const char* value);

#ifdef __cplusplus
}
#endif
