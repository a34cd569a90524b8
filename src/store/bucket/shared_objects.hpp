#pragma once
/// Objects of a save that several ranks write in parts.
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "io/paced.hpp"
#include "layout/bundle/part_record.hpp"
#include "store/bucket/bucket_files.hpp"
#include "store/commit/protocol.hpp"
#include "store/draft.hpp"

namespace cairn {

/// What one rank knows of them. Rank 0 begins and completes the uploads; every rank sends parts.
/// Any thread may use it. `files` outlives it.
class SharedObjects {
 public:
  explicit SharedObjects(BucketFiles& files) : files_(files) {}

  /// Rank 0. If it throws, nothing stays begun. `mark`: of the objects (Requests::put).
  void begin(const std::map<int, io::Path>& objects, const std::string& mark);
  // See DraftFiles. `to_next_owner`: what only a record needs, too.
  std::string tell(bool to_next_owner) const;
  void hear(std::string_view);
  /// See DraftFiles, of this object, which need not be begun.
  void enclose(int number, const io::Path&, FileEnds);
  /// `end` follows the last part of the object. Tags are known when the file is synced.
  std::unique_ptr<io::File> open(int number, const io::Path&, std::vector<FilePart>,
                                 std::string end, io::Pace*);
  /// Rank 0. Throws already_exists if there is such an object. Leaves out one that is enclosed.
  void complete();
  /// A later owner, of what all ranks have left: completes what is not there yet. What is there
  /// need not be of this save. Throws data_loss if something can never be complete.
  static void complete_left(BucketFiles&, const std::vector<bundle::PartUpload>&,
                            const std::vector<std::string>& paths);
  /// The same of an object that is a checkpoint as a whole: takes what is enclosed, for what
  /// follows.
  void take_left(const std::vector<bundle::PartUpload>&, const io::Path&);
  /// Rank 0, of the object that is enclosed: reads its tail, writes there, sends it, and makes the
  /// object. complete_enclosed() returns what Requests::put() does. send_tail() and it may be
  /// called again if that is nothing, or after an error.
  void read_tail(std::int64_t offset, std::span<std::byte>);
  void write_tail(const std::vector<commit::Patch>&);
  void send_tail();
  std::optional<std::string> complete_enclosed(const bucket::Condition&, const std::string& mark);
  /// Those that are not complete.
  void abort();

  void sent(int number, const bucket::PartTags&, int last);
  /// The only part of an object, with what lies before it.
  void hold(int number, std::vector<std::byte>);

 private:
  struct One {
    io::Path path = {};  // rank 0
    bucket::Upload upload = {};
    bucket::PartTags tags = {};
    int last = 0;  // the number of the last part, if it is sent
    std::optional<FileEnds> ends = {};
    std::optional<std::vector<std::byte>> held = {};
  };
  using Numbered = std::pair<const int, One>;
  static bool is_enclosed(const Numbered& one) { return one.second.ends.has_value(); }
  static void require_all(const One&);  // parts
  One& enclosed() CAIRN_REQUIRES(mutex_);

  BucketFiles& files_;
  mutable Mutex mutex_;
  std::map<int, One> all_ CAIRN_GUARDED_BY(mutex_);  // by the number of the data file
};

}  // namespace cairn
