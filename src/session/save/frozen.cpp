// The last save's file of frozen tensors is used again if three things agree: the bytes that this
// rank has in memory, what this rank knows of the file, and, from time to time, the bytes on disk.
// The rank knows the file by a hash of its bytes, with a random key of this process, so that nobody
// can construct a state whose hash equals another's. A restarted job has another key. Therefore it
// first reads a file before it shares it, and compares the file with its own bytes at their
// offsets. It does not compare with the index of that checkpoint, so that an error in that index
// cannot matter.
//
// Each rank decides for each of its files alone, without an agreement: an index entry names a file,
// and it does not matter which save made it. All later steps of the commit are the same as for a
// new file. Only one place overwrites bytes of existing files. It opens them with open_sole, which
// refuses a file that has a second name.
//
// Links are made in the application's call, after rank 0 has told the ranks which checkpoint
// exists. So this manager cannot remove that checkpoint before the link is made. A file that has
// changed is also written in the call. A copy for the writing thread would double the memory of the
// largest part of the state, and such changes are rare.
#include "session/save/frozen.hpp"

#include <algorithm>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "exchange/exchange.hpp"
#include "layout/codec.hpp"
#include "layout/offsets.hpp"
#include "model/key_pattern.hpp"
#include "session/save/shard_files.hpp"
#include "session/save/writers/writer.hpp"
#include "store/commit/names.hpp"
#include "store/contents/format.hpp"

namespace cairn {
namespace {

// How much of a file is read at a time to hash it.
constexpr std::int64_t read_bytes = std::int64_t{4} << 20;

// For each of this rank's files: its entries and their bytes, with their offsets in the file.
std::vector<Outgoing> by_file(const RefreshedState& state, const LocalShards& shards,
                              int first_file) {
  auto all = outgoing(state, shards, first_file);
  std::vector<Outgoing> files(shards.shards.size());
  for (std::size_t i = 0; i < all.entries.size(); ++i) {
    auto& file = files[static_cast<std::size_t>(all.entries[i].slices.front().file - first_file)];
    file.entries.push_back(std::move(all.entries[i]));
    file.bytes.push_back(std::move(all.bytes[i]));
  }
  for (auto& file : files) {
    std::int64_t end = 0;
    for (auto& entry : file.entries) end = lay_behind(end, entry.slices.front());
  }
  return files;
}

std::int64_t size_of(const Outgoing& file) {
  if (file.entries.empty()) return 0;
  return end_of(file.entries.back().slices.front());
}

// A piece is small enough for the cache, since it is hashed and checksummed one after the other.
template <class Use>
void each_piece(const Outgoing::Bytes& bytes, const StoredTensor& entry,
                std::vector<std::byte>& buffer, const Use& use) {
  if (!bytes.run.empty()) {
    for (auto rest = bytes.run; !rest.empty();) {
      const auto piece = rest.first(std::min<std::size_t>(cached_bytes, rest.size()));
      use(piece);
      rest = rest.subspan(piece.size());
    }
    return;
  }
  if (!bytes.slice) return;
  const auto part = entry.slices.front().box.relative_to(bytes.slice->box.start);
  const auto item = static_cast<std::int64_t>(dtype_size(entry.dtype));
  for (const auto& chunk : plan::cut_into_chunks(part, item, cached_bytes)) {
    buffer.resize(static_cast<std::size_t>(chunk.bytes));
    bytes.slice->memory->read(chunk.box, buffer.data());
    use(std::span<const std::byte>(buffer));
  }
}

// The hash of what is in memory. Sets the checksums of the entries if they are wanted.
KeyedHash::Digest digest_of(const KeyedHash::Key& key, Outgoing& file, bool checksums) {
  KeyedHash hash(key);
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < file.entries.size(); ++i) {
    std::uint32_t crc = 0;
    each_piece(file.bytes[i], file.entries[i], buffer, [&](std::span<const std::byte> piece) {
      hash.add(piece);
      if (checksums) crc = crc32c(piece, crc);
    });
    if (checksums) file.entries[i].slices.front().crc32c = crc;
  }
  return hash.end();
}

// The hash of what the file holds at the places of these entries. Reads past the page cache if that
// is possible, since the question is what the disk holds.
KeyedHash::Digest digest_on_disk(const KeyedHash::Key& key, const Job& job, const io::Path& path,
                                 const std::vector<StoredTensor>& entries) {
  std::int64_t most = 0;
  for (const auto& entry : entries) most = std::max(most, entry.slices.front().stored_bytes);
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(most, read_bytes)));
  std::vector<io::Extent> extents;
  for (const auto& entry : entries) {
    const auto& slice = entry.slices.front();
    for (std::int64_t at = 0; at < slice.stored_bytes; at += read_bytes) {
      extents.push_back(
          {0, place_of(slice, at), std::min(read_bytes, slice.stored_bytes - at), buffer.data()});
    }
  }
  const auto mode = job.options.write.direct_io == DirectIo::off ? DirectIo::off : DirectIo::on;
  KeyedHash hash(key);
  const auto reader = job.files->read_ahead({path}, extents, mode);
  for (const auto& extent : extents) {
    reader->next();
    hash.add(std::span(buffer).first(static_cast<std::size_t>(extent.bytes)));
  }
  return hash.end();
}

