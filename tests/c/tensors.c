#include "tensors.h"

static int64_t row_elements(const tensor* t) {
  int64_t elements = 1;
  int d;
  for (d = 4 - t->dims; d < 3; ++d) elements *= t->shape[d];
  return elements;
}

/* Writes element i to memory, as a number of the tensor's type. */
static void put(const tensor* t, int step, int64_t i, void* to) {
  const int64_t v = (7 * i + 13 * step + t->number) % 101;
  const int gap = strcmp(t->kind, "sparse") == 0 && i / row_elements(t) % 2 == 1;
  const int n = gap ? -1 : (int)v;
  switch (t->dtype) {
    case CAIRN_BOOLEAN:
      *(unsigned char*)to = (unsigned char)(v % 2);
      return;
    case CAIRN_INT8:
      *(int8_t*)to = (int8_t)n;
      return;
    case CAIRN_INT16:
      *(int16_t*)to = (int16_t)n;
      return;
    case CAIRN_INT32:
      *(int32_t*)to = n;
      return;
    case CAIRN_INT64:
      *(int64_t*)to = n;
      return;
    case CAIRN_FLOAT32:
      *(float*)to = (float)n;
      return;
    case CAIRN_FLOAT64:
      *(double*)to = n;
      return;
    case CAIRN_COMPLEX64:
      ((float*)to)[0] = (float)n;
      ((float*)to)[1] = (float)(n + 1);
      return;
    case CAIRN_COMPLEX128:
      ((double*)to)[0] = n;
      ((double*)to)[1] = n + 1;
      return;
    default:
      CHECK(!"a type of the table that is not known here");
  }
}
static void put_text(const tensor* t, int step, int64_t i, char text[8]) {
  const int64_t v = (7 * i + 13 * step + t->number) % 101;
  memset(text, 0, 8);
  memset(text, (int)('a' + v % 26), (size_t)(v % 7));
}
static void check_element(const tensor* t, int step, int64_t i, const void* at) {
  char right[16];
  put(t, step, i, right);
  if (memcmp(right, at, cairn_dtype_size(t->dtype)) == 0) return;
  fprintf(stderr, "element %d of %s differs\n", (int)i, t->key);
  abort();
}

/* Adds a box of zeros or, with a step, of the tensor's elements; all of its halo is 77. */
static void add_box(tensor* t, const int64_t start[3], const int64_t extent[3], int step) {
  box* b = &t->boxes[t->box_count++];
  const size_t item = cairn_dtype_size(t->dtype);
  size_t elements = 1, before = 0;
  int64_t x, y, z;
  int d;
  CHECK(t->box_count <= MOST_BOXES);
  for (d = 2; d >= 0; --d) {
    const int halo = d >= 3 - t->dims;
    b->start[d] = start[d];
    b->extent[d] = extent[d];
    b->strides[d] = (int64_t)elements;
    before += halo ? elements : 0;
    elements *= (size_t)(extent[d] + (halo ? 2 : 0));
  }
  b->memory = malloc(elements * item + 1);
  CHECK(b->memory != NULL);
  memset(b->memory, 77, elements * item);
  b->first = b->memory + before * item;
  for (x = 0; x < extent[0]; ++x) {
    for (y = 0; y < extent[1]; ++y) {
      for (z = 0; z < extent[2]; ++z) {
        const int64_t i =
            ((start[0] + x) * t->shape[1] + start[1] + y) * t->shape[2] + start[2] + z;
        char* at =
            b->first + (size_t)(x * b->strides[0] + y * b->strides[1] + z * b->strides[2]) * item;
        memset(at, 0, item);
        if (step >= 0) put(t, step, i, at);
      }
    }
  }
}
static void check_box(const tensor* t, const box* b, int step) {
  const size_t item = cairn_dtype_size(t->dtype);
  const int h0 = t->dims > 2, h1 = t->dims > 1, h2 = t->dims > 0;
  int64_t x, y, z;
  for (x = -h0; x < b->extent[0] + h0; ++x) {
    for (y = -h1; y < b->extent[1] + h1; ++y) {
      for (z = -h2; z < b->extent[2] + h2; ++z) {
        const int inside =
            x >= 0 && x < b->extent[0] && y >= 0 && y < b->extent[1] && z >= 0 && z < b->extent[2];
        const char* at =
            b->first + (x * b->strides[0] + y * b->strides[1] + z * b->strides[2]) * (int64_t)item;
        size_t k;
        if (inside) {
          check_element(
              t, step,
              ((b->start[0] + x) * t->shape[1] + b->start[1] + y) * t->shape[2] + b->start[2] + z,
              at);
        }
        for (k = 0; !inside && k < item; ++k) CHECK(at[k] == 77);
      }
    }
  }
}

