#include "store/bucket/bucket_reader.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <utility>

#include "base/checksum.hpp"
#include "base/copy.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

// The most bytes of a range, and so many ranges are under way.
constexpr std::int64_t range_bytes = std::int64_t{8} << 20;
constexpr std::size_t ranges_under_way = 4;
// Fewer bytes share a range with others, between which up to this many are read in vain.
constexpr std::int64_t own_range_from = std::int64_t{1} << 20;
constexpr std::int64_t largest_gap = std::int64_t{64} << 10;
// Checksum and copy take pieces of this size, so that the bytes are in the cache for the copy.
constexpr std::size_t bytes_in_cache = std::size_t{1} << 17;

class BucketReader : public io::Reader {
 public:
  BucketReader(BucketFiles& files, std::vector<io::Path> paths, std::vector<io::Extent> extents,
               KnownTag known_tag, std::function<void()> lost)
      : client_(files.client()),
        paths_(std::move(paths)),
        extents_(std::move(extents)),
        known_tag_(std::move(known_tag)),
        lost_(std::move(lost)) {
    for (const auto& extent : extents_) cut(extent);
  }
  ~BucketReader() override {
    for (const auto& one : under_way_) {
      if (one.id) client_->cancel(*one.id);
    }
  }

  std::uint32_t next() override {
    try {
      return read_next();
    } catch (const Error& error) {
      const bool is_lost = error.code() == Code::not_found || error.code() == Code::data_loss;
      if (is_lost && lost_) lost_();
      throw;
    }
  }

 private:
  std::uint32_t read_next() {
    const auto& extent = extents_[turn_];
    // After an error, ranges of the extent before may be left.
    end_ranges(first_range_[turn_++]);
    std::uint32_t crc = 0;
    for (auto at = extent.offset, end = at + extent.bytes; at < end;) {
      const auto& range = ranges_[current_];
      const auto part = std::min(end, range.end);
      crc = take(wait(), at, part, extent.to ? extent.to + (at - extent.offset) : nullptr, crc);
      at = part;
      if (at == range.end) end_ranges(current_ + 1);
    }
    return crc;
  }
  // Bytes of an object that are read at once.
  struct Range {
    int file;
    std::int64_t begin, end;
    std::byte* place;  // null: memory of the reader
  };
  using Memory = std::unique_ptr<std::byte[]>;
  struct Object {
    std::string key, tag;
    bool is_known = false;  // the tag, before any range has come
  };
  struct UnderWay {
    std::optional<bucket::Requests::Pending> id = {};  // unless it has ended
    Memory memory = {};
    std::uint32_t crc = 0;  // of the range
    std::exception_ptr error = {};
    bool is_short = false;  // the object ends too early, or is another one
  };

  void cut(const io::Extent& extent) {
    const bool straight = extent.early && extent.to && extent.bytes >= own_range_from;
    const auto end = extent.offset + extent.bytes;
    auto at = extent.offset;
    const bool joined = !straight && joins(extent.file, at);
    first_range_.push_back(extent.bytes == 0 ? 0 : ranges_.size() - (joined ? 1 : 0));
    while (at < end) {
      if (straight || !joins(extent.file, at)) {
        ranges_.push_back(
            {extent.file, at, at, straight ? extent.to + (at - extent.offset) : nullptr});
      }
      auto& range = ranges_.back();
      range.end = at = std::min(end, range.begin + range_bytes);
    }
  }
  // Whether bytes from here on can share the last range.
  bool joins(int file, std::int64_t at) const {
    if (ranges_.empty()) return false;
    const auto& last = ranges_.back();
    return !last.place && last.file == file && at >= last.end && at - last.end <= largest_gap &&
           at < last.begin + range_bytes;
  }

