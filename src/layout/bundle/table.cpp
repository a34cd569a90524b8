#include "layout/bundle/table.hpp"

#include <snappy.h>

#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/damage.hpp"
#include "layout/bundle/key_text.hpp"
#include "layout/bundle/numbers.hpp"

namespace cairn::bundle {
namespace {

// After each block: one byte for the compression, and a masked checksum.
constexpr std::uint64_t trailer_bytes = 5;

// Where a block is. `size` does not count its trailer.
struct Handle {
  std::uint64_t offset, size;
  std::uint64_t end() const { return offset + size + trailer_bytes; }
};

std::string described(std::string_view key) { return key.empty() ? "the header" : key_text(key); }

std::optional<Handle> take_handle(std::string_view& bytes) {
  const auto offset = take_varint(bytes);
  const auto size = take_varint(bytes);
  if (!offset || !size) return std::nullopt;
  return Handle{*offset, *size};
}

// Checks that blocks lie end to end, so that no byte is unchecked and none is read twice.
void check_layout(Handle h, std::uint64_t begin, std::uint64_t end, const char* what) {
  if (h.offset > end || h.size > end - h.offset || end - h.offset - h.size < trailer_bytes) {
    damaged(cat("the handle of ", what, " points to ", h.size, " bytes at ", h.offset,
                ", beyond byte ", end, " where it must end"));
  }
  if (h.offset != begin) {
    damaged(cat("the handle of ", what, " points to byte ", h.offset, ", not to byte ", begin,
                " where the one before ends"));
  }
}

// Reads from the last bytes of a file where the metaindex and the index are.
std::pair<Handle, Handle> read_footer(std::string_view last, std::uint64_t file_bytes) {
  if (last.size() < footer_bytes) {
    damaged(cat("it has ", last.size(), " bytes, fewer than the ", footer_bytes, " of a footer"));
  }
  const auto body = file_bytes - footer_bytes;
  auto foot = last.substr(last.size() - footer_bytes);
  if (load_u64(&foot[40]) != table_magic)
    damaged("it does not end in the magic number of an index");
  // What is left are two handles, filled up with zeros.
  foot.remove_suffix(8);
  const auto metaindex = take_handle(foot);
  const auto index = take_handle(foot);
  if (!metaindex || !index) damaged("a block handle in its footer is malformed");
  if (foot.find_first_not_of('\0') != foot.npos) damaged("the padding of its footer is not zero");
  check_layout(*index, index->offset, body, "the index block");
  if (index->end() != body) {
    damaged(cat("the handle of the index block ends at byte ", index->end(), ", not at byte ", body,
                " where the footer begins"));
  }
  check_layout(*metaindex, metaindex->offset, index->offset, "the metaindex block");
  if (metaindex->end() != index->offset) {
    damaged(cat("the handle of the metaindex block ends at byte ", metaindex->end(),
                ", not at byte ", index->offset, " where the index block begins"));
  }
  return {*metaindex, *index};
}

// Reads a table from bytes that are not trusted. Its budget bounds the memory that they can ask
// for.
class Reader {
 public:
  Reader(std::string_view file, const Limits& limits) : file_(file), limits_(limits) {
    if (file.size() > limits.index_bytes) {
      damaged(cat("it has ", file.size(), " bytes, more than the limit of ", limits.index_bytes));
    }
    if (__builtin_mul_overflow(file.size(), limits.expansion, &budget_))
      budget_ = ~std::uint64_t{0};
    // max() keeps a sum that wraps around from making the budget smaller.
    budget_ = std::max(budget_, budget_ + (std::uint64_t{16} << 20));
  }

  Table read() {
    each_block([&](Handle handle, const std::string& separator) { data_block(handle, separator); });
    return std::move(table_);
  }

  TableBlocks read_blocks() {
    TableBlocks layout;
    each_block([&](Handle handle, const std::string& separator) {
      layout.blocks.push_back(
          {block(handle, cat("data block at byte ", handle.offset)), separator});
    });
    layout.unpacked = std::move(table_.unpacked);
    return layout;
  }

