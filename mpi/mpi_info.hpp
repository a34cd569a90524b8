#pragma once
/// Hints as an MPI_Info.
#include <mpi.h>

#include <map>
#include <string>

#include "mpi/mpi_check.hpp"

namespace cairn {

/// MPI_INFO_NULL if there are no hints.
class Info {
 public:
  Info(const std::map<std::string, std::string>& hints, int rank) {
    if (hints.empty()) return;
    check_mpi(MPI_Info_create(&info_), "MPI_Info_create", rank);
    for (const auto& [key, value] : hints) {
      const int code = MPI_Info_set(info_, key.c_str(), value.c_str());
      if (code == MPI_SUCCESS) continue;
      MPI_Info_free(&info_);
      check_mpi(code, "MPI_Info_set", rank);
    }
  }
  ~Info() {
    if (info_ != MPI_INFO_NULL) MPI_Info_free(&info_);
  }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
  MPI_Info get() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

}  // namespace cairn
