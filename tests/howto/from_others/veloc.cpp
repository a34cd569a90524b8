// A program that saves with VELOC. docs/howto/from-others.md changes it.

#include <veloc.h>

#include "plate.hpp"

static void run() {
  Plate plate(MPI_COMM_WORLD);
  int step = 0;
  VELOC_Mem_protect(0, &step, 1, sizeof(step));
  VELOC_Mem_protect(1, plate.u.data(), plate.u.size(), sizeof(double));
  const int found = VELOC_Restart_test("plate", 0);
  if (found > 0 && VELOC_Restart("plate", found) != VELOC_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);

  while (step < steps) {
    plate.advance();
    ++step;
    if (step % 5 == 0) VELOC_Checkpoint("plate", step);
  }
  plate.tell(step);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  VELOC_Init(MPI_COMM_WORLD, "veloc.cfg");
  run();
  VELOC_Finalize(1);
  MPI_Finalize();
}