 private:
  // Calls visit(handle, separator) for each data block that the index block lists.
  template <class Visit>
  void each_block(Visit visit) {
    const auto handles = read_footer(file_, file_.size());
    const Handle metaindex = handles.first, index = handles.second;
    // The metaindex has no meaning to any reader, but it is checked like the rest.
    const auto meta_name = cat("metaindex block at byte ", metaindex.offset);
    each_entry(block(metaindex, meta_name), meta_name, [](auto&, auto) {});

    std::uint64_t next = 0;  // where the next data block must begin
    const auto index_name = cat("index block at byte ", index.offset);
    each_entry(block(index, index_name), index_name, [&](const std::string& separator, auto value) {
      // Bytes after the handle are allowed, as LevelDB allows them.
      const auto handle = take_handle(value);
      if (!handle) damaged(cat(index_name, ": the handle of a data block is malformed"));
      check_layout(*handle, next, metaindex.offset, "a data block");
      next = handle->end();
      visit(*handle, separator);
    });
    if (next != metaindex.offset) {
      damaged(cat("bytes ", next, " to ", metaindex.offset, " belong to no block"));
    }
  }

  void spend(std::uint64_t bytes) {
    if (bytes > budget_) {
      damaged(cat("it unpacks to more than ", limits_.expansion, " times its size"));
    }
    budget_ -= bytes;
  }

  // Verifies and unpacks the contents of a block whose handle has been checked.
  std::string_view block(Handle handle, const std::string& name) {
    const auto stored = file_.substr(handle.offset, handle.size);
    const auto crc = crc_unmask(load_u32(&file_[handle.offset + handle.size + 1]));
    // The checksum covers the byte of the compression, too.
    const auto computed = crc32c(file_.substr(handle.offset, handle.size + 1));
    if (crc != computed) {
      damaged(cat(name, ": checksum mismatch, stored ", crc, ", computed ", computed));
    }
    const int type = static_cast<unsigned char>(file_[handle.offset + handle.size]);
    if (type == 0) return stored;
    if (type != 1) damaged(cat(name, ": unknown compression type ", type));
    std::size_t length = 0;
    if (!snappy::GetUncompressedLength(stored.data(), stored.size(), &length)) {
      damaged(cat(name, ": its snappy data is malformed"));
    }
    // Three bytes of snappy make at most 64.
    if (length > stored.size() * 22) {
      damaged(cat(name, ": ", stored.size(), " bytes of snappy data claim to unpack to ", length));
    }
    spend(length);
    auto& unpacked = table_.unpacked.emplace_back(length, '\0');
    if (!snappy::RawUncompress(stored.data(), stored.size(), unpacked.data())) {
      damaged(cat(name, ": its snappy data is malformed"));
    }
    return unpacked;
  }

  // Calls visit(key, value) for the entries of a block, whose keys ascend.
  template <class Visit>
  void each_entry(std::string_view block, const std::string& name, Visit visit) {
    const auto count = count_restarts(block, name);
    const auto entries = block.substr(0, block.size() - 4 - 4 * count);
    const auto restart = [&](std::uint64_t i) {
      return load_u32(entries.data() + entries.size() + 4 * i);
    };
    if (restart(0) != 0) damaged(cat(name, ": its first restart point is not its first entry"));
    std::uint64_t restarts = entries.empty() ? 1 : 0;  // restart points passed
    std::string key;
    bool first = true;
    for (auto rest = entries; !rest.empty(); first = false) {
      const auto at = entries.size() - rest.size();
      const auto [shared, unshared, length] = take_lengths(rest, at, key.size(), name);
      if (restarts < count && restart(restarts) == at) {
        if (shared) damaged(cat(name, ": the entry at restart point ", at, " shares a key"));
        ++restarts;
      }
      // Before the key is put together, which takes memory.
      if (shared + unshared > limits_.key_bytes) {
        damaged(cat(name, ": a key of ", shared + unshared, " bytes is above the limit of ",
                    limits_.key_bytes));
      }
      const auto suffix = rest.substr(0, unshared);
      if (!first && suffix <= std::string_view(key).substr(shared)) {
        const auto after = key.substr(0, shared).append(suffix);
        damaged(cat(name, ": ", described(after),
                    after == key ? " is there twice" : cat(" comes after ", described(key)),
                    ", but keys must ascend"));
      }
      key.resize(shared);
      key.append(suffix);
      visit(key, rest.substr(unshared, length));
      rest.remove_prefix(unshared + length);
    }
    if (restarts != count)
      damaged(cat(name, ": restart point ", restart(restarts), " is at no entry"));
  }

