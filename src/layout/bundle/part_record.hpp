#pragma once
/// The record that each writing rank leaves beside its data, so that the next job can complete a
/// save whose bytes are all durable.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"

namespace cairn::bundle {

/// What is not sent before the commit.
struct PartEnds {
  std::int64_t tail_offset = 0;
  std::string tail = {};
  std::string held = {};  ///< all before the tail, if there is no upload
};

/// What a rank knows of an object that several ranks send in parts, and that is not complete yet.
struct PartUpload {
  int file = 0;  ///< the number of the data file
  std::string key = {}, id = {};
  bool checks = false;  ///< whether the server compares checksums of parts
  std::string mark = {};
  std::map<int, std::string> tags = {};  ///< of the parts that this rank has sent, by their numbers
  int last = 0;                          ///< the number of the last part, if this rank has sent it
  std::optional<PartEnds> ends = {};     ///< rank 0, of an object that is a checkpoint as a whole
};

struct PartRecord {
  std::string uuid;               ///< of the save
  std::uint64_t fingerprint = 0;  ///< of its plan: equal in all records of a save
  int part = 0, parts = 0;        ///< this record's number, and how many the save has
  int num_files = 0;              ///< NNNNN of the final names
  CheckpointMeta meta;
  /// The entries of this rank, with final file numbers. A plain tensor may come from several ranks:
  /// then each has its own runs of it (boxes, each contiguous in the file, with its own checksum).
  std::vector<StoredTensor> tensors;
  std::vector<PartUpload> uploads = {};
};

/// Throws invalid_argument if the record would take more than 2 GiB. The second form encodes
/// `tensors` in place of record.tensors.
std::string encode_part_record(const PartRecord& record);
std::string encode_part_record(const PartRecord& record, std::span<const StoredTensor> tensors);
/// The same with tensors that `each` hands over, one by one and once. `about_bytes`: for so many
/// bytes memory is reserved.
using EachTensor = std::function<void(const std::function<void(const StoredTensor&)>& take)>;
std::string encode_part_record(const PartRecord& record, const EachTensor& each,
                               std::size_t about_bytes = 0);

/// Throws data_loss and says what is wrong, for anything but whole and consistent bytes.
PartRecord decode_part_record(std::string_view bytes);
/// Checks, before a file is read, that a file of this size with these first bytes (64 are enough)
/// may be a part record. Throws as decode_part_record(), which checks this, too.
void check_record_frame(std::string_view first, std::uint64_t file_bytes);

}  // namespace cairn::bundle