bool same_place(const StoredTensor& a, const StoredTensor& b) {
  const auto &one = a.slices.front(), &other = b.slices.front();
  return a.key == b.key && a.dtype == b.dtype && a.shape == b.shape && a.sliced == b.sliced &&
         one.box == other.box && one.dash == other.dash && one.offset == other.offset &&
         one.stored_bytes == other.stored_bytes;
}

}  // namespace

std::string why_not_frozen(const Job& job) {
  const auto& options = job.options;
  if (!format_of(options.store.format).has_data_files()) return "only bundles share data files";
  if (job.part_bytes > 0) return "an object belongs to one checkpoint";
  if (writer_of(job).writes_together() || !job.places.served_by.empty()) {
    return "only Writer::posix shares data files, where each rank is an io rank";
  }
  if (!job.atomic_rename || !options.write.atomic_rename) return "saves rely on no rename";
  if (!options.tier.directory.empty()) return "saves go to the nodes";
  if (!job.naming.numbered) return "the directory has one checkpoint";
  if (encoding_of(options.store.format)) return "they are encoded as they are written";
  return "";
}

bool is_frozen(const Job& job, const std::string& key, const LocalTensor& tensor) {
  if (tensor.strings) return false;
  if (tensor.frozen) return true;
  const auto& patterns = job.options.frozen.keys;
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const auto& pattern) { return matches_key(pattern, key); });
}

const FrozenFile* Frozen::known(const Draft& draft,
                                const std::vector<StoredTensor>& entries) const {
  if (!draft.shares(known_.sequence)) return nullptr;
  const auto found = std::find_if(known_.files.begin(), known_.files.end(), [&](const auto& one) {
    return std::equal(one.entries.begin(), one.entries.end(), entries.begin(), entries.end(),
                      same_place);
  });
  return found == known_.files.end() ? nullptr : &*found;
}

void Frozen::committed(std::int64_t sequence, FrozenResult&& part) {
  known_ = {sequence, std::move(part.files)};
}

namespace {

// One file of a save, and the file of the previous checkpoint that may hold the same bytes.
class Candidate {
 public:
  Candidate(const Job& job, const Draft& draft, const KeyedHash::Key& key, Outgoing& out,
            const FrozenFile* known)
      : job_(job), draft_(draft), key_(key), out_(out), known_(known) {}

  // Makes the save's file another name of the earlier file. Returns nothing if it may not be
  // shared. Throws what reading this rank's memory throws.
  std::optional<FrozenFile> share() {
    const bool may = find();
    // The hash of memory is needed in any case, for the next save. Checksums are computed here only
    // for a file that this process has not written; otherwise they are known, or come from writing.
    digest_ = digest_of(key_, out_, !known_ && may);
    if (!may) return std::nullopt;
    try {
      if (holds_the_same() && link()) return made(unread_);
    } catch (const Error& error) {
      log(LogLevel::info, cat("frozen tensors are written anew: ", error.what()));
      io::remove_if_there(*job_.files, part());
    }
    return std::nullopt;
  }

  // After share(): whether the file system refused the second name.
  bool cannot_link() const { return cannot_link_; }
  const io::Path& path() const { return path_; }

