#include "store/commit/known_blocks.hpp"

#include <algorithm>
#include <utility>

namespace cairn::commit {
namespace {

constexpr std::int64_t least_block = std::int64_t{64} << 10, most_block = std::int64_t{256} << 10;
// Automatically, smaller files are not compared: it would save less than it costs to look.
constexpr std::int64_t automatic_from = std::int64_t{1} << 20;
// A sample has one block in so many, and at least eight of a file.
constexpr std::int64_t sampled = 32, least_sample = 8;
// To hash a block takes an eighth to a quarter of the time of writing it to a fast disk.
constexpr std::int64_t pays_from = 4;  // one equal block in so many
constexpr int rests = 16;

constexpr int most_refused = 3;

bool same_file(const io::Status& a, const io::Status& b) {
  return a.device == b.device && a.id == b.id && a.changed_nanoseconds != 0 &&
         a.changed_nanoseconds == b.changed_nanoseconds;
}

std::int64_t digest_bytes(const BlockHashes& hashes) {
  return static_cast<std::int64_t>(hashes.digests.size() *
                                   (sizeof(KeyedHash::Digest) + sizeof(std::uint32_t)));
}

}  // namespace

std::int64_t KnownBlocks::block_bytes(std::int64_t file_bytes) {
  auto bytes = least_block;
  while (bytes < most_block && file_bytes / bytes > 4096) bytes *= 2;
  return bytes;
}

const KeyedHash::Key& KnownBlocks::key() {
  const MutexLock guard(mutex_);
  if (!key_) key_ = KeyedHash::Key::random();
  return *key_;
}

void KnownBlocks::erase(Files::iterator one) {
  bytes_ -= digest_bytes(one->second.hashes);
  files_.erase(one);
}

std::optional<BlockHashes> KnownBlocks::take(io::FileSystem& files, const io::Path& path) {
  {
    const MutexLock guard(mutex_);
    if (files_.empty()) return std::nullopt;  // the usual case where nothing is hashed
  }
  const auto status = files.status(path);
  if (!status) return std::nullopt;
  const MutexLock guard(mutex_);
  const auto found = files_.find({status->device, status->id.inode});
  if (found == files_.end()) return std::nullopt;
  std::optional<BlockHashes> hashes;
  if (same_file(found->second.file.status, *status)) hashes = std::move(found->second.hashes);
  // Checkpoints go in the order in which they came, so older files than this one are gone, or stay
  // by a rule of their own.
  const auto sequence = found->second.file.sequence;
  if (hashes) bytes_ -= digest_bytes(*hashes);
  erase(found);
  for (auto one = files_.begin(); one != files_.end();) {
    const auto next = std::next(one);
    if (one->second.file.sequence < sequence) erase(one);
    one = next;
  }
  return hashes;
}

void KnownBlocks::hold(const File& file, BlockHashes hashes) {
  const auto& status = file.status;
  const MutexLock guard(mutex_);
  const std::pair key{status.device, status.id.inode};
  if (const auto old = files_.find(key); old != files_.end()) erase(old);
  if (status.id.size != hashes.file_bytes || status.changed_nanoseconds == 0) return;
  // Older ones are the first that are used, and make room then.
  if (bytes_ + digest_bytes(hashes) > most_bytes) return;
  hashes.id = status.id;
  bytes_ += digest_bytes(hashes);
  files_.emplace(key, Original{file, std::move(hashes)});
}

std::optional<KnownBlocks::Original> KnownBlocks::newest(int number, int most) {
  const MutexLock guard(mutex_);
  if (refused_ >= most_refused) return std::nullopt;
  Original* found = nullptr;
  for (auto& [key, one] : files_) {
    const auto& file = one.file;
    if (file.number == number && (!found || found->file.sequence < file.sequence)) found = &one;
  }
  if (!found) return std::nullopt;
  auto& chain = found->hashes.chain;
  if (chain == 0) {
    chain = static_cast<std::int64_t>(chains_.size()) + 1;
    chains_[chain] = 1;
  }
  // A file that leaves the chain is not subtracted: others may still share its space.
  if (most > 0 && chains_[chain] >= most) return std::nullopt;
  ++chains_[chain];
  return *found;
}

bool KnownBlocks::is_unchanged(io::FileSystem& files, const File& file) {
  const auto now = files.status(file.path);
  return now && same_file(*now, file.status);
}

void KnownBlocks::cloned(bool could) {
  const MutexLock guard(mutex_);
  refused_ = could ? 0 : refused_ + 1;
}

std::int64_t KnownBlocks::one_in(SkipUnchanged choice, std::int64_t file_bytes) const {
  if (choice == SkipUnchanged::off) return 0;
  if (choice == SkipUnchanged::on) return 1;
  const MutexLock guard(mutex_);
  if (!(writes_over_ || will_write_over_) || rest_ > 0 || file_bytes < automatic_from) return 0;
  if (all_) return 1;
  return std::clamp<std::int64_t>(file_bytes / block_bytes(file_bytes) / least_sample, 1, sampled);
}

void KnownBlocks::writes_over() {
  const MutexLock guard(mutex_);
  writes_over_ = true;
}

void KnownBlocks::will_write_over() {
  const MutexLock guard(mutex_);
  will_write_over_ = true;
}

void KnownBlocks::may_share_space() {
  const MutexLock guard(mutex_);
  if (!std::exchange(writes_over_, true)) all_ = true;
}

void KnownBlocks::compared(std::int64_t blocks, std::int64_t equal) {
  const MutexLock guard(mutex_);
  if (rest_ > 0) --rest_;
  if (blocks == 0) return;
  all_ = equal * pays_from >= blocks;
  if (!all_) rest_ = rests;
}

std::optional<BlockHashes> KnownBlocks::sample_before(int number) const {
  const MutexLock guard(mutex_);
  if (all_ || rest_ > 0) return std::nullopt;
  const Original* found = nullptr;
  for (const auto& [key, one] : files_) {
    const auto& file = one.file;
    if (file.number == number && (!found || found->file.sequence < file.sequence)) found = &one;
  }
  return found ? std::optional(found->hashes) : std::nullopt;
}

void KnownBlocks::looked(std::int64_t blocks, std::int64_t alike) {
  const MutexLock guard(mutex_);
  if (rest_ == 0 && blocks > 0 && alike * pays_from >= blocks) all_ = true;
}

}  // namespace cairn::commit
