#include "mpi/mpi_files.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "mpi/mpi_check.hpp"
#include "mpi/mpi_info.hpp"
#include "mpi/standard_numbers.hpp"

namespace cairn {
namespace {

// Unlike a failed message, a failed file operation leaves the ranks able to agree.
void check_file(int code, const char* function, const std::filesystem::path& path, int rank) {
  if (code == MPI_SUCCESS) return;
  int kind = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &kind);
  try {
    check_mpi(code, function, rank);
  } catch (const Error& error) {
    const bool full = kind == MPI_ERR_NO_SPACE || kind == MPI_ERR_QUOTA;
    throw Error(full ? Code::no_space : Code::io, cat(function, " failed on ", path.string()),
                error.reason())
        .at(path.string())
        .on_rank(rank);
  }
}

// The communicator of the ranks that share a file; MPI_COMM_NULL if `number` is negative.
class Part {
 public:
  Part(MPI_Comm of, int number, int rank) {
    check_mpi(MPI_Comm_split(of, number < 0 ? MPI_UNDEFINED : number, rank, ranks_.put()),
              "MPI_Comm_split", rank);
    if (get() == MPI_COMM_NULL) return;
    check_mpi(MPI_Comm_set_errhandler(get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", rank);
  }
  MPI_Comm get() const { return ranks_.get(); }

 private:
  HeldCommunicator ranks_;
};

// A number of bytes as a count and a type. A collective call must stay one call on every rank, so
// more bytes than an int can count are one element of a type: blocks, and the rest.
class Count {
 public:
  Count(std::size_t bytes, std::size_t most, int rank) : count_(static_cast<int>(bytes)) {
    if (bytes <= most) return;
    const std::size_t block = std::min(most, std::size_t{1} << 20);
    const int lengths[] = {static_cast<int>(bytes / block), static_cast<int>(bytes % block)};
    const MPI_Aint places[] = {0, static_cast<MPI_Aint>(bytes / block * block)};
    MPI_Datatype blocks = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &blocks),
              "MPI_Type_contiguous", rank);
    const MPI_Datatype types[] = {blocks, MPI_BYTE};
    const int made = MPI_Type_create_struct(2, lengths, places, types, &type_);
    const int freed = MPI_Type_free(&blocks);
    check_mpi(made, "MPI_Type_create_struct", rank);
    own_ = true;
    count_ = 1;
    const int committed = freed == MPI_SUCCESS ? MPI_Type_commit(&type_) : freed;
    if (committed == MPI_SUCCESS) return;
    MPI_Type_free(&type_);
    check_mpi(committed, "MPI_Type_commit", rank);
  }
  ~Count() {
    if (own_) MPI_Type_free(&type_);
  }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
  bool own_ = false;
};

class MpiFile final : public SharedFile {
 public:
  MpiFile(std::unique_ptr<Part> part, MPI_File file, std::filesystem::path path, std::size_t most,
          int rank)
      : part_(std::move(part)), file_(file), path_(std::move(path)), most_(most), rank_(rank) {}
  ~MpiFile() override {
    if (file_ == MPI_FILE_NULL) return;
    log(LogLevel::warning, cat("rank ", rank_, " lets go of ", path_.string(),
                               " without closing it, which all its ranks would have to do"));
  }

  void write_at_all(std::int64_t offset, std::span<const std::byte> bytes) override {
    // The type is made first. If that fails, this rank takes part with no bytes.
    std::unique_ptr<Count> count;
    std::optional<Error> failed;
    try {
      count = std::make_unique<Count>(bytes.size(), most_, rank_);
    } catch (const Error& error) {
      failed = Error(Code::io, error.problem(), error.reason()).on_rank(rank_);
      count = std::make_unique<Count>(0, most_, rank_);
    }
    MPI_Status status;
    check(MPI_File_write_at_all(file_, static_cast<MPI_Offset>(offset), bytes.data(),
                                count->count(), count->type(), &status),
          "MPI_File_write_at_all");
    if (failed) throw Error(*failed);
  }
  void sync() override { check(MPI_File_sync(file_), "MPI_File_sync"); }
  void close() override {
    const int code = MPI_File_close(&file_);
    file_ = MPI_FILE_NULL;
    check(code, "MPI_File_close");
    part_.reset();
  }