  FrozenFile write() {
    Sink files(draft_, out_.entries);
    write_entries(files, out_);
    files.finish();
    id_ = job_.files->status(part()).value().id;
    return made(0);
  }

 private:
  int number() const { return out_.entries.front().slices.front().file; }
  io::Path part() const { return draft_.path(number()); }
  FrozenFile made(int unread) { return {out_.entries, digest_, size_of(out_), id_, unread}; }

  // Whether there is a file of this size that may have one more name.
  bool find() {
    const int file = known_ ? known_->entries.front().slices.front().file : number();
    const auto path = draft_.shared_path(file);
    if (!path) return false;
    path_ = *path;
    try {
      const auto status = job_.files->status(path_);
      if (!status || status->is_directory || status->size != size_of(out_)) return false;
      // Another file has come to this name.
      if (known_ && status->id != known_->id) return false;
      const auto most = job_.options.frozen.most_names;
      id_ = status->id;
      return most == 0 || status->names < most;
    } catch (const Error&) {  // the file is then written anew, so this error does not matter
      return false;
    }
  }

  // Compares the hash of memory with the known one and, if its turn has come or nothing is known,
  // with that of the bytes on disk.
  bool holds_the_same() {
    if (known_ && known_->digest != digest_) return false;
    const auto every = job_.options.frozen.read_every;
    unread_ = known_ ? known_->unread + 1 : 0;
    // Only every so many saves read the bytes on disk again.
    if (known_ && (every == 0 || unread_ < every)) return take_checksums();
    unread_ = 0;
    if (digest_on_disk(key_, job_, path_, out_.entries) != digest_) {
      if (known_) {
        log(LogLevel::warning,
            cat(path_.string(),
                " does not hold what was written to it: frozen tensors are written "
                "anew. cairn verify tells which steps share the damage."));
      }
      return false;
    }
    // Whoever made the file may not have synced it. A sync through any descriptor serves.
    if (!known_) job_.files->open_read(path_)->sync();
    return take_checksums();
  }

  bool take_checksums() {
    for (std::size_t i = 0; known_ && i < out_.entries.size(); ++i) {
      out_.entries[i].slices.front().crc32c = known_->entries[i].slices.front().crc32c;
    }
    return true;
  }

  // The path may by now name another file than the one that was compared, so its id is checked.
  bool link() {
    if (!draft_.share(number(), path_)) {
      cannot_link_ = true;
      return false;
    }
    const auto status = job_.files->status(part());
    if (status && status->id == id_) return true;
    io::remove_if_there(*job_.files, part());
    return false;
  }

  const Job& job_;
  const Draft& draft_;
  const KeyedHash::Key& key_;
  Outgoing& out_;
  const FrozenFile* known_;
  KeyedHash::Digest digest_ = {};
  io::Path path_;
  io::FileId id_;
  int unread_ = 0;
  bool cannot_link_ = false;
};

}  // namespace

// Each file is shared if possible, otherwise written. Links are no longer tried where several saves
// in a row could make none.
FrozenResult Frozen::write(const Job& job, const RefreshedState& state, const LocalShards& shards,
                           int first_file, const Draft& draft) {
  FrozenResult part;
  if (shards.shards.empty()) return part;
  if (!key_) key_ = KeyedHash::Key::random();
  constexpr int most_without_links = 3;
  io::Path refused;
  for (auto& file : by_file(state, shards, first_file)) {
    Candidate candidate(job, draft, *key_, file, known(draft, file.entries));
    std::optional<FrozenFile> shared;
    if (without_links_ < most_without_links) shared = candidate.share();
    if (candidate.cannot_link()) refused = candidate.path();
    if (shared) part.shared_bytes += bytes_of(shared->entries);
    part.files.push_back(shared ? *std::move(shared) : candidate.write());
  }
  // A refused link may be the fault of one file. Only saves that could link none count.
  if (part.shared_bytes > 0) without_links_ = 0;
  if (part.shared_bytes > 0 || refused.empty()) return part;
  if (without_links_++ == 0) {
    log(LogLevel::warning, cat("frozen tensors are written in full: ", refused.string(),
                               " cannot have a second name here"));
  }
  return part;
}

}  // namespace cairn