static void read_table(table* t, const char* path, int rank, int ranks) {
  char line[300], shape[40];
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  memset(t, 0, sizeof(*t));
  t->rank = rank;
  t->ranks = ranks;
  OK(cairn_state_create(&t->state));
  while (fgets(line, sizeof(line), file)) {
    tensor* one = &t->all[t->count];
    int64_t extents[3];
    char* next = shape;
    int d;
    if (line[0] == '#') continue;
    CHECK(t->count < MOST_TENSORS);
    CHECK(sscanf(line, "%23s %15s %15s %39s", one->key, one->kind, one->type, shape) == 4);
    one->dtype = cairn_dtype_from_name(one->type);
    CHECK(one->dtype != 0);
    one->number = t->count++;
    while (*next != '-' && *next != '\0') {
      CHECK(one->dims < 3);
      extents[one->dims++] = strtoll(next, &next, 10);
      if (*next == ',') ++next;
    }
    for (d = 0; d < 3; ++d) {
      one->shape[d] = d < 3 - one->dims ? 1 : extents[d - (3 - one->dims)];
    }
  }
  fclose(file);
}

static int is(const tensor* t, const char* kind) { return strcmp(t->kind, kind) == 0; }
static const int64_t* shape_of(const tensor* t) { return t->shape + 3 - t->dims; }

/* Adds a rank's block of a dimension. */
static void add_block(tensor* t, int d, int rank, int ranks, int step) {
  int64_t start[3] = {0, 0, 0}, extent[3];
  memcpy(extent, t->shape, sizeof(extent));
  start[d] = t->shape[d] * rank / ranks;
  extent[d] = t->shape[d] * (rank + 1) / ranks - start[d];
  add_box(t, start, extent, step);
}
static void add_row(tensor* t, int64_t row, int step) {
  const int d = 3 - t->dims;
  int64_t start[3] = {0, 0, 0}, extent[3];
  memcpy(extent, t->shape, sizeof(extent));
  start[d] = row;
  extent[d] = 1;
  add_box(t, start, extent, step);
}
static void add_rows(table* all, tensor* t, int64_t first, int64_t count, int step) {
  const int64_t elements = row_elements(t);
  cairn_rows rows;
  int64_t i;
  OK(cairn_vector_create(t->dtype, t->dims - 1, shape_of(t) + 1, &t->rows));
  OK(cairn_vector_resize(t->rows, count));
  for (i = 0; i < count * elements; ++i) {
    put(t, step, first * elements + i,
        (char*)cairn_vector_data(t->rows) + i * (int64_t)cairn_dtype_size(t->dtype));
  }
  rows = cairn_vector_rows(t->rows);
  if (is(t, "ragged")) {
    OK(cairn_state_add_ragged(all->state, t->key, t->dtype, t->dims - 1, shape_of(t) + 1, &rows,
                              NULL, NULL));
  } else {
    OK(cairn_state_add_resizable(all->state, t->key, t->dtype, t->dims - 1, shape_of(t) + 1,
                                 &rows));
  }
}

