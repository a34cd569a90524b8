#pragma once
/** The C face of Cairn. C99; other languages stand on it. Link libcairn; cairn_mpi.h has the ranks
 * of MPI.
 *
 * Every function that can fail returns CAIRN_OK or a code, and then cairn_last_error() says what
 * was wrong. A collective call fails on all ranks with the same error, or on none. Handles are made
 * by functions whose last argument is where they are put, and freed by their _free, in any order: a
 * manager keeps its group, a state keeps its strings and ids. Freeing NULL does nothing. A handle
 * is used by one thread at a time, and collective calls come from the thread that may call MPI.
 *
 * Shapes, starts, extents and strides count elements, 64 bits each, slowest dimension first. Text
 * is UTF-8 and ends with a zero byte. A pointer that a function returns belongs to the handle it
 * was given and stays as long as the comment says. */
#include "cairn/c/contents.h"
#include "cairn/c/cursor.h"
#include "cairn/c/error.h"
#include "cairn/c/group.h"
#include "cairn/c/manager.h"
#include "cairn/c/options.h"
#include "cairn/c/process.h"
#include "cairn/c/rows.h"
#include "cairn/c/state.h"
