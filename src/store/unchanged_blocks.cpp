#include "store/unchanged_blocks.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"

namespace cairn {
namespace {

// Shorter pieces are copied even if they stay: a list of them would take more room.
constexpr std::size_t copied_below = 4096;
// So many blocks in a row are read back together.
constexpr std::int64_t read_together = 16;

// The blocks of a file that are written over must be those of the file as it will be.
std::int64_t block_bytes_of(const commit::PartFile& part, std::int64_t bytes) {
  if (part.held) return part.held->block_bytes;
  if (bytes == std::numeric_limits<std::int64_t>::max()) bytes = 0;
  return commit::KnownBlocks::block_bytes(bytes);
}

}  // namespace

std::unique_ptr<UnchangedBlocks> UnchangedBlocks::make(commit::PartFile& part, std::int64_t bytes,
                                                       Write write, Skip skip) {
  if (!part.known) return nullptr;
  const auto one_in = part.known->one_in(part.skip_unchanged, bytes);
  if (one_in == 0) return nullptr;
  if (part.held && bytes < std::numeric_limits<std::int64_t>::max() &&
      2 * part.held->block_bytes < commit::KnownBlocks::block_bytes(bytes)) {
    part.held.reset();  // the file has grown much
  }
  return std::make_unique<UnchangedBlocks>(part, bytes, one_in, std::move(write), std::move(skip));
}

UnchangedBlocks::UnchangedBlocks(commit::PartFile& part, std::int64_t bytes, std::int64_t one_in,
                                 Write write, Skip skip)
    : write_(std::move(write)),
      skip_(std::move(skip)),
      key_(&part.known->key()),
      one_in_(one_in),
      held_(part.held.value_or(commit::BlockHashes{})),
      before_(part.before.value_or(commit::BlockHashes{})),
      read_every_(part.read_every),
      path_(part.path) {
  written_.hashes.block_bytes = block_bytes_of(part, bytes);
  written_.hashes.turn = held_.turn + 1;
  written_.hashes.chain = held_.chain;
  std::vector<io::Extent> due;
  const auto end = std::min(bytes, held_.file_bytes);
  const auto block_bytes = written_.hashes.block_bytes;
  for (std::int64_t block = 0; block * block_bytes < end; ++block) {
    const auto size = std::min(block_bytes, held_.file_bytes - block * block_bytes);
    if (is_due(block)) due.push_back({0, block * block_bytes, size, nullptr});
  }
  if (due.empty()) return;
  read_.resize(static_cast<std::size_t>(block_bytes));
  for (auto& extent : due) extent.to = read_.data();
  reader_ = part.read_back(std::move(due));
}

// Each block is due once in `read_every` turns of the file, and in each save about as many.
bool UnchangedBlocks::is_due(std::int64_t block) const {
  return read_every_ > 0 && held_.knows(block) && is_in_sample(block) &&
         (block / read_together) % read_every_ == held_.turn % read_every_;
}

// Tensors repeat at equal distances, so the blocks of a sample do not.
bool UnchangedBlocks::is_in_sample(std::int64_t block) const {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
  const auto mixed = static_cast<std::uint64_t>(block) * golden >> 32;
  return mixed % static_cast<std::uint64_t>(one_in_) == 0;
}

void UnchangedBlocks::begin_block() {
  const bool hashes = is_in_sample(number_);
  may_be_there_ = hashes && held_.knows(number_);
  if (hashes) hash_.emplace(*key_);
}

void UnchangedBlocks::put(std::span<const std::byte> bytes, bool stay, bool padding) {
  while (!bytes.empty()) {
    if (filled_ == 0) begin_block();
    const auto room = static_cast<std::size_t>(block_bytes() - filled_);
    const auto piece = bytes.first(std::min(room, bytes.size()));
    if (hash_) hash_->add(piece);
    may_be_there_ ? keep(piece, stay) : pass_on(piece, stay);
    filled_ += static_cast<std::int64_t>(piece.size());
    if (!padding) counted_ += static_cast<std::int64_t>(piece.size());
    if (filled_ == block_bytes()) end_block();
    bytes = bytes.subspan(piece.size());
  }
  if (!stay) flush();
}

std::optional<std::uint32_t> UnchangedBlocks::put_block(std::span<const std::byte> bytes,
                                                        bool stay) {
  const auto size = static_cast<std::size_t>(block_bytes());
  if (filled_ > 0 || bytes.size() < size || !is_in_sample(number_)) return std::nullopt;
  const auto block = bytes.first(size);
  begin_block();
  hash_->add(block);
  filled_ = counted_ = block_bytes();
  const auto digest = hash_->end();
  const bool there = is_there(digest);
  const auto at = static_cast<std::size_t>(number_);
  checksum_ = there && at < held_.checksums.size() ? held_.checksums[at] : 0;
  if (checksum_ == 0) checksum_ = crc32c(block);
  const auto checksum = checksum_;
  if (!there) pass_on(block, stay);
  end_block(digest, there);
  if (!stay) flush();
  return checksum;
}

// Bytes that lie one after the other in memory that stays are written at once: requests of a few
// blocks cost more than one.
void UnchangedBlocks::pass_on(std::span<const std::byte> bytes, bool stay) {
  if (!passing_.empty() && passing_.data() + passing_.size() == bytes.data() &&
      passing_.size() + bytes.size() <= std::size_t{cached_bytes}) {
    passing_ = {passing_.data(), passing_.size() + bytes.size()};
    passing_stay_ = passing_stay_ && stay;
    return;
  }
  flush();
  passing_ = bytes;
  passing_stay_ = stay;
}

void UnchangedBlocks::flush() {
  if (!passing_.empty()) write_(std::exchange(passing_, {}), passing_stay_);
}

void UnchangedBlocks::keep(std::span<const std::byte> bytes, bool stay) {
  const bool copies = !stay || bytes.size() < copied_below;
  if (copies) {
    // Never more than a block, so that what lies there does not move.
    copies_.reserve(static_cast<std::size_t>(written_.hashes.block_bytes));
    copies_.insert(copies_.end(), bytes.begin(), bytes.end());
    bytes = std::span(copies_).last(bytes.size());
  }
  if (!kept_.empty() && kept_.back().stays == !copies &&
      kept_.back().bytes.data() + kept_.back().bytes.size() == bytes.data()) {
    auto& last = kept_.back().bytes;
    last = {last.data(), last.size() + bytes.size()};
  } else {
    kept_.push_back({bytes, !copies});
  }
}

// Whether the file holds the present block, which has this hash.
bool UnchangedBlocks::is_there(const KeyedHash::Digest& digest) {
  if (!may_be_there_) return false;
  const bool equal = digest == held_.digests[static_cast<std::size_t>(number_)];
  ++written_.compared;
  written_.equal += equal;
  // A block that has changed is read, too, since the reader gives all that are due in turn.
  if (is_due(number_) && !holds(digest) && equal) {
    tell_damage();
    return false;
  }
  return equal;
}

void UnchangedBlocks::end_block() {
  const auto digest = hash_ ? hash_->end() : KeyedHash::Digest{};
  const bool there = is_there(digest);
  if (!there) {
    for (const auto& piece : kept_) {
      pass_on(piece.bytes, piece.stays);
      if (!piece.stays) flush();
    }
  }
  end_block(digest, there);
}

void UnchangedBlocks::end_block(const KeyedHash::Digest& digest, bool there) {
  if (there) {
    flush();
    skip_(filled_);
    written_.unchanged_bytes += counted_;
  }
  if (digest != KeyedHash::Digest{} && before_.block_bytes == block_bytes() &&
      before_.knows(number_)) {
    ++written_.looked;
    written_.alike += digest == before_.digests[static_cast<std::size_t>(number_)];
  }
  written_.hashes.digests.push_back(digest);
  written_.hashes.checksums.push_back(std::exchange(checksum_, 0));
  written_.hashes.file_bytes += filled_;
  ++number_;
  filled_ = counted_ = 0;
  hash_.reset();
  kept_.clear();
  copies_.clear();
}

// Whether the next block that is due has this hash on the disk.
bool UnchangedBlocks::holds(const KeyedHash::Digest& expected) {
  try {
    reader_->next();
  } catch (const Error&) {
    return false;
  }
  KeyedHash hash(*key_);
  hash.add(std::span(read_).first(static_cast<std::size_t>(filled_)));
  return hash.end() == expected;
}

void UnchangedBlocks::tell_damage() {
  if (std::exchange(is_damaged_, true)) return;
  log(LogLevel::warning,
      cat(path_.string(), " does not hold at byte ", number_ * written_.hashes.block_bytes,
          " what was written there: it is written anew"));
}

commit::WrittenBlocks UnchangedBlocks::end() {
  if (filled_ > 0) end_block();
  flush();
  return std::move(written_);
}

}  // namespace cairn