 private:
  void check(int code, const char* function) const { check_file(code, function, path_, rank_); }

  std::unique_ptr<Part> part_;
  MPI_File file_;
  std::filesystem::path path_;
  std::size_t most_;
  int rank_;
};

std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  return {text, static_cast<std::size_t>(length)};
}

// Reads a parameter of Open MPI, however it was set: by the environment, a file, or mpirun.
void ask_for(const char* name, int& value) {
  int index = 0, count = 0, found = 0;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    if (count == 1 && MPI_T_cvar_read(handle, &found) == MPI_SUCCESS) value = found;
    MPI_T_cvar_handle_free(&handle);
  }
}

// Known from when the first file was opened on. Asked once a process: Open MPI looks for all of its
// components each time, which takes a tenth of a second or more.
const OmpioParameters& ompio_parameters() {
  static const OmpioParameters now = [] {
    OmpioParameters parameters;
    int provided = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return parameters;
    ask_for("io_ompio_num_aggregators", parameters.num_aggregators);
    ask_for("io_ompio_grouping_option", parameters.grouping_option);
    ask_for("io_ompio_max_aggregators_ratio", parameters.max_aggregators_ratio);
    MPI_T_finalize();
    return parameters;
  }();
  return now;
}

}  // namespace

int most_aggregators(int ranks, const OmpioParameters& parameters) {
  constexpr int simple = OmpioParameters().grouping_option;
  if (parameters.num_aggregators > 0) return std::min(ranks, parameters.num_aggregators);
  if (parameters.grouping_option != simple) return ranks;
  return std::max(1, ranks / std::max(1, parameters.max_aggregators_ratio));
}

bool loses_bytes_among_aggregators(std::string_view version) {
  int major = 0, minor = 0, release = 0;
  const std::string text(version);
  if (std::sscanf(text.c_str(), "Open MPI v%d.%d.%d", &major, &minor, &release) < 2) return false;
  const auto is_before = [&](int m, int n, int r) {
    return std::tuple(major, minor, release) < std::tuple(m, n, r);
  };
  return !is_before(4, 1, 0) && (is_before(4, 1, 7) || (major == 5 && is_before(5, 0, 6)));
}

std::size_t longest_path(std::string_view version, const char* io, const char* sharedfp) {
  // "a,b" means only these components, "^a,b" all but these.
  const auto is_used = [](const char* chosen, std::string_view component) {
    std::string_view list = chosen ? chosen : "";
    if (list.empty()) return true;
    const bool without = list.front() == '^';
    if (without) list.remove_prefix(1);
    bool named = false;
    while (!list.empty()) {
      const auto one = list.substr(0, list.find(','));
      named = named || one == component;
      list.remove_prefix(std::min(list.size(), one.size() + 1));
    }
    return named != without;
  };
  if (!version.starts_with("Open MPI")) return 0;
  if (!is_used(io, "ompio") || !is_used(sharedfp, "lockedfile")) return 0;
  constexpr std::size_t buffer = 256, ending = 10, digits_of_a_rank = 10, zero = 1;
  return buffer - ending - digits_of_a_rank - zero;
}

std::string name_for_mpi(const std::filesystem::path& path) {
  const bool may_have_prefix = path.is_relative() && path.native().find(':') != std::string::npos;
  return (may_have_prefix ? std::filesystem::absolute(path) : path).string();
}

Error not_opened(const Error& error, const std::filesystem::path& path) {
  if (path.native().find(':') == std::string::npos) return error;
  return Error(
             error.code(), error.problem(),
             cat(error.reason(),
                 "; MPI-IO by ROMIO takes what is before the ':' of a path for the name of a kind "
                 "of file system"),
             "Choose a directory and a name without ':', or use Writer::posix.")
      .at(path.string())
      .on_rank(error.rank());
}

