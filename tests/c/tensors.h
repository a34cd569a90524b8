#pragma once
/* The tensors of tests/support/tensors.txt, which says what they are and which rank holds what
 * of them. */
#include "checks.h"

enum { MOST_TENSORS = 32, MOST_BOXES = 16 };

/* A box of a tensor in memory with a halo. Three dimensions, the first ones of extent 1 where a
 * tensor has fewer. */
typedef struct {
  int64_t start[3], extent[3], strides[3];
  char *memory, *first;
} box;

typedef struct {
  char key[24], kind[16], type[16];
  cairn_dtype dtype;
  int dims, number;
  int64_t shape[3];
  /* Of these members a tensor uses those that its kind needs. */
  int box_count;
  box boxes[MOST_BOXES];
  char text[8];
  cairn_strings* words;
  cairn_vector* rows;
  int64_t id_count, *id_list;
  cairn_ids* ids;
  char* by_id;
} tensor;

typedef struct {
  int count, rank, ranks;
  tensor all[MOST_TENSORS];
  cairn_state* state;
} table;

/* Makes the state that a rank gives to a save of a step, or to a restore. */
void make_saved(table* t, const char* path, int rank, int ranks, int step);
void make_wanted(table* t, const char* path, int rank, int ranks);
/* To be called after a restore. `rows_before` returns how many rows of a ragged tensor lower
 * ranks have. */
void check_restored(const table* t, int step, int64_t (*rows_before)(int64_t mine));
void free_table(table* t);
