#pragma once
/// Finds the stored tensor that fills each tensor of a state, and checks, without data, that they
/// fit.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/restore_options.hpp"
#include "model/refreshed_state.hpp"
#include "session/restore/resolve_restore.hpp"

namespace cairn {

/// How errors name the source: the checkpoint, or the memory of other ranks, which has no prefix.
std::string name_of(const CheckpointContents&);

/// Returns whether RestoreOptions::may_be_missing names the key.
bool is_named_as_missing(const RestoreOptions&, std::string_view key);

/// All members throw the errors that resolve() documents. `key` is the state's key, in errors too.
class Matcher {
 public:
  /// All must outlive this.
  Matcher(const CheckpointContents& contents, const TensorFinder& finder,
          const RestoreOptions& options, const RefreshedState& state)
      : contents_(contents), finder_(finder), options_(options), state_(state) {}

  const CheckpointContents& contents() const { return contents_; }
  const std::string& stored_name(const std::string& key) const;
  bool may_be_missing(const std::string& key) const;

  /// Returns null if it is not there. `variable` is another name that the state has for it.
  const StoredTensor* find(const std::string& key, const std::string& variable) const;
  /// Returns null if it is not there.
  const StoredTensor* look_up(const std::string& name) const { return finder_.find(name); }
  void require_sound(const StoredTensor&) const;
  /// Throws not_found for keys that are missing, with what is stored and what may have been meant.
  [[noreturn]] void refuse_missing(const std::vector<std::string>& keys) const;

  /// For a plain tensor.
  WantedTensor match(const std::string& key, const StoredTensor&, const LocalTensor&) const;
  /// For a tensor of rows (ragged or indexed), or a rank-private one whose memory is resized.
  /// place_rows() or the ids say later where the rows lie.
  WantedTensor match_rows(const std::string& key, const StoredTensor&, const LocalTensor&) const;
  void place_rows(const std::string& key, WantedTensor&, const LocalTensor& given,
                  std::int64_t start, std::int64_t count) const;
  /// Makes memory of the stored dtype from the state's memory. Empty if both dtypes are the same.
  std::function<std::shared_ptr<SliceMemory>(std::shared_ptr<SliceMemory>)> conversion(
      const std::string& key, DType stored, DType wanted, std::size_t dimensions) const;

 private:
  [[noreturn]] void refuse_unlike(const std::string& key, const StoredTensor& stored,
                                  const LocalTensor& tensor) const;
  Conversion conversion_of(const std::string& key) const;
  void check_dtypes(const std::string& key, DType stored, DType wanted) const;
  int number_of(const StoredTensor& stored) const;

  const CheckpointContents& contents_;
  const TensorFinder& finder_;
  const RestoreOptions& options_;
  const RefreshedState& state_;
};

}  // namespace cairn
