#pragma once
/** The ranks of a job: a single one, those of MPI (cairn_mpi.h), or those behind a table of
 * callbacks. */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_group cairn_group;

/** A group of one rank. */
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

/** Functions with which the application passes messages between ranks. The library calls them from
 * the thread that called it; the collective ones on all ranks in the same order. They return
 * CAIRN_OK or another code, if they like after cairn_set_error. After an error ranks cannot agree,
 * and the library ends the job with `abort`. No message goes to the rank itself. */
typedef struct cairn_group_calls {
  size_t struct_size; /**< sizeof(cairn_group_calls); tells the library which members there are */
  int rank, size;
  int node; /**< ranks with the same number share memory (a host); numbered from 0 by their lowest
               rank */
  void* context;
  /** Sends and receives all messages of a round; returns when the receives are complete and the
   * send buffers may be reused. Between two ranks messages match in order. Not collective. */
  int (*exchange)(void* context, size_t sends, const cairn_send* send, size_t receives,
                  const cairn_receive* receive);
  /** Point to point; these messages never match those of `exchange`. A send may wait for its
   * receive. */
  int (*send)(void* context, int to, const void* bytes, size_t size);
  int (*receive)(void* context, int from, void* bytes, size_t size);
  int (*barrier)(void* context);                                       /**< collective */
  int (*broadcast)(void* context, void* bytes, size_t size, int root); /**< collective */
  /** Collective, elementwise; `op` is one of cairn_op. */
  int (*all_reduce)(void* context, int64_t* values, size_t count, int op);
  /** Ends the whole job; must not return. NULL: the library ends the process. */
  void (*abort)(void* context, const char* message);
  /** Called once, after the last use of the group; not for a table that was refused. NULL: not
   * needed. */
  void (*release)(void* context);
} cairn_group_calls;

/** The table is copied. */
int cairn_group_from_calls(const cairn_group_calls* calls, cairn_group** group);

/** Collective. Agrees on the result of work that each rank did alone: returns CAIRN_OK if all ranks
 * give CAIRN_OK; else, on all ranks, the error of the lowest rank that gives another code.
 * `problem` says what was wrong. */
int cairn_agree(cairn_group* group, int code, const char* problem);

#ifdef __cplusplus
}
#endif
