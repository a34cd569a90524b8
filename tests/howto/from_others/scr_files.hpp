#pragma once
/// The files of scr.cpp: each rank writes one of its own, and reads it again.
#include <scr.h>

#include <fstream>
#include <string>

#include "plate.hpp"

inline std::string routed(const std::string& name, const Plate& plate) {
  char file[SCR_MAX_FILENAME];
  SCR_Route_file((name + "/rank" + std::to_string(plate.rank)).c_str(), file);
  return file;
}

inline std::streamsize bytes_of(const Plate& plate) {
  return static_cast<std::streamsize>(plate.u.size() * sizeof(double));
}

inline void checkpoint(int step, Plate& plate) {
  const auto name = "step" + std::to_string(step);
  SCR_Start_output(name.c_str(), SCR_FLAG_CHECKPOINT);
  std::ofstream file(routed(name, plate), std::ios::binary);
  file.write(reinterpret_cast<const char*>(&step), sizeof(step));
  file.write(reinterpret_cast<const char*>(plate.u.data()), bytes_of(plate));
  file.close();
  SCR_Complete_output(file.good());
}

// Returns the step, 0 without a checkpoint. One that cannot be read makes SCR offer an older one.
inline int restart(Plate& plate) {
  int step = 0;
  int found = 0;
  char name[SCR_MAX_FILENAME];
  while (SCR_Have_restart(&found, name) == SCR_SUCCESS && found) {
    SCR_Start_restart(name);
    std::ifstream file(routed(name, plate), std::ios::binary);
    file.read(reinterpret_cast<char*>(&step), sizeof(step));
    file.read(reinterpret_cast<char*>(plate.u.data()), bytes_of(plate));
    if (SCR_Complete_restart(file.good()) == SCR_SUCCESS) return step;
  }
  return 0;
}
