// A program that saves with FTI. docs/howto/from-others.md changes it.

#include <fti.h>

#include "plate.hpp"

static void run() {
  Plate plate(FTI_COMM_WORLD);
  int step = 0;
  FTI_Protect(0, &step, 1, FTI_INTG);
  FTI_Protect(1, plate.u.data(), static_cast<std::int64_t>(plate.u.size()), FTI_DBLE);
  while (step < steps) {
    FTI_Snapshot();
    plate.advance();
    ++step;
  }
  plate.tell(step);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  FTI_Init("config.fti", MPI_COMM_WORLD);
  run();
  FTI_Finalize();
  MPI_Finalize();
}
