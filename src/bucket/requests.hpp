#pragma once
/// What Cairn asks of an object store. Bucket asks it of a server.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.hpp"

namespace cairn::bucket {

struct Object {
  std::string key = {};
  std::int64_t size = 0;
  std::string tag = {};         ///< the server's name of this content; it compares as it is
  double modified_seconds = 0;  ///< since 1970, by the server's clock; 0: not known
  std::string mark = {};        ///< what its put was given, if one looks at it; lists do not tell
};

/// A put takes place only if ...
struct Condition {
  enum class Kind { none, absent, same } kind = Kind::none;
  std::string tag = {};  ///< same: ... the object has this tag

  static Condition absent() { return {Kind::absent, {}}; }
  static Condition same(std::string tag) { return {Kind::same, std::move(tag)}; }
};

/// An upload in parts that has not been completed.
struct Upload {
  std::string key = {}, id = {};
  bool checks = false;    ///< whether the server compares checksums of parts
  std::string mark = {};  ///< of the object that it becomes, and a number; known to who began it
};

/// Tags of parts, by their numbers.
using PartTags = std::map<int, std::string>;

/// Requests by key. One thread at a time uses it. An object is there whole, for all readers, and
/// durable, when the call that made it returns. Errors throw cairn::Error with the key as its path.
class Requests {
 public:
  virtual ~Requests() = default;

  /// Returns the new tag, or nothing if the condition does not hold. `mark`: letters and digits
  /// that stay with the object; a copy made through a disk has none.
  virtual std::optional<std::string> put(const std::string& key, std::span<const std::byte> bytes,
                                         const Condition& = {}, const std::string& mark = {}) = 0;
  struct Got {
    std::string bytes, tag;
  };
  /// The whole object, of at most 64 MiB. Nothing: there is none.
  virtual std::optional<Got> get(const std::string& key) = 0;
  /// The object without its bytes.
  virtual std::optional<Object> look(const std::string& key) = 0;
  struct Listing {
    std::vector<Object> objects;     ///< in the order of their keys' bytes
    std::vector<std::string> below;  ///< beginnings of keys, up to and with the delimiter
  };
  /// Objects whose keys begin so. Those that have the delimiter after the prefix are named by the
  /// beginnings of their keys only, each beginning once. "": each object is named.
  virtual Listing list(const std::string& prefix, const std::string& delimiter) = 0;
  /// The object need not be there. With a tag, only an object that has it is removed, if the server
  /// knows conditional deletes.
  virtual void remove(const std::string& key, const std::string& tag = {}) = 0;
  /// The same of each of these, with its tag, several at a time. After an error some may be left.
  virtual void remove_all(const std::vector<Object>& objects) {
    for (const auto& one : objects) remove(one.key, one.tag);
  }

  /// What is under way. Several may be; memory that is given stays until finish_...() or cancel()
  /// has returned.
  using Pending = std::uint64_t;
  /// Lets go of a read or a part that nobody waits for.
  virtual void cancel(Pending) = 0;
  /// Begins to read a range. With a tag, of the object with this tag only.
  virtual Pending start_read(const std::string& key, std::int64_t offset, std::span<std::byte> into,
                             const std::string& tag) = 0;
  /// Returns the object's tag. Throws not_found, and data_loss if the object ends earlier or is
  /// another one by now.
  virtual std::string finish_read(Pending) = 0;
  struct Checked {
    std::uint32_t crc32c;
    std::string tag;
  };
  /// The same, with the checksum of what was read, which is at `read`.
  virtual Checked finish_checked(Pending id, std::span<const std::byte> read) {
    auto tag = finish_read(id);
    return {cairn::crc32c(read), std::move(tag)};
  }

  // Uploads in parts, numbered from 1 to 10,000; all but the last have at least 5 MiB.
  /// `mark`: as of a put.
  virtual Upload begin_upload(const std::string& key, const std::string& mark = {}) = 0;
  virtual Pending start_part(const Upload&, int number, std::span<const std::byte> bytes,
                             std::uint32_t crc32c) = 0;
  virtual std::string finish_part(Pending) = 0;  ///< its tag
  /// Makes the object of these parts. Returns as put() does. Throws data_loss if there is no such
  /// upload.
  virtual std::optional<std::string> complete(const Upload&, const PartTags& tags,
                                              const Condition& = {}) = 0;
  virtual void abort(const Upload&) = 0;
  virtual std::vector<Upload> uploads(const std::string& prefix) = 0;
};

}  // namespace cairn::bucket
