// Shards of a limited size. Why ceil(total / capacity) + 1 shards are enough, where capacity is the
// limit rounded down to a multiple of the largest element: let S be that ceil. A shard is left only
// when at most capacity / (S + 1) bytes of it are free, or fewer bytes than the element at hand
// has. Elements come largest first and their sizes are powers of two, so in the latter case it
// holds a capacity or more. So S shards hold at least S · S / (S + 1) capacities, and the rest of
// the total fits into one more.
//
// This freedom is used to cut at whole indices of the first dimension: a tensor that nearly fits is
// not torn for a few bytes. Tensors that may not be cut are packed first.
#include <algorithm>
#include <set>

#include "base/mutex.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "cairn/sharding.hpp"

namespace cairn {
namespace {

using Tensors = std::vector<const ShardableTensor*>;

std::int64_t item_of(const ShardableTensor& tensor) {
  return static_cast<std::int64_t>(dtype_size(tensor.dtype));
}

[[noreturn]] void too_large(const ShardableTensor& tensor) {
  throw Error(
      Code::invalid_argument,
      cat("the slices of a task have more than 2^63 bytes, up to tensor '", tensor.key, "'"))
      .of_tensor(tensor.key);
}

std::int64_t bytes_of(const ShardableTensor& tensor) {
  if (item_of(tensor) == 0) return std::max<std::int64_t>(tensor.bytes, 0);
  std::int64_t bytes;
  if (__builtin_mul_overflow(tensor.slice.count(), item_of(tensor), &bytes)) too_large(tensor);
  return bytes;
}

// Only dtypes that TensorFlow can assemble from slices are cut, so that TensorFlow can still read
// the checkpoint.
bool may_be_cut(const ShardableTensor& tensor) {
  return dtype_assembles_in_tensorflow(tensor.dtype) && !tensor.slice.empty();
}

/// Cuts `count` indices off the front of a dimension of box and returns them.
Box cut_front(Box& box, std::size_t dim, std::int64_t count) {
  Box front = box;
  front.extent[dim] = count;
  box.start[dim] += count;
  box.extent[dim] -= count;
  return front;
}

class Filling {
 public:
  /// `spare`: up to this many bytes may stay free in a shard that the next piece does not fit into.
  Filling(std::int64_t limit, std::int64_t spare) : limit_(limit), spare_(spare) {}

  /// Packs tensors that are not cut: each into the last shard, or a new one. Largest first, so that
  /// two neighbouring shards together hold more than the limit.
  void pack(const Tensors& tensors) {
    for (const auto* tensor : tensors) {
      const auto bytes = bytes_of(*tensor);
      if (shards_.empty() || bytes > rooms_.back()) open(limit_);
      add_to(shards_.back(), *tensor);
      rooms_.back() -= bytes;
    }
  }

  /// Fills the existing shards and then new ones.
  void fill(const ShardableTensor& tensor) {
    const auto item = item_of(tensor);
    std::vector<Box> rest{tensor.slice};  // the next box is the last one
    while (!rest.empty()) {
      if (current_ == shards_.size()) open(limit_);
      auto& room = rooms_[current_];
      auto& box = rest.back();
      const auto bytes = box.count() * item;
      if (bytes <= room) {
        put(tensor, std::move(box), bytes);
        rest.pop_back();
      } else if (room <= spare_ || room < item) {
        // The shard is left as it is; see the proof at the top of this file.
        ++current_;
      } else {
        const auto [dim, count] = choose_cut(box, bytes, room);
        auto front = cut_front(box, dim, std::max<std::int64_t>(count, 1));
        if (count > 0) {
          const auto front_bytes = front.count() * item;
          put(tensor, std::move(front), front_bytes);
        } else {
          rest.push_back(std::move(front));  // one index, to be cut along another dimension
        }
      }
    }
  }

  // A shard without room, so that nothing else is added to it.
  void alone(const ShardableTensor& tensor) {
    open(0);
    add_to(shards_.back(), tensor);
  }

  std::vector<Shard> take() { return std::move(shards_); }

 private:
  void open(std::int64_t room) {
    shards_.emplace_back();
    rooms_.push_back(room);
  }
  void put(const ShardableTensor& tensor, Box box, std::int64_t bytes) {
    add_to(shards_[current_], piece_of(tensor, std::move(box)));
    rooms_[current_] -= bytes;
  }

  struct Cut {
    std::size_t dim;
    std::int64_t count;
  };
  /// Chooses how many indices of which dimension to cut off, for a room that the box is too large
  /// for: the first dimension that leaves no more than the spare free, else the one that leaves
  /// least. If not even one index fits: 0 of the first dimension that has several.
  Cut choose_cut(const Box& box, std::int64_t bytes, std::int64_t room) const {
    std::optional<Cut> best;
    std::int64_t most = 0;
    for (std::size_t d = 0; d < box.rank(); ++d) {
      if (box.extent[d] < 2) continue;
      const auto slab = bytes / box.extent[d], count = room / slab, filled = count * slab;
      if (!best || filled > most) best = Cut{d, count}, most = filled;
      if (room - filled <= spare_) break;
    }
    return *best;  // more bytes than room, and room for an element: there are several elements
  }

