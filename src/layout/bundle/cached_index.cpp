#include "layout/bundle/cached_index.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/entry_read.hpp"
#include "layout/bundle/numbers.hpp"
#include "layout/bundle/table.hpp"

namespace cairn::bundle {
namespace {

// The checksum is the last field of an entry, and is always there (EntryText).
constexpr std::size_t checksum_bytes = 4;

// Replaces four bytes of a text, little-endian.
void put_checksum(std::string& text, std::size_t at, std::uint32_t masked) {
  for (std::size_t i = 0; i < checksum_bytes; ++i) {
    text[at + i] = static_cast<char>(masked >> 8 * i);
  }
}

// Calls visit(shared, rest of the key, value) for each entry of an EntryChain or a block, until
// `visit` returns false. Returns whether all were visited.
template <class Visit>
bool walk_entries(std::string_view chain, Visit visit) {
  while (!chain.empty()) {
    const auto shared = take_varint(chain), rest = take_varint(chain), length = take_varint(chain);
    if (!shared || !rest || !length || *rest > chain.size() || *length > chain.size() - *rest) {
      return false;
    }
    if (!visit(*shared, chain.substr(0, *rest), chain.substr(*rest, *length))) return false;
    chain.remove_prefix(*rest + *length);
  }
  return true;
}

}  // namespace

std::optional<CachedIndex> CachedIndex::of(std::vector<IndexEntry> entries,
                                           const std::vector<Extent>& pieces) {
  // Entries and pieces are numbered in 32 bits.
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  if (entries.size() >= most || pieces.size() >= most) return std::nullopt;
  CachedIndex kept;
  kept.pieces_ = pieces.size();
  std::sort(entries.begin(), entries.end(), comes_before);
  kept.entries_ = std::move(entries);
  // Pieces without bytes have no place, and their checksum never changes.
  std::vector<std::uint32_t> ascending;
  for (std::uint32_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].size > 0) ascending.push_back(i);
  }
  const auto place = [&](auto i) { return std::pair(pieces[i].file, pieces[i].offset); };
  std::sort(ascending.begin(), ascending.end(),
            [&](auto a, auto b) { return place(a) < place(b); });
  for (std::uint32_t i = 0; i < kept.entries_.size(); ++i) {
    const std::string_view value = kept.entries_[i].value, slices = kept.entries_[i].slices;
    const bool found = slices.empty()
                           ? kept.add(i, false, value, value, pieces, ascending)
                           : walk_entries(slices, [&](auto, auto, auto of_slice) {
                               return kept.add(i, true, slices, of_slice, pieces, ascending);
                             });
    if (!found) return std::nullopt;
  }
  // Each piece must be of exactly one entry: its checksum goes to one place only.
  std::vector<bool> seen(pieces.size());
  for (const auto& part : kept.parts_) {
    if (seen[part.piece]) return std::nullopt;
    seen[part.piece] = true;
  }
  if (kept.parts_.size() != ascending.size()) return std::nullopt;
  return kept;
}

// Finds the pieces of a value, which is a part of `text`. Returns whether they make up its bytes.
bool CachedIndex::add(std::uint32_t entry, bool of_slice, std::string_view text,
                      std::string_view value, const std::vector<Extent>& pieces,
                      const std::vector<std::uint32_t>& ascending) {
  pb::Entry said;
  if (!parse(said, value) || value.size() < checksum_bytes) return false;
  // Without bytes there are no pieces, and nothing that changes.
  if (said.size() == 0) return true;
  const auto place = [&](auto i) { return std::pair(pieces[i].file, pieces[i].offset); };
  std::pair at(said.shard_id(), said.offset());
  const auto end = said.offset() + said.size();
  Checksum checksum{entry, of_slice,
                    static_cast<std::size_t>(value.end() - text.begin()) - checksum_bytes,
                    static_cast<std::uint32_t>(parts_.size()), 0};
  auto next = std::lower_bound(ascending.begin(), ascending.end(), at,
                               [&](auto i, const auto& one) { return place(i) < one; });
  // Goes from piece to piece: each has to begin where the one before ends.
  for (; next != ascending.end() && at.second < end && place(*next) == at; ++next) {
    parts_.push_back({*next, pieces[*next].size});
    ++checksum.parts;
    at.second += pieces[*next].size;
  }
  checksums_.push_back(checksum);
  return at.second == end;
}