void require_short(MPI_Comm communicator, int rank, const std::filesystem::path& path) {
  const auto version = library_version();
  const auto size = path.native().size();
  const auto most = longest_path(version, nullptr, nullptr);
  if (most == 0 || size <= most) return;
  // Nothing forces all ranks to use the same components.
  int is_too_long =
      longest_path(version, std::getenv("OMPI_MCA_io"), std::getenv("OMPI_MCA_sharedfp")) != 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &is_too_long, 1, MPI_INT, MPI_MAX, communicator),
            "MPI_Allreduce", rank);
  if (!is_too_long) return;
  throw Error(Code::invalid_argument,
              cat("MPI-IO of Open MPI takes paths of at most ", most, " bytes, and ", path.string(),
                  " has ", size),
              "it would write past a buffer",
              "Choose a shorter directory or name, set OMPI_MCA_sharedfp=^lockedfile for the job, "
              "or use Writer::posix.")
      .at(path.string());
}

std::string MpiFiles::library() const {
  const auto text = library_version();
  return text.substr(0, std::min(text.find_first_of(",\n"), text.size()));
}

void MpiFiles::check(const Hints& hints) const {
  for (const auto& [key, value] : hints) {
    // With any other hint MPI would end the job.
    if (!key.empty() && key.size() < MPI_MAX_INFO_KEY && !value.empty() &&
        value.size() < MPI_MAX_INFO_VAL) {
      continue;
    }
    throw Error(Code::invalid_argument, cat("the hint '", key, "' = '", value, "' cannot be given"),
                cat("names have 1 to ", MPI_MAX_INFO_KEY - 1, " characters, values 1 to ",
                    MPI_MAX_INFO_VAL - 1));
  }
}

std::string MpiFiles::doubt(const Hints& hints) const {
  if (!loses_bytes_among_aggregators(library_version())) return "";
  const char* parameter = "OMPI_MCA_io_ompio_num_aggregators";
  std::string asked;
  if (hints.count("cb_nodes")) {
    asked = "the hint cb_nodes";
  } else if (std::getenv(parameter)) {
    asked = parameter;
  } else {
    int ranks = 1;
    check_mpi(MPI_Comm_size(communicator_, &ranks), "MPI_Comm_size", rank_);
    const int most = most_aggregators(ranks, ompio_parameters());
    if (most < 2) return "";
    asked = cat("several aggregators, and may take ", most, " for ", ranks, " ranks");
  }
  return cat(library(), " is known to lose bytes silently with ", asked);
}

std::unique_ptr<SharedFile> MpiFiles::open(const PathText& path, int number, const Hints& hints) {
  auto part = std::make_unique<Part>(communicator_, number, rank_);
  if (part->get() == MPI_COMM_NULL) return nullptr;
  require_short(part->get(), rank_, path);
  MPI_File file = MPI_FILE_NULL;
  const Info info(hints, rank_);
  const StandardNumbers taken;
  int code =
      MPI_File_open(part->get(), name_for_mpi(path).c_str(), MPI_MODE_WRONLY, info.get(), &file);
  const char* function = "MPI_File_open";
  if (code == MPI_SUCCESS) {
    // Files have an error handler of their own, whatever the communicator's is.
    code = MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS) function = "MPI_File_set_errhandler";
  }
  int good = code == MPI_SUCCESS, all_good = 0;
  check_mpi(MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, part->get()), "MPI_Allreduce",
            rank_);
  if (all_good) {
    return std::make_unique<MpiFile>(std::move(part), file, path, most_, rank_);
  }
  // If the file is open here, it stays open: only all ranks together could close it.
  try {
    check_file(code, function, path, rank_);
  } catch (const Error& error) {
    throw not_opened(error, path);
  }
  throw Error(Code::io, cat("MPI_File_open failed on ", path.string()), "on another rank")
      .at(path.string());
}

}  // namespace cairn