/* Adds the rows first, first + by, ... below the end, the last one first. */
static void add_indexed(table* all, tensor* t, int64_t first, int64_t end, int64_t by, int step) {
  const int64_t elements = row_elements(t), rows = shape_of(t)[0];
  const int64_t item = (int64_t)cairn_dtype_size(t->dtype);
  int64_t shape[3], row, i;
  t->id_list = malloc((size_t)(rows + 1) * sizeof(int64_t));
  t->by_id = calloc((size_t)(rows * elements + 1), (size_t)item);
  CHECK(t->id_list != NULL && t->by_id != NULL);
  for (row = first + (end - first - 1) / by * by; first < end && row >= first; row -= by) {
    for (i = 0; step >= 0 && i < elements; ++i) {
      put(t, step, row * elements + i, t->by_id + (t->id_count * elements + i) * item);
    }
    t->id_list[t->id_count++] = row;
  }
  memcpy(shape, shape_of(t), (size_t)t->dims * sizeof(int64_t));
  shape[0] = t->id_count;
  OK(cairn_ids_create(CAIRN_INT64, t->id_list, t->id_count, 0, -1, NULL, &t->ids));
  OK(cairn_state_add_indexed(all->state, t->key, t->ids, t->dtype, t->dims, t->by_id, shape, NULL));
}

static void add_texts(table* all, tensor* t, int step) {
  int64_t i;
  if (t->dims == 0) {
    if (step >= 0) put_text(t, step, 0, t->text);
    OK(cairn_state_add_text(all->state, t->key, t->text, sizeof(t->text), -1, '\0'));
    return;
  }
  OK(cairn_strings_create(&t->words));
  for (i = 0; i < t->shape[2]; ++i) {
    char text[8] = "";
    if (step >= 0) put_text(t, step, i, text);
    OK(cairn_strings_append(t->words, text, strlen(text)));
  }
  OK(cairn_state_add_strings(all->state, t->key, t->words));
}

/* Adds the boxes, by the function that a program would use for them. */
static void add_boxes(table* all, const tensor* t) {
  const box* b = t->boxes;
  const int skip = 3 - t->dims;
  cairn_patch patches[MOST_BOXES];
  int i;
  for (i = 0; i < t->box_count; ++i) {
    patches[i].data = b[i].first;
    patches[i].start = b[i].start + skip;
    patches[i].extent = b[i].extent + skip;
    patches[i].strides = b[i].strides + skip;
  }
  if (is(t, "sparse")) {
    const double minus = -1;
    OK(cairn_state_add_sparse(all->state, t->key, t->dtype, t->dims, shape_of(t),
                              (size_t)t->box_count, patches, CAIRN_FLOAT64, &minus,
                              CAIRN_FILL_GAPS));
  } else if (t->box_count != 1) {
    OK(cairn_state_add_patches(all->state, t->key, t->dtype, t->dims, shape_of(t),
                               (size_t)t->box_count, patches));
  } else if (memcmp(b->extent, t->shape, sizeof(t->shape)) == 0) {
    OK(cairn_state_add_whole(all->state, t->key, t->dtype, t->dims, b->first, shape_of(t),
                             b->strides + skip));
  } else {
    OK(cairn_state_add_slice(all->state, t->key, t->dtype, t->dims, b->first, shape_of(t),
                             b->start + skip, b->extent + skip, b->strides + skip));
  }
}

