#include "layout/bundle/table_write.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/key_text.hpp"
#include "layout/bundle/numbers.hpp"
#include "layout/bundle/table.hpp"

namespace cairn::bundle {
namespace {

constexpr std::uint64_t block_limit = std::uint64_t{64} << 20;
// Bytes of a block are handed on when there are so many.
constexpr std::size_t piece_bytes = std::size_t{1} << 20;
constexpr int entries_a_restart = 16;
constexpr std::size_t footer_handles_bytes = 40;

// With how many bytes both begin; the first `from` of them are known to. Compares eight at a time.
std::size_t shared_bytes(std::string_view a, std::string_view b, std::size_t from = 0) {
  const auto most = std::min(a.size(), b.size());
  auto at = from;
  for (; at + 8 <= most; at += 8) {
    std::uint64_t x, y;
    std::memcpy(&x, a.data() + at, sizeof x);
    std::memcpy(&y, b.data() + at, sizeof y);
    if (x != y) break;
  }
  while (at < most && a[at] == b[at]) ++at;
  return at;
}

// Appends all of an entry but the value.
void put_front(std::string& out, std::size_t shared, std::string_view rest,
               std::size_t value_bytes) {
  char sizes[3 * most_varint_bytes];
  auto* end = put_varint(sizes, shared);
  end = put_varint(end, rest.size());
  end = put_varint(end, value_bytes);
  out.append(sizes, static_cast<std::size_t>(end - sizes));
  out.append(rest);
}

void put_entry(std::string& out, std::size_t shared, std::string_view rest,
               std::string_view value) {
  put_front(out, shared, rest, value.size());
  out.append(value);
}

// A short key that is no less than `last`, and less than `next`.
std::string separator(std::string_view last, std::string_view next) {
  const auto differs = shared_bytes(last, next);
  if (differs < std::min(last.size(), next.size())) {
    const auto byte = static_cast<unsigned char>(last[differs]);
    if (byte < 0xff && byte + 1 < static_cast<unsigned char>(next[differs])) {
      std::string between(last.substr(0, differs + 1));
      between.back() = static_cast<char>(byte + 1);
      return between;
    }
  }
  return std::string(last);
}

// A short key that is no less than `last`.
std::string successor(std::string_view last) {
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (static_cast<unsigned char>(last[i]) == 0xff) continue;
    std::string above(last.substr(0, i + 1));
    above.back() = static_cast<char>(above.back() + 1);
    return above;
  }
  return std::string(last);
}

void put_restarts(std::string& out, const std::vector<std::uint32_t>& restarts) {
  for (const auto at : restarts) append_u32(out, at);
  append_u32(out, static_cast<std::uint32_t>(restarts.size()));
}

// `crc` is that of the block's bytes.
std::string trailer(std::uint32_t crc) {
  std::string bytes(1, '\0');  // not compressed
  append_u32(bytes, crc_mask(crc32c(bytes, crc)));
  return bytes;
}

}  // namespace

void EntryChain::add(std::string_view key, std::string_view value, std::size_t least) {
  const auto shared = bytes_.empty() ? 0 : shared_bytes(last_, key, least);
  put_entry(bytes_, shared, key.substr(shared), value);
  last_.resize(shared);
  last_.append(key.substr(shared));
}

TableWriter::TableWriter(TakeBytes take) : take_(std::move(take)), restarts_{0} {}

void TableWriter::add(std::string_view key, std::string_view value) {
  add(key, std::span(&value, 1));
}

void TableWriter::add(std::string_view key, std::span<const std::string_view> value) {
  const auto shared = shared_bytes(last_, key);
  append(shared, key.substr(shared), value);
}

void TableWriter::add_chain(std::string_view chain) {
  bool first = true;
  while (!chain.empty()) {
    const auto shared = take_varint(chain), rest = take_varint(chain), length = take_varint(chain);
    if (!shared || !rest || !length || *rest > chain.size() || *length > chain.size() - *rest ||
        *shared > (first ? 0 : last_.size())) {
      throw Error(Code::internal, "entries of an index are malformed");
    }
    const auto key = chain.substr(0, *rest);
    const auto value = chain.substr(*rest, *length);
    if (std::exchange(first, false)) {
      add(key, value);
    } else {
      append(*shared, key, std::span(&value, 1));
    }
    chain.remove_prefix(*rest + *length);
  }
}