  // The current range does not count once it is there: its bytes are checksummed meanwhile.
  void start() {
    const auto is_there = [&] { return !under_way_.empty() && !under_way_.front().id; };
    while (begun_ < ranges_.size() && under_way_.size() < ranges_under_way + (is_there() ? 1 : 0)) {
      const auto& range = ranges_[begun_++];
      auto& one = under_way_.emplace_back();
      try {
        const auto& of = object_of(range.file);
        auto* to = range.place;
        if (!to) {
          if (free_.empty()) {
            free_.push_back(
                std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(range_bytes)));
          }
          one.memory = std::move(free_.back());
          free_.pop_back();
          to = one.memory.get();
        }
        one.id = client_->start_read(
            of.key, range.begin, {to, static_cast<std::size_t>(range.end - range.begin)}, of.tag);
      } catch (...) {
        one.error = std::current_exception();
      }
    }
  }
  const io::Path& path_of(int file) const { return paths_[static_cast<std::size_t>(file)]; }
  const Object& object_of(int file) {
    const auto found = objects_.find(file);
    if (found != objects_.end()) return found->second;
    auto tag = known_tag_(path_of(file));
    const bool is_known = !tag.empty();
    return objects_[file] = {BucketFiles::key_of(path_of(file)), std::move(tag), is_known};
  }
  // All ranges are of one content. If no tag was known, the first one that comes tells it; some are
  // under way then that do not ask for it.
  void require_same(int file, const std::string& tag) {
    auto& of = objects_.at(file);
    if (of.is_known) return;  // the server has compared it
    if (of.tag.empty()) of.tag = tag;
    if (of.tag == tag) return;
    throw Error(Code::data_loss, cat(of.key, " was written anew")).at(path_of(file).string());
  }
  std::exception_ptr error_of(int file, const Error& error) const {
    if (error.code() != Code::not_found) return std::current_exception();
    const auto path = path_of(file).string();
    return std::make_exception_ptr(Error(Code::not_found, cat("there is no ", path)).at(path));
  }
  // The current range, whose bytes are there, or its error.
  UnderWay& wait() {
    start();
    auto& one = under_way_.front();
    if (const auto id = std::exchange(one.id, std::nullopt)) {
      try {
        const auto& range = ranges_[current_];
        const auto* at = range.place ? range.place : one.memory.get();
        const auto read =
            client_->finish_checked(*id, {at, static_cast<std::size_t>(range.end - range.begin)});
        one.crc = read.crc32c;
        require_same(range.file, read.tag);
      } catch (const Error& error) {
        one.error = error_of(ranges_[current_].file, error);
        one.is_short = error.code() == Code::data_loss;
      }
      start();
    }
    return one;
  }
  // Checksums a part of the current range and copies it to its place.
  std::uint32_t take(const UnderWay& one, std::int64_t begin, std::int64_t end, std::byte* to,
                     std::uint32_t crc) {
    const auto& range = ranges_[current_];
    const bool is_part = begin != range.begin || end != range.end;
    const auto bytes = static_cast<std::size_t>(end - begin);
    const auto* from = range.place ? range.place : one.memory.get();
    if (!one.error) {
      from += begin - range.begin;
    } else {
      if (!one.memory || !one.is_short || !is_part) std::rethrow_exception(one.error);
      // The object may have this part.
      const auto& of = object_of(range.file);
      require_same(range.file, client_->finish_read(client_->start_read(
                                   of.key, begin, {one.memory.get(), bytes}, of.tag)));
    }
    if (!is_part) {
      if (to && !range.place) copy_past_caches(to, from, bytes);
      return crc32c_combine(crc, one.crc, bytes);
    }
    for (std::size_t at = 0; at < bytes; at += bytes_in_cache) {
      const auto some = std::span(from + at, std::min(bytes_in_cache, bytes - at));
      crc = crc32c(some, crc);
      if (to && !range.place) copy_past_caches(to + at, some.data(), some.size());
    }
    return crc;
  }
  // Ends the use of all ranges before this one.
  void end_ranges(std::size_t number) {
    for (; current_ < number; ++current_) {
      if (under_way_.empty()) {
        ++begun_;
        continue;
      }
      auto& one = under_way_.front();
      if (one.id) client_->cancel(*one.id);
      if (one.memory) free_.push_back(std::move(one.memory));
      under_way_.pop_front();
    }
  }

  BucketFiles::Client client_;
  const std::vector<io::Path> paths_;
  const std::vector<io::Extent> extents_;
  const KnownTag known_tag_;
  const std::function<void()> lost_;
  std::vector<Range> ranges_;
  std::vector<std::size_t> first_range_;  // of each extent
  std::map<int, Object> objects_;
  std::size_t turn_ = 0;                 // the next extent
  std::size_t current_ = 0, begun_ = 0;  // ranges; those in between are under way
  std::deque<UnderWay> under_way_;
  std::vector<Memory> free_;
};

}  // namespace

std::unique_ptr<io::Reader> bucket_reader(BucketFiles& files, std::vector<io::Path> paths,
                                          std::vector<io::Extent> extents, KnownTag known_tag,
                                          std::function<void()> lost) {
  return std::make_unique<BucketReader>(files, std::move(paths), std::move(extents),
                                        std::move(known_tag), std::move(lost));
}

}  // namespace cairn