void make_saved(table* all, const char* path, int rank, int ranks, int step) {
  int i;
  read_table(all, path, rank, ranks);
  for (i = 0; i < all->count; ++i) {
    tensor* t = &all->all[i];
    const int64_t rows = t->dims ? shape_of(t)[0] : 0;
    int64_t row;
    if (is(t, "strings")) {
      add_texts(all, t, step);
      continue;
    }
    if (is(t, "ragged")) {
      add_rows(all, t, rows * rank / ranks, rows * (rank + 1) / ranks - rows * rank / ranks, step);
      continue;
    }
    if (is(t, "resizable")) {
      add_rows(all, t, 0, rows, step);
      continue;
    }
    if (is(t, "indexed")) {
      add_indexed(all, t, rank, rows, ranks, step);
      continue;
    }
    if (is(t, "rows")) {
      add_block(t, 3 - t->dims, rank, ranks, step);
    } else if (is(t, "columns")) {
      add_block(t, 2, rank, ranks, step);
    } else if (is(t, "whole") || (is(t, "last") && rank == ranks - 1)) {
      add_block(t, 2, 0, 1, step);
    } else if (is(t, "turns")) {
      for (row = rank; row < rows; row += ranks) add_row(t, row, step);
    } else if (is(t, "sparse")) {
      for (row = 2 * rank; row < rows; row += 2 * (int64_t)ranks) add_row(t, row, step);
    } else {
      CHECK(is(t, "last"));
    }
    add_boxes(all, t);
  }
}

void make_wanted(table* all, const char* path, int rank, int ranks) {
  int i;
  read_table(all, path, rank, ranks);
  for (i = 0; i < all->count; ++i) {
    tensor* t = &all->all[i];
    const int64_t rows = t->dims ? shape_of(t)[0] : 0;
    if (is(t, "strings")) {
      add_texts(all, t, -1);
    } else if (is(t, "ragged") || is(t, "resizable")) {
      add_rows(all, t, 0, 0, -1);
    } else if (is(t, "indexed")) {
      add_indexed(all, t, rows * rank / ranks, rows * (rank + 1) / ranks, 1, -1);
    } else {
      if (t->dims == 0) {
        add_block(t, 2, 0, 1, -1);
      } else {
        add_block(t, is(t, "columns") ? 3 - t->dims : 2, rank, ranks, -1);
      }
      add_boxes(all, t);
    }
  }
}

static void check_rows(const tensor* t, int step, int64_t before) {
  const int64_t elements = row_elements(t), count = cairn_vector_count(t->rows);
  int64_t i;
  if (is(t, "resizable")) CHECK(count == shape_of(t)[0]);
  for (i = 0; i < count * elements; ++i) {
    check_element(t, step, before * elements + i,
                  (char*)cairn_vector_data(t->rows) + i * (int64_t)cairn_dtype_size(t->dtype));
  }
}

void check_restored(const table* all, int step, int64_t (*rows_before)(int64_t mine)) {
  int n, b;
  int64_t i, k;
  for (n = 0; n < all->count; ++n) {
    const tensor* t = &all->all[n];
    char right[8];
    for (b = 0; b < t->box_count; ++b) check_box(t, &t->boxes[b], step);
    if (t->rows) {
      const int64_t count = cairn_vector_count(t->rows);
      const int64_t before = is(t, "ragged") ? rows_before(count) : 0;
      check_rows(t, step, before);
      if (is(t, "ragged") && all->rank == all->ranks - 1) CHECK(before + count == shape_of(t)[0]);
    }
    for (i = 0; i < t->id_count; ++i) {
      const int64_t elements = row_elements(t);
      for (k = 0; k < elements; ++k) {
        check_element(t, step, t->id_list[i] * elements + k,
                      t->by_id + (i * elements + k) * (int64_t)cairn_dtype_size(t->dtype));
      }
    }
    if (!is(t, "strings")) continue;
    for (i = 0; i < t->shape[2]; ++i) {
      put_text(t, step, i, right);
      CHECK(strcmp(right, t->dims ? cairn_strings_at(t->words, (size_t)i, NULL) : t->text) == 0);
    }
  }
}

void free_table(table* all) {
  int n, b;
  cairn_state_free(all->state);
  for (n = 0; n < all->count; ++n) {
    tensor* t = &all->all[n];
    for (b = 0; b < t->box_count; ++b) free(t->boxes[b].memory);
    cairn_strings_free(t->words);
    cairn_vector_free(t->rows);
    cairn_ids_free(t->ids);
    free(t->id_list);
    free(t->by_id);
  }
}
