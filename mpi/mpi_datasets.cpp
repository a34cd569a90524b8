// All ranks make the same calls of HDF5 in the same order. Each rank first gets by itself what it
// needs for a collective transfer. Then all ranks agree on whether each of them has it, since a
// rank that stayed away would leave the others waiting inside HDF5. If a collective call of HDF5
// fails on one rank only, the others are left waiting, too (libhdf5 then leaves out calls of MPI):
// this rank waits a while for the others, and if they do not come, throws an error that says so.
#include "mpi/mpi_datasets.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "layout/hdf5/library.hpp"
#include "mpi/mpi_check.hpp"
#include "mpi/mpi_info.hpp"
#include "mpi/standard_numbers.hpp"

namespace cairn {
namespace {

using hdf5::check;
using hdf5::failure;
using hdf5::Handle;
using hdf5::Session;

// The handles that one transfer needs.
struct Transfer {
  hid_t dataset = H5I_INVALID_HID;
  Handle type, file_space, memory_space;
};

// The check after a collective call of HDF5: whether it failed on any rank.
struct EntryCheck {
  MPI_Comm communicator;
  int rank;
  double patience_seconds;
  std::filesystem::path path;

  Error placed(Error error) const { return error.at(path.string()).on_rank(rank); }

  /// Whether the call went well on all ranks. A rank where it failed must not wait for ever: if the
  /// others do not come, it throws Code::communication, and the ranks can agree on nothing more.
  bool went_well(const std::optional<Error>& failed) const {
    const int good = !failed;
    int all_good = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, communicator, &request),
              "MPI_Iallreduce", rank);
    if (!failed) {
      check_mpi(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait", rank);
      return all_good;
    }
    const double until = MPI_Wtime() + patience_seconds;
    for (int done = 0; !done;) {
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", rank);
      if (done || MPI_Wtime() < until) continue;
      throw placed(Error(Code::communication, failed->problem(),
                         cat(failed->reason(), "; the other ranks wait for this one in libhdf5"),
                         "End the job. Writer::posix makes no such calls."));
    }
    return false;
  }

  /// Throws the error of this rank, if any.
  void agree_on(const std::optional<Error>& failed) const {
    went_well(failed);
    if (failed) throw Error(*failed);
  }
};

class MpiDatasetFile final : public DatasetFile {
 public:
  MpiDatasetFile(hid_t file, EntryCheck ranks) : file_(file), ranks_(std::move(ranks)) {}
  ~MpiDatasetFile() override {
    if (file_ < 0) return;
    log(LogLevel::warning, cat("rank ", ranks_.rank, " lets go of ", ranks_.path.string(),
                               " without closing it, which all ranks would have to do"));
  }

  void write_all(const std::string& dataset, std::span<const Block> blocks,
                 const std::byte* bytes) override {
    const Session session;
    const auto what = cat("dataset '", dataset, "' cannot be written to ", ranks_.path.string());
    Transfer transfer;
    agree(what, [&] { transfer = prepare(dataset, blocks, what); });
    // HDF5 needs an address even if there is nothing to write.
    const std::byte nothing{};
    std::optional<Error> failed;
    if (H5Dwrite(transfer.dataset, transfer.type.get(), transfer.memory_space.get(),
                 transfer.file_space.get(), collective_.get(),
                 blocks.empty() ? &nothing : bytes) < 0) {
      failed = ranks_.placed(failure(what, Code::io));
    }
    ranks_.agree_on(failed);
  }

  void flush() override {
    const Session session;
    std::optional<Error> failed;
    if (H5Fflush(file_, H5F_SCOPE_GLOBAL) < 0) failed = failure_to("flushed");
    ranks_.agree_on(failed);
  }

  void close() override {
    const Session session;
    datasets_.clear();
    collective_ = {};
    std::optional<Error> failed;
    if (H5Fclose(std::exchange(file_, H5I_INVALID_HID)) < 0) failed = failure_to("closed");
    ranks_.agree_on(failed);
  }

 private:
  // The most datasets that are open at a time. The same on all ranks, as are the calls.
  static constexpr std::size_t most_datasets = 64;

  Error failure_to(const char* be_done) const {
    return ranks_.placed(failure(cat(ranks_.path.string(), " cannot be ", be_done), Code::io));
  }

  template <class F>
  void agree(const std::string& what, F&& function) const {
    std::optional<Error> failed;
    try {
      function();
    } catch (const Error& error) {
      failed = ranks_.placed(error);
    } catch (const std::exception& error) {
      failed = ranks_.placed(Error(Code::io, what, error.what()));
    }
    int good = !failed, all_good = 0;
    check_mpi(MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, ranks_.communicator),
              "MPI_Allreduce", ranks_.rank);
    if (failed) throw Error(*failed);
    if (!all_good) throw ranks_.placed(Error(Code::io, what, "another rank cannot take part"));
  }