void TableWriter::append(std::size_t shared, std::string_view rest,
                         std::span<const std::string_view> value) {
  // The key shares just `shared` bytes with the last one, so its next byte decides.
  const bool ascends =
      !any_ ||
      (!rest.empty() && (shared == last_.size() || static_cast<unsigned char>(rest.front()) >
                                                       static_cast<unsigned char>(last_[shared])));
  if (!ascends) {
    throw Error(Code::internal, cat("keys of an index do not ascend behind ", key_text(last_)));
  }
  any_ = true;
  // The separator of a block lies between its last key and the first key of the next, which is
  // known only now.
  if (std::exchange(ended_, false)) {
    const auto key = last_.substr(0, shared).append(rest);
    std::string handle;
    append_varint(handle, ended_block_.offset);
    append_varint(handle, ended_block_.size);
    // In the index block each entry is a restart point.
    index_restarts_.push_back(static_cast<std::uint32_t>(index_.size()));
    put_entry(index_, 0, separator(last_, key), handle);
  }
  last_.resize(shared);
  last_.append(rest);
  std::size_t value_bytes = 0;
  for (const auto part : value) value_bytes += part.size();
  auto before = buffer_.size();
  // At a restart point the key is written whole, so that readers can begin there.
  const bool whole = since_restart_ == entries_a_restart;
  if (whole) restarts_.push_back(static_cast<std::uint32_t>(block_bytes_));
  if (whole || block_bytes_ == 0) {
    since_restart_ = 0;
    put_front(buffer_, 0, last_, value_bytes);
  } else {
    put_front(buffer_, shared, rest, value_bytes);
  }
  ++since_restart_;
  for (const auto part : value) {
    buffer_.append(part);
    if (buffer_.size() < piece_bytes) continue;
    block_bytes_ += buffer_.size() - before;
    flush();
    before = 0;
  }
  block_bytes_ += buffer_.size() - before;
  // The size that the block would have with its restart points.
  if (block_bytes_ + 4 * restarts_.size() + 4 >= block_limit) return end_block();
  if (buffer_.size() >= piece_bytes) flush();
}

void TableWriter::flush() {
  block_crc_ = crc32c(buffer_, block_crc_);
  take_(buffer_);
  buffer_.clear();
}

// Ends the data block. Its entry in the index block follows when the next key is known.
void TableWriter::end_block() {
  const auto entries = buffer_.size();
  put_restarts(buffer_, restarts_);
  block_bytes_ += buffer_.size() - entries;
  flush();
  ended_ = true;
  ended_block_ = {block_begin_, block_bytes_};
  const auto end = trailer(block_crc_);
  take_(end);
  block_begin_ += block_bytes_ + end.size();
  block_bytes_ = 0;
  block_crc_ = 0;
  restarts_ = {0};
  since_restart_ = 0;
}

void TableWriter::finish() {
  if (block_bytes_ > 0) end_block();
  if (ended_) {
    std::string handle;
    append_varint(handle, ended_block_.offset);
    append_varint(handle, ended_block_.size);
    index_restarts_.push_back(static_cast<std::uint32_t>(index_.size()));
    put_entry(index_, 0, successor(last_), handle);
  }
  // The last two blocks are small, so they are put together in memory.
  std::string end, footer;
  const auto put_block = [&](std::string entries, std::vector<std::uint32_t> restarts) {
    // A block has at least one restart point, also without entries.
    if (restarts.empty()) restarts.push_back(0);
    put_restarts(entries, restarts);
    append_varint(footer, block_begin_ + end.size());
    append_varint(footer, entries.size());
    end += entries;
    end += trailer(crc32c(entries));
  };
  put_block("", {});  // the metaindex block, which has no meaning to any reader
  put_block(std::move(index_), std::move(index_restarts_));
  footer.resize(footer_handles_bytes);
  append_u64(footer, table_magic);
  end += footer;
  take_(end);
}

}  // namespace cairn::bundle
