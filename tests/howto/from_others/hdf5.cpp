// A program that writes HDF5 files by hand. docs/howto/from-others.md changes it.

#include "hdf5_files.hpp"

#include "plate.hpp"

static void run() {
  Plate plate(MPI_COMM_WORLD);
  int step = restart(plate);
  while (step < steps) {
    plate.advance();
    ++step;
    if (step % 5 == 0) checkpoint(step, plate);
  }
  plate.tell(step);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  run();
  MPI_Finalize();
}
