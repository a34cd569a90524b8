#pragma once
/// Files that the ranks of a communicator write with MPI-IO. Blocking collective calls only: those
/// are what every MPI library gets right.
#include <mpi.h>

#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

#include "cairn/error.hpp"
#include "cairn/shared_files.hpp"

namespace cairn {

class MpiFiles final : public SharedFiles {
 public:
  /// What an int counts; longer writes are one element of a type of blocks. Less is for tests.
  static constexpr std::size_t most_bytes = std::numeric_limits<int>::max();

  /// The communicator outlives it.
  MpiFiles(MPI_Comm communicator, int rank, std::size_t most = most_bytes)
      : communicator_(communicator), rank_(rank), most_(most) {}

  std::string library() const override;
  void check(const Hints& hints) const override;
  std::string doubt(const Hints& hints) const override;
  std::unique_ptr<SharedFile> open(const std::filesystem::path& path, int number,
                                   const Hints& hints) override;

 private:
  MPI_Comm communicator_;
  int rank_;
  std::size_t most_;
};

/// Whether an MPI_Get_library_version text is of an Open MPI whose OMPIO loses bytes where several
/// aggregators write one small piece of a file: 4.1.0 to 4.1.6 and 5.0.0 to 5.0.5 (their locks do
/// not cover what data sieving reads and writes back).
bool loses_bytes_among_aggregators(std::string_view version);

/// How long the path of a file may be, in bytes, that is opened with MPI-IO; 0: as long as it
/// likes. Open MPI's OMPIO asks whether files can be locked, and has 256 bytes for the path,
/// ".locktest.", a rank and a zero: it would write past them. `io` and `sharedfp` are what people
/// choose its components with (OMPI_MCA_io, OMPI_MCA_sharedfp); null: nothing.
std::size_t longest_path(std::string_view version, const char* io, const char* sharedfp);
/// Collective among those who open the path. Throws invalid_argument on all of them where it is
/// longer than one of them can take.
void require_short(MPI_Comm, int rank, const std::filesystem::path&);

/// What MPI-IO is to open. ROMIO takes what is before a ':' for the name of a kind of file system,
/// "ufs:", and would open another file than a relative path of that beginning means.
std::string name_for_mpi(const std::filesystem::path&);
/// The error of a file that MPI-IO did not open. Where a ':' may be why, it says so: ROMIO calls
/// the file missing.
Error not_opened(const Error&, const std::filesystem::path&);

/// OMPIO's parameters of the names io_ompio_NAME; what they are where nobody sets them.
struct OmpioParameters {
  int num_aggregators = -1;
  int grouping_option = 5;
  int max_aggregators_ratio = 8;
};
/// How many of so many ranks OMPIO may let write to a file that they share, without hints.
int most_aggregators(int ranks, const OmpioParameters&);

}  // namespace cairn
