#include "cairn/cursor.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "c/callbacks.hpp"
#include "c/handles.hpp"
#include "cairn/c/cursor.h"
#include "model/follow.hpp"

using namespace cairn;
using c::call;
using c::given;

struct cairn_cursor {
  Cursor cursor;
};

int cairn_cursor_create(int64_t samples, uint64_t seed, int shuffle, int rank, int ranks,
                        cairn_cursor** cursor) {
  return call([&] {
    Cursor made(samples, {.seed = seed, .shuffle = shuffle != 0, .rank = rank, .ranks = ranks});
    c::make(cursor, std::move(made));
  });
}
void cairn_cursor_free(cairn_cursor* cursor) { delete cursor; }

int cairn_cursor_take(cairn_cursor* cursor, int64_t most, int64_t* samples, int64_t* count) {
  return call([&] {
    auto& data = given(cursor, "the cursor").cursor;
    auto& taken = given(count, "the address for the number of samples");
    if (most > 0) given(samples, "the array for samples");
    const auto batch = data.take(most);
    std::copy(batch.samples.begin(), batch.samples.end(), samples);
    taken = std::ssize(batch.samples);
  });
}
int cairn_cursor_done(cairn_cursor* cursor, int64_t count) {
  return call([&] { given(cursor, "the cursor").cursor.done(count); });
}
int cairn_cursor_rewind(cairn_cursor* cursor) {
  return call([&] { given(cursor, "the cursor").cursor.rewind(); });
}
int cairn_cursor_next_epoch(cairn_cursor* cursor) {
  return call([&] { given(cursor, "the cursor").cursor.next_epoch(); });
}

int cairn_cursor_batches(const cairn_cursor* cursor, int64_t size, int64_t* batches) {
  return call([&] {
    const auto& data = given(cursor, "the cursor").cursor;
    given(batches, "the address for the number of batches") = data.batches(size);
  });
}
int64_t cairn_cursor_epoch(const cairn_cursor* cursor) {
  return cursor ? cursor->cursor.epoch() : -1;
}
int64_t cairn_cursor_left(const cairn_cursor* cursor) {
  return cursor ? cursor->cursor.left() : -1;
}
int64_t cairn_cursor_share(const cairn_cursor* cursor) {
  return cursor ? cursor->cursor.share() : -1;
}
int64_t cairn_cursor_waiting(const cairn_cursor* cursor) {
  return cursor ? cursor->cursor.waiting() : -1;
}

int cairn_state_add_cursor(cairn_state* state, const char* key, cairn_cursor* cursor) {
  return call([&] {
    auto& tensors = given(state, "the state").state;
    const std::string name = &given(key, "the key");
    try {
      tensors.add(name, given(cursor, "the cursor").cursor);
    } catch (const Error& error) {
      throw named(error, name);
    }
  });
}