  static std::uint64_t count_restarts(std::string_view block, const std::string& name) {
    if (block.size() < 4)
      damaged(cat(name, ": ", block.size(), " bytes are too short for a block"));
    const std::uint64_t count = load_u32(&block[block.size() - 4]);
    if (count == 0) damaged(cat(name, ": it has no restart point"));
    if (count > (block.size() - 4) / 4) {
      damaged(cat(name, ": it claims ", count, " restart points in ", block.size(), " bytes"));
    }
    return count;
  }

  // The lengths of an entry: bytes that its key shares with the key before, the key's other bytes,
  // the value.
  struct Lengths {
    std::uint64_t shared, unshared, value;
  };
  static Lengths take_lengths(std::string_view& rest, std::size_t at, std::size_t key_bytes,
                              const std::string& name) {
    const auto shared = take_varint(rest, 0xffffffff);
    const auto unshared = take_varint(rest, 0xffffffff);
    const auto length = take_varint(rest, 0xffffffff);
    if (!shared || !unshared || !length) {
      damaged(cat(name, ": a length of the entry at byte ", at, " is malformed"));
    }
    if (*shared > key_bytes) {
      damaged(cat(name, ": the entry at byte ", at, " shares ", *shared, " bytes with a key of ",
                  key_bytes));
    }
    if (*unshared > rest.size() || *length > rest.size() - *unshared) {
      damaged(cat(name, ": the entry at byte ", at, " reaches beyond the block"));
    }
    return {*shared, *unshared, *length};
  }

  // Adds the entries of a data block, whose keys have to lie between its separators.
  void data_block(Handle handle, std::string_view separator) {
    const auto name = cat("data block at byte ", handle.offset);
    const auto before = table_.entries.size();
    each_entry(block(handle, name), name, [&](const std::string& key, std::string_view value) {
      // Only the first key is compared: each_entry() checks that those after it ascend.
      if (table_.entries.size() == before && before > 0 && key <= separator_) {
        damaged(cat(name, ": ", described(key), " is not beyond the separator ",
                    key_text(separator_), " of the block before"));
      }
      spend(128 + key.size() + value.size());
      table_.entries.push_back({key, value});
    });
    if (table_.entries.size() == before) damaged(cat(name, ": it holds no entry"));
    if (table_.entries.back().key > separator) {
      damaged(cat(name, ": its last key ", described(table_.entries.back().key),
                  " is beyond its separator ", key_text(separator)));
    }
    separator_ = separator;
  }

  std::string_view file_;
  Limits limits_;
  // How many bytes may still be unpacked or kept.
  std::uint64_t budget_ = 0;
  Table table_;
  std::string separator_;  // of the data block before
};

}  // namespace

void check_footer(std::string_view last, std::uint64_t file_bytes) {
  read_footer(last, file_bytes);
}

std::optional<std::uint64_t> table_bytes(std::string_view footer) {
  if (footer.size() != footer_bytes || load_u64(&footer[40]) != table_magic) return std::nullopt;
  take_handle(footer);
  const auto index = take_handle(footer);
  // So the sums below do not overflow.
  constexpr auto most = std::uint64_t{1} << 62;
  if (!index || index->offset > most || index->size > most) return std::nullopt;
  return index->end() + footer_bytes;
}

TableBlocks read_blocks(std::string_view file, const Limits& limits) {
  return Reader(file, limits).read_blocks();
}

Table read_table(std::string_view file, const Limits& limits) {
  return Reader(file, limits).read();
}

}  // namespace cairn::bundle