  Transfer prepare(const std::string& name, std::span<const Block> blocks,
                   const std::string& what) {
    if (collective_.get() < 0) {
      Handle list(H5Pcreate(H5P_DATASET_XFER), H5Pclose, what, Code::io);
      check(H5Pset_dxpl_mpio(list.get(), H5FD_MPIO_COLLECTIVE), what.c_str(), Code::io);
      collective_ = std::move(list);
    }
    Transfer transfer;
    transfer.dataset = open_dataset(name, what);
    // No conversion of types: for one, HDF5 would use independent transfers.
    transfer.type = {H5Dget_type(transfer.dataset), H5Tclose, what, Code::io};
    transfer.file_space = {H5Dget_space(transfer.dataset), H5Sclose, what, Code::io};
    const auto space = transfer.file_space.get();
    hsize_t elements = 0;
    const auto dimensions =
        static_cast<std::size_t>(check(H5Sget_simple_extent_ndims(space), what.c_str(), Code::io));
    bool first = true;
    for (const auto& [start, extent] : blocks) {
      if (start.size() != dimensions || extent.size() != dimensions) {
        throw Error(Code::internal, what,
                    cat("it has ", dimensions, " dimensions, a block of it ", start.size()));
      }
      hsize_t count = 1;
      for (const auto one : extent) count *= static_cast<hsize_t>(one);
      elements += count;
      if (dimensions == 0) continue;  // everything is selected
      const std::vector<hsize_t> from(start.begin(), start.end());
      const std::vector<hsize_t> counts(extent.begin(), extent.end());
      check(H5Sselect_hyperslab(space, first ? H5S_SELECT_SET : H5S_SELECT_OR, from.data(), nullptr,
                                counts.data(), nullptr),
            what.c_str(), Code::io);
      first = false;
    }
    const hsize_t extent = elements > 0 ? elements : 1;
    transfer.memory_space = {H5Screate_simple(1, &extent, nullptr), H5Sclose, what, Code::io};
    if (elements == 0) {
      check(H5Sselect_none(space), what.c_str(), Code::io);
      check(H5Sselect_none(transfer.memory_space.get()), what.c_str(), Code::io);
    }
    return transfer;
  }

  hid_t open_dataset(const std::string& name, const std::string& what) {
    const auto there = datasets_.find(name);
    if (there != datasets_.end()) return there->second.get();
    if (datasets_.size() >= most_datasets) datasets_.clear();
    Handle dataset(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), H5Dclose, what, Code::io);
    return datasets_.emplace(name, std::move(dataset)).first->second.get();
  }

  hid_t file_;
  EntryCheck ranks_;
  Handle collective_;
  std::map<std::string, Handle> datasets_;
};

Handle access_list(MPI_Comm communicator, MPI_Info info) {
  const char* what = "HDF5 cannot be told to use MPI-IO";
  Handle list(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what, Code::io);
  // HDF5 duplicates both arguments.
  check(H5Pset_fapl_mpio(list.get(), communicator, info), what, Code::io);
  check(H5Pset_libver_bounds(list.get(), H5F_LIBVER_V18, H5F_LIBVER_V110), what, Code::io);
  check(H5Pset_fclose_degree(list.get(), H5F_CLOSE_STRONG), what, Code::io);
  // Collective metadata stays off: HDF5 1.10.5 to 1.10.8 read it wrongly. No metadata is written
  // here, yet with collective writes of it a flush would start a transfer even for none: if one
  // rank's disk is broken, closing would end half way there, and the other ranks would wait.
  return list;
}

}  // namespace

void MpiDatasets::check(const Hints& hints) const { files_.check(hints); }

std::unique_ptr<DatasetFile> MpiDatasets::open(const PathText& path, const Hints& hints) {
  require_short(communicator_, rank_, path);
  const Session session;
  const Info info(hints, rank_);
  const auto list = access_list(communicator_, info.get());
  const StandardNumbers taken;
  const auto file = H5Fopen(name_for_mpi(path).c_str(), H5F_ACC_RDWR, list.get());
  std::optional<Error> failed;
  if (file < 0) {
    failed = not_opened(failure(cat("HDF5 cannot open ", path.string()), Code::io), path);
  }
  EntryCheck ranks{communicator_, rank_, patience_seconds, path};
  if (ranks.went_well(failed)) return std::make_unique<MpiDatasetFile>(file, std::move(ranks));
  if (failed) throw ranks.placed(*failed);
  throw ranks.placed(
      Error(Code::communication, cat("HDF5 cannot open ", path.string(), " on another rank"),
            "only all ranks together can close it, and this one would wait for that at its end",
            "End the job. Writer::posix makes no such calls."));
}

}  // namespace cairn
