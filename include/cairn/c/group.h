#pragma once
/** The ranks of a job: one, those of MPI (cairn_mpi.h), or those of a table of callbacks. */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_group cairn_group;

/** One rank. */
int cairn_group_serial(cairn_group** group);
void cairn_group_free(cairn_group* group);
int cairn_group_rank(const cairn_group* group);
int cairn_group_size(const cairn_group* group);

/** One message of a round. Both sides know its length. */
typedef struct cairn_send {
  int to;
  const void* bytes;
  size_t size;
} cairn_send;
typedef struct cairn_receive {
  int from;
  void* bytes;
  size_t size;
} cairn_receive;

enum cairn_op { CAIRN_MIN = 0, CAIRN_MAX = 1, CAIRN_SUM = 2 /**< wraps around */ };

/** Ranks that the application knows how to reach. The library calls these functions from the thread
 * that called it; the collective ones on all ranks in the same order. They return CAIRN_OK or
 * another code, after cairn_set_error if they like: then no agreement is possible any more, and the
 * job is ended by `abort`. No message goes to the rank itself. */
typedef struct cairn_group_calls {
  size_t struct_size; /**< sizeof(cairn_group_calls) */
  int rank, size;
  int node; /**< the same number where ranks share memory (a host), from 0 by their lowest rank */
  void* context;
  /** Sends and receives all of them; returns when the receives are complete and the send buffers
   * may be reused. Between two ranks messages match in order. Not collective. */
  int (*exchange)(void* context, size_t sends, const cairn_send* send, size_t receives,
                  const cairn_receive* receive);
  /** Point to point; these never match messages of `exchange`. May wait for each other. */
  int (*send)(void* context, int to, const void* bytes, size_t size);
  int (*receive)(void* context, int from, void* bytes, size_t size);
  int (*barrier)(void* context);                                       /**< collective */
  int (*broadcast)(void* context, void* bytes, size_t size, int root); /**< collective */
  /** Collective, elementwise; `op` is one of cairn_op. */
  int (*all_reduce)(void* context, int64_t* values, size_t count, int op);
  /** Ends the whole job; must not return. NULL: the process ends. */
  void (*abort)(void* context, const char* message);
  /** Called once, when nothing uses the group any more; not for a table that was refused. NULL: not
   * needed. */
  void (*release)(void* context);
} cairn_group_calls;

/** The table is copied. */
int cairn_group_from_calls(const cairn_group_calls* calls, cairn_group** group);

/** Collective: a verdict on what each rank did alone. CAIRN_OK if all ranks give CAIRN_OK; else the
 * error of the lowest rank that gives another code, on all ranks. `problem` says what was wrong. */
int cairn_agree(cairn_group* group, int code, const char* problem);

#ifdef __cplusplus
}
#endif
