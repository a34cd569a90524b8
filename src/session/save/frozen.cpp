// A frozen file is shared if three things agree: what this rank has in memory, what it knows of the
// file, and, from time to time, what the disk has. It is known by a hash of its bytes with a key of
// this process, so that no state can have been made to be taken for another. A restarted job has
// another key: it first reads what it shares, and compares it with its own bytes at their places,
// not with that checkpoint's index, so that no error in the index can matter.
//
// Each rank decides for each of its files, without an agreement: index entries name files, and do
// not ask whose they were. All later steps of the commit are those of a new file. Bytes are
// overwritten in one place only, which opens a file by open_sole and so refuses one with a second
// name.
//
// Links are made in the application's call, on ranks that rank 0 has just told which checkpoint is
// there. So nothing that this manager removes later comes before a link. A file that has changed is
// also written in the call: a copy for the writing thread would double the memory of what is by far
// the largest part of the state, for what seldom happens.
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

constexpr std::int64_t read_bytes = std::int64_t{4} << 20;

// What this rank has for each of its files, with the places where it is written.
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

// Of what is in memory; sets the checksums, if they are wanted.
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

// Of what a file has in their places. Past the page cache, where that can be: what is asked is what
// the disk has.
KeyedHash::Digest digest_on_disk(const KeyedHash::Key& key, const Job& job, const io::Path& path,
                                 const std::vector<StoredTensor>& entries) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(read_bytes));
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

// One file of a save, and the file of the checkpoint before that may hold the same.
class Candidate {
 public:
  Candidate(const Job& job, const Draft& draft, const KeyedHash::Key& key, Outgoing& out,
            const FrozenFile* known)
      : job_(job), draft_(draft), key_(key), out_(out), known_(known) {}

  // Makes the save's file a name of the earlier one; nothing where that may not be. Throws what
  // reading this rank's memory throws.
  std::optional<FrozenFile> share() {
    const bool may = find();
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

  // After share(): whether the file system has refused the name.
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

  // Whether there is a file of this size, which may have one more name.
  bool find() {
    const int file = known_ ? known_->entries.front().slices.front().file : number();
    const auto path = draft_.shared_path(file);
    if (!path) return false;
    path_ = *path;
    try {
      const auto status = job_.files->status(path_);
      if (!status || status->is_directory || status->size != size_of(out_)) return false;
      if (known_ && status->id != known_->id) return false;
      const auto most = job_.options.frozen.most_names;
      id_ = status->id;
      return most == 0 || status->names < most;
    } catch (const Error&) {  // who writes it anew has no need of it
      return false;
    }
  }

  bool holds_the_same() {
    if (known_ && known_->digest != digest_) return false;
    const auto every = job_.options.frozen.read_every;
    unread_ = known_ ? known_->unread + 1 : 0;
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
    // Whoever has made it may not have synced it; any descriptor will do.
    if (!known_) job_.files->open_read(path_)->sync();
    return take_checksums();
  }

  bool take_checksums() {
    for (std::size_t i = 0; known_ && i < out_.entries.size(); ++i) {
      out_.entries[i].slices.front().crc32c = known_->entries[i].slices.front().crc32c;
    }
    return true;
  }

  // What is there now may be another file than the one that was looked at.
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
  if (part.shared_bytes > 0) without_links_ = 0;
  if (part.shared_bytes > 0 || refused.empty()) return part;
  if (without_links_++ == 0) {
    log(LogLevel::warning, cat("frozen tensors are written in full: ", refused.string(),
                               " cannot have a second name here"));
  }
  return part;
}

}  // namespace cairn
