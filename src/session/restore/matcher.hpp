#pragma once
/// Which stored tensor one of a state is filled from, and whether they fit: checks without data.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/restore_options.hpp"
#include "model/refreshed_state.hpp"
#include "session/restore/resolve_restore.hpp"

namespace cairn {

/// In errors: the checkpoint, or other ranks' memory, which has no prefix.
std::string name_of(const CheckpointContents&);

/// Whether RestoreOptions::may_be_missing has the key.
bool is_named_as_missing(const RestoreOptions&, std::string_view key);

/// All members throw as resolve() says. `key` is the state's, also in errors.
class Matcher {
 public:
  /// All must outlive this.
  Matcher(const CheckpointContents& contents, const TensorFinder& finder,
          const RestoreOptions& options, const RefreshedState& state)
      : contents_(contents), finder_(finder), options_(options), state_(state) {}

  const CheckpointContents& contents() const { return contents_; }
  const std::string& stored_name(const std::string& key) const;
  bool may_be_missing(const std::string& key) const;

  /// Null: it is not there. `variable`: what the state calls it besides.
  const StoredTensor* find(const std::string& key, const std::string& variable) const;
  /// Null: it is not there.
  const StoredTensor* look_up(const std::string& name) const { return finder_.find(name); }
  void require_sound(const StoredTensor&) const;
  /// Of keys that are not there and must be: says what is, and what may have been meant.
  [[noreturn]] void refuse_missing(const std::vector<std::string>& keys) const;

  /// A plain tensor.
  WantedTensor match(const std::string& key, const StoredTensor&, const LocalTensor&) const;
  /// One of rows, ragged or indexed, or rank-private with memory that is resized. Where they lie is
  /// for place_rows() to say, or for ids.
  WantedTensor match_rows(const std::string& key, const StoredTensor&, const LocalTensor&) const;
  void place_rows(const std::string& key, WantedTensor&, const LocalTensor& given,
                  std::int64_t start, std::int64_t count) const;
  /// From the state's memory to memory of the stored dtype; empty: they are the same.
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
