#pragma once
/// Walks through the entries of an index for index_split.cpp and index_part.cpp, and only for them.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/limits.hpp"
#include "layout/bundle/numbers.hpp"

namespace cairn::bundle::split {

constexpr std::size_t entries_a_restart = 16;

/// What read_part() needs besides the entries of a part.
struct PartHead {
  bool with_header = false, has_codecs = false;
  std::int64_t slices = 0;
  std::vector<std::uint32_t> restarts;
  std::string next_key;            ///< the key that must follow the part's last
  Packed<std::string_view> lists;  ///< of each range, its slices as the tensor's entry lists them
};

/// Thrown to leave the index to parse_index().
struct NotSimple {};

inline void require(bool simple) {
  if (!simple) throw NotSimple();
}

/// Runs a function; returns nothing if the index is left to parse_index(). Damage counts as such,
/// since parse_index() finds it, too, and says what it is.
template <class F>
auto if_simple(F&& function) -> std::optional<decltype(function())> {
  try {
    return function();
  } catch (const NotSimple&) {
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
    return std::nullopt;
  }
}

/// A varint of at most 32 bits, as lengths in blocks are.
inline std::uint64_t take(std::string_view& bytes) {
  const auto value = take_varint(bytes, 0xffffffff);
  require(value.has_value());
  return *value;
}

/// Limits the memory of keys and values, as a reader of the whole index does.
class Budget {
 public:
  Budget(std::size_t bytes, const Limits& limits) : limits_(limits) {
    if (__builtin_mul_overflow(std::uint64_t{bytes}, limits.expansion, &left_)) left_ = most;
    // The first 16 MiB are free. max() keeps a sum that wraps around from making the budget
    // smaller.
    left_ = std::max(left_, left_ + (std::uint64_t{16} << 20));
  }
  void spend(std::string_view key, std::string_view value) {
    require(key.size() <= limits_.key_bytes);
    const auto cost = 128 + key.size() + value.size();
    require(cost <= left_);
    left_ -= cost;
  }

 private:
  static constexpr std::uint64_t most = ~std::uint64_t{0};
  const Limits limits_;
  std::uint64_t left_ = 0;
};

/// Calls visit(key, value, end) for the entries between two restart points of a block. `end` is
/// where the next entry begins. Throws NotSimple unless keys ascend and each sixteenth entry is a
/// restart point with a whole key.
template <class Visit>
void each_entry(std::string_view entries, const std::vector<std::uint32_t>& restarts,
                const Limits& limits, Visit visit) {
  Budget budget(entries.size(), limits);
  std::string key;
  std::size_t number = 0;
  for (auto rest = entries; !rest.empty(); ++number) {
    const auto at = entries.size() - rest.size();
    const auto shared = take(rest), unshared = take(rest), length = take(rest);
    const auto restart = number / entries_a_restart;
    if (number % entries_a_restart == 0) {
      require(restart < restarts.size() && restarts[restart] == at && shared == 0);
    }
    require(shared <= key.size() && unshared <= rest.size() && length <= rest.size() - unshared);
    const auto suffix = rest.substr(0, unshared);
    // Both keys begin alike, so the rests decide which is greater.
    require(number == 0 || suffix > std::string_view(key).substr(shared));
    key.resize(shared);
    key.append(suffix);
    const auto value = rest.substr(unshared, length);
    budget.spend(key, value);
    rest.remove_prefix(unshared + length);
    visit(key, value, entries.size() - rest.size());
  }
  require((number + entries_a_restart - 1) / entries_a_restart == restarts.size());
}

}  // namespace cairn::bundle::split