  std::int64_t limit_, spare_;
  std::vector<Shard> shards_;
  // Bytes that are still free, by shard.
  std::vector<std::int64_t> rooms_;
  std::size_t current_ = 0;  // used by fill()
};

}  // namespace

// The tensors that a warning has named already: a policy is called at each new plan, and would
// repeat itself. Copies of the policy share it.
struct MaxShardSizePolicy::Warned {
  Mutex mutex;
  std::set<std::string> keys CAIRN_GUARDED_BY(mutex);

  void of(const Tensors& oversize, std::int64_t max_bytes, std::string_view what_follows) {
    constexpr std::size_t most_named = 3;
    // The log's sink is called without the mutex: it may use the library.
    Tensors news;
    {
      const MutexLock lock(mutex);
      for (const auto* tensor : oversize) {
        if (keys.insert(tensor->key).second) news.push_back(tensor);
      }
    }
    if (news.empty()) return;
    std::string names;
    for (std::size_t i = 0; i < std::min(news.size(), most_named); ++i) {
      names += cat(i > 0 ? ", '" : "'", news[i]->key, "' (", bytes_of(*news[i]), " bytes of ",
                   dtype_name(news[i]->dtype), ")");
    }
    if (news.size() > most_named) names += cat(" and ", news.size() - most_named, " more");
    const bool one = news.size() == 1;
    log(LogLevel::warning,
        cat(one ? cat("tensor ", names, " is") : cat(news.size(), " tensors are"),
            " larger than a shard's limit of ", max_bytes, " bytes", one ? "" : cat(": ", names),
            ". ", one ? "It gets " : "Each gets ", what_follows));
  }
};

MaxShardSizePolicy::MaxShardSizePolicy(std::int64_t max_shard_size_bytes)
    : max_bytes_(max_shard_size_bytes), warned_(std::make_shared<Warned>()) {
  if (max_bytes_ > 0) return;
  throw Error(Code::invalid_argument,
              cat("the maximum of a MaxShardSizePolicy is ", max_bytes_, " bytes"),
              "a shard holds one element at least", "Give a positive number of bytes.");
}

std::string MaxShardSizePolicy::description() const {
  return cat("shards of at most ", max_bytes_, " bytes");
}

std::optional<std::string> MaxShardSizePolicy::parameters() const {
  return cat("max_shard_size_bytes=", max_bytes_);
}

std::vector<Shard> MaxShardSizePolicy::operator()(
    const std::vector<ShardableTensor>& tensors) const {
  Tensors cut, whole, oversize;
  std::int64_t total = 0, largest_item = 1;
  for (const auto& tensor : tensors) {
    const auto item = item_of(tensor);
    if (item > max_bytes_ && !tensor.slice.empty()) {
      throw Error(Code::invalid_argument,
                  cat("tensor '", tensor.key, "': one element (", dtype_name(tensor.dtype), ", ",
                      item, " bytes) is larger than a shard may be: ", max_bytes_, " bytes"),
                  "an element is in one shard", "Give MaxShardSizePolicy a larger maximum.")
          .of_tensor(tensor.key);
    }
    const auto bytes = bytes_of(tensor);
    if (may_be_cut(tensor)) {
      cut.push_back(&tensor);
      largest_item = std::max(largest_item, item);
      if (__builtin_add_overflow(total, bytes, &total)) too_large(tensor);
    } else {
      (bytes > max_bytes_ ? oversize : whole).push_back(&tensor);
    }
  }
  // By size, as pack() needs it, and by the size of elements, as the proof at the top assumes.
  std::stable_sort(whole.begin(), whole.end(),
                   [](const auto* a, const auto* b) { return bytes_of(*a) > bytes_of(*b); });
  std::stable_sort(cut.begin(), cut.end(),
                   [](const auto* a, const auto* b) { return item_of(*a) > item_of(*b); });
  // A shard may stay free by as much as in the proof at the top.
  const auto capacity = max_bytes_ - max_bytes_ % largest_item;
  const auto least_shards = total / capacity + (total % capacity != 0);
  Filling filling(max_bytes_, capacity / (least_shards + 1));
  filling.pack(whole);
  for (const auto* tensor : cut) filling.fill(*tensor);
  for (const auto* tensor : oversize) filling.alone(*tensor);
  warned_->of(oversize, max_bytes_,
              "a shard of its own and is not cut: TensorFlow cannot assemble its dtype from "
              "slices.");
  return filling.take();
}

// Packs as Filling::pack does.
std::vector<int> MaxShardSizePolicy::dense_files(
    const std::vector<ShardableTensor>& tensors) const {
  Tensors largest_first, oversize;
  for (const auto& tensor : tensors) largest_first.push_back(&tensor);
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [](const auto* a, const auto* b) { return bytes_of(*a) > bytes_of(*b); });
  std::vector<int> files(tensors.size());
  int file = -1;
  std::int64_t room = 0;
  for (const auto* tensor : largest_first) {
    const auto bytes = bytes_of(*tensor);
    if (bytes > max_bytes_) oversize.push_back(tensor);
    if (file < 0 || bytes > room) ++file, room = max_bytes_;
    room -= bytes;  // a tensor larger than the maximum leaves no room
    files[static_cast<std::size_t>(tensor - tensors.data())] = file;
  }
  warned_->of(oversize, max_bytes_,
              "a data file of its own: it is stored dense, which is one entry, and an entry is in "
              "one file. Storage::sliced would store its slices apart.");
  return files;
}

}  // namespace cairn