void CachedIndex::put(std::vector<std::uint32_t> crc32c) {
  if (crc32c.size() != pieces_) {
    throw Error(Code::internal,
                cat(crc32c.size(), " checksums are given for ", pieces_, " pieces of an index"));
  }
  crc32c_ = std::move(crc32c);
}

std::uint32_t CachedIndex::masked(const Checksum& checksum) const {
  // There is at least one part, as entries without bytes have no Checksum.
  const auto* part = &parts_[checksum.first_part];
  std::uint32_t crc = crc32c_[part->piece];
  for (std::uint32_t i = 1; i < checksum.parts; ++i) {
    crc = crc32c_combine(crc, crc32c_[part[i].piece], static_cast<std::uint64_t>(part[i].size));
  }
  return crc_mask(crc);
}

const std::string& CachedIndex::write(int num_files, std::vector<IndexEntry> more) {
  if (crc32c_.size() != pieces_) throw Error(Code::internal, "an index has no checksums yet");
  std::sort(more.begin(), more.end(), comes_before);
  // Whether all values would lie at the same places as in the last text.
  const bool same = text_ && text_->num_files == num_files &&
                    std::equal(more.begin(), more.end(), text_->more.begin(), text_->more.end(),
                               [](const auto& a, const auto& b) {
                                 return a.key == b.key && a.value.size() == b.value.size() &&
                                        a.files == b.files && a.slices.empty() && b.slices.empty();
                               });
  if (!same) {
    write_anew(num_files, std::move(more));
    return text_ ? text_->bytes : once_;
  }
  auto& [bytes, files, others, values, block_bytes] = *text_;
  for (std::size_t i = 0; i < more.size(); ++i) {
    bytes.replace(values[i], more[i].value.size(), more[i].value);
  }
  for (const auto& one : checksums_) put_checksum(bytes, one.in_text, masked(one));
  // The checksum of the block and its type follows them.
  const auto crc = crc32c(std::string_view(bytes).substr(0, block_bytes + 1));
  put_checksum(bytes, block_bytes + 1, crc_mask(crc));
  return bytes;
}

// Encodes the whole index, and keeps its bytes for later calls if all places are found in them.
void CachedIndex::write_anew(int num_files, std::vector<IndexEntry> more) {
  // First the entries get their new checksums, for which find_in() then looks in the text.
  text_.reset();
  for (const auto& one : checksums_) {
    auto& entry = entries_[one.entry];
    put_checksum(one.of_slice ? entry.slices : entry.value, one.at, masked(one));
  }
  Text text;
  EncodedIndex(num_files, more, &entries_).write([&](auto piece) { text.bytes += piece; });
  text.num_files = num_files;
  text.more = std::move(more);
  if (find_in(text)) {
    text_ = std::move(text);
    once_.clear();
  } else {
    once_ = std::move(text.bytes);
  }
}

// Finds the places of all checksums and other values in the text. Slices come first, and in both
// parts keys ascend as in entries_. Each place has to hold the checksum that was written there.
bool CachedIndex::find_in(Text& text) {
  // An index of several blocks is made anew each time.
  const auto blocks = read_blocks(text.bytes, {}).blocks;
  if (blocks.size() != 1 || blocks[0].bytes.data() != text.bytes.data()) return false;
  auto block = blocks[0].bytes;
  text.block_bytes = block.size();
  block.remove_suffix(4 * (1 + std::size_t{load_u32(&block[block.size() - 4])}));  // restart points
  std::vector<Checksum*> expected;
  for (auto& one : checksums_) expected.push_back(&one);
  std::stable_partition(expected.begin(), expected.end(), [](auto* one) { return one->of_slice; });
  auto next = expected.begin();
  auto other = text.more.begin();
  std::string key;
  const bool found = walk_entries(block, [&](auto shared, auto rest, auto value) {
    if (shared > key.size()) return false;
    key.resize(shared);
    key.append(rest);
    const auto at = static_cast<std::size_t>(value.data() - text.bytes.data());
    if (other != text.more.end() && key == other->key) {
      text.values_of_more.push_back(at);
      return value == (other++)->value;
    }
    pb::Entry said;
    // The header, the entry of a sliced tensor, or one without bytes.
    if (key.empty() || !parse(said, value) || said.size() == 0) return true;
    if (next == expected.end() || masked(**next) != said.crc32c()) return false;
    (*next++)->in_text = at + value.size() - checksum_bytes;
    return true;
  });
  return found && next == expected.end() && other == text.more.end();
}

}  // namespace cairn::bundle
