#pragma once
/// The one error type of the library, and the agreement that a collective call fails on all ranks
/// alike or on none.
#include <exception>
#include <string>

namespace cairn {

/// The kinds of errors. Their numbers are stored nowhere, but ranks send them to each other: append
/// only.
enum class Code {
  invalid_argument = 1,  ///< the caller's input cannot be used as it is
  not_found,             ///< no such checkpoint, key or file
  already_exists,        ///< the step exists and is live
  disagreement,          ///< ranks called with different steps, options, dtypes or shapes
  coverage,              ///< slices leave a gap, overlap or reach outside their tensor
  sharding,              ///< a sharding callback broke one of its promises
  data_loss,             ///< bytes on disk are not what was written
  io,                    ///< the operating system refused a file operation
  no_space,              ///< too little space, before or while bytes move
  busy,                  ///< the directory is owned by another job
  unsupported,           ///< a valid request that this build or format cannot serve
  communication,         ///< a collective or message itself failed; no verdict is possible
  durability_unknown,    ///< committed and visible, but the last directory fsync failed
  internal,              ///< a defect of this library
  application,           ///< code of the application failed: a callback, a saver, run_and_agree()
  unavailable            ///< the storage does not answer; what it holds may be sound
};

/// Short stable name of a code, such as "data_loss".
const char* code_name(Code code);

/// Thrown by every part of the library. Collective calls throw the same error on all ranks.
/// The text reads PROBLEM (REASON) WAY OUT.
class Error : public std::exception {
 public:
  Error(Code code, std::string problem, std::string reason = "", std::string way_out = "");
  Error(const Error&);
  Error(Error&&) noexcept;
  Error& operator=(const Error&);
  Error& operator=(Error&&) noexcept;
  ~Error() override;

  /// These return *this, so that they can be chained in a throw expression.
  Error& at(std::string path) { return path_ = std::move(path), compose(); }
  Error& of_tensor(std::string key) { return tensor_ = std::move(key), *this; }
  Error& on_rank(int rank) { return rank_ = rank, *this; }

  Code code() const { return code_; }
  int rank() const { return rank_; }  ///< the rank where it happened; -1: it concerns the whole job
  const std::string& path() const { return path_; }
  const std::string& tensor() const { return tensor_; }
  const std::string& problem() const { return problem_; }
  const std::string& reason() const { return reason_; }
  const std::string& way_out() const { return way_out_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Error& compose();
  Code code_;
  int rank_ = -1;
  std::string problem_, reason_, way_out_, path_, tensor_, text_;
};

}  // namespace cairn
