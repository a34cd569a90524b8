#pragma once
/* The checks of the C programs here: the first check that fails prints its place and ends the
 * program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cairn.h"

static inline void check_(int holds, const char* what, const char* file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: %s\n  the last error: %s\n", file, line, what, cairn_last_error()->text);
  abort();
}
#define CHECK(condition) check_((condition) != 0, #condition, __FILE__, __LINE__)
#define OK(call) check_((call) == CAIRN_OK, #call, __FILE__, __LINE__)

/* Checks that the call fails with this code, and that its text has these words. */
#define FAILS(call, expected, words)                                                            \
  do {                                                                                          \
    check_((call) == (expected), #call " fails with " #expected, __FILE__, __LINE__);           \
    check_(cairn_last_error()->code == (expected), "the code of " #call, __FILE__, __LINE__);   \
    check_(strstr(cairn_last_error()->text, words) != NULL, "the text of " #call " has " words, \
           __FILE__, __LINE__);                                                                 \
  } while (0)
