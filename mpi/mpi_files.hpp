#pragma once
/// Files that the ranks of a communicator write with MPI-IO, by blocking collective calls only:
/// every MPI library gets those right.
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
  /// The most bytes that an int can count; longer writes are one element of a type of blocks. Tests
  /// use less.
  static constexpr std::size_t most_bytes = std::numeric_limits<int>::max();

  /// The communicator must outlive it.
  MpiFiles(MPI_Comm communicator, int rank, std::size_t most = most_bytes)
      : communicator_(communicator), rank_(rank), most_(most) {}

  std::string library() const override;
  void check(const Hints& hints) const override;
  std::string doubt(const Hints& hints) const override;
  std::unique_ptr<SharedFile> open(const PathText& path, int number, const Hints& hints) override;

 private:
  MPI_Comm communicator_;
  int rank_;
  std::size_t most_;
};

/// Whether a text of MPI_Get_library_version names an Open MPI whose OMPIO loses bytes if several
/// aggregators write one small piece of a file: 4.1.0 to 4.1.6 and 5.0.0 to 5.0.5 (their locks do
/// not cover the bytes that data sieving reads and writes back).
bool loses_bytes_among_aggregators(std::string_view version);

/// The most bytes that the path of a file may have to be opened with MPI-IO; 0: no limit. Open
/// MPI's OMPIO tests whether files can be locked, and has a buffer of 256 bytes for the path,
/// ".locktest.", a rank and a zero: with a longer path it would write past the buffer. `io` and
/// `sharedfp` are the lists by which people choose its components (OMPI_MCA_io, OMPI_MCA_sharedfp);
/// null: not set.
std::size_t longest_path(std::string_view version, const char* io, const char* sharedfp);
/// Collective among the ranks that open the path. Throws invalid_argument on all of them if the
/// path is too long for one of them.
void require_short(MPI_Comm, int rank, const std::filesystem::path&);

/// The name to give to MPI-IO. ROMIO takes what is before a ':', such as "ufs:", for the name of a
/// kind of file system, and would open another file than a relative path with that beginning means.
std::string name_for_mpi(const std::filesystem::path&);
/// The error of a file that MPI-IO did not open. If a ':' may be the reason, the error says so:
/// ROMIO only calls the file missing.
Error not_opened(const Error&, const std::filesystem::path&);

/// OMPIO's parameters io_ompio_NAME, with the values that they have if nobody sets them.
struct OmpioParameters {
  int num_aggregators = -1;
  int grouping_option = 5;
  int max_aggregators_ratio = 8;
};
/// The most aggregators among `ranks` ranks that OMPIO may choose for a shared file, without hints.
int most_aggregators(int ranks, const OmpioParameters&);

}  // namespace cairn
