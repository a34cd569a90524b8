// A program that saves with SCR. docs/howto/from-others.md changes it.

#include "scr_files.hpp"

#include "plate.hpp"

static void run() {
  Plate plate(MPI_COMM_WORLD);
  int step = restart(plate), flag = 0;
  while (step < steps) {
    plate.advance();
    ++step;
    SCR_Need_checkpoint(&flag);
    if (flag) checkpoint(step, plate);
    SCR_Should_exit(&flag);
    if (flag) break;
  }
  plate.tell(step);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  SCR_Init();
  run();
  SCR_Finalize();
  MPI_Finalize();
}
