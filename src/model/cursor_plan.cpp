#include "model/cursor_plan.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::cursor {
namespace {

constexpr std::uint8_t version = 1, shuffled = 128;

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(Code::data_loss, "the position of a cursor cannot be read", reason,
              "Restore an older checkpoint.");
}

// Writes the form that cursor_plan.hpp describes.
class Writer {
 public:
  void byte(std::uint64_t value) { bytes_.push_back(static_cast<std::uint8_t>(value)); }
  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) byte(value % 128 + 128);
    byte(value);
  }
  // Appends the lowest bits of a value. They fill the bytes without regard to where a value begins.
  void bits(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i, ++bit_) {
      if (bit_ % 8 == 0) byte(0);
      bytes_.back() = static_cast<std::uint8_t>(bytes_.back() | (value >> i & 1) << bit_ % 8);
    }
  }
  std::vector<std::uint8_t> bytes() && { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
  int bit_ = 0;
};

// The reverse. Bytes may come from a damaged file, so each number has limits.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
  std::uint64_t byte() {
    if (rest_.empty()) refuse("its bytes end too early");
    const auto value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  std::int64_t varint(std::int64_t least, std::int64_t most) {
    std::uint64_t value = 0;
    // Nine groups of seven bits are all that a number below 2^63 has.
    for (int shift = 0; shift < 63; shift += 7) {
      const auto next = byte();
      value |= (next & 127) << shift;
      if (next >= 128) continue;
      const auto number = static_cast<std::int64_t>(value);
      if (number < least || number > most) refuse(cat("a number in it is ", number));
      return number;
    }
    refuse("a number in it has too many bytes");
  }
  std::int64_t bits(int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i, ++bit_) {
      if (bit_ % 8 == 0) open_ = byte();
      value |= (open_ >> bit_ % 8 & 1) << i;
    }
    return static_cast<std::int64_t>(value);
  }
  std::int64_t room() const { return std::ssize(rest_); }
  void end() const {
    if (!rest_.empty()) refuse("it has more bytes than it says");
  }

 private:
  std::span<const std::uint8_t> rest_;
  std::uint64_t open_ = 0;
  int bit_ = 0;
};

// The bits of a position; `samples` itself must fit, as the end of a range.
int width_of(std::int64_t samples) { return std::bit_width(static_cast<std::uint64_t>(samples)); }

// How many samples of an epoch each rank has taken, by its place.
std::vector<std::int64_t> taken_of(const EpochPlan& plan, std::int64_t epoch,
                                   std::span<const EpochPosition> places) {
  const auto all = count_of(plan.ranges_of(epoch));
  std::vector<std::int64_t> taken;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto& place = places[static_cast<std::size_t>(rank)];
    taken.push_back(place.epoch < epoch   ? 0
                    : place.epoch > epoch ? share_of(all, rank, plan.ranks)
                                          : place.count);
  }
  return taken;
}

}  // namespace

std::int64_t number_of(const EpochPosition& place, std::int64_t samples) {
  return place.epoch * (samples + 1) + place.count;
}

EpochPosition place_of(std::int64_t number, std::int64_t samples) {
  return {number / (samples + 1), number % (samples + 1)};
}

std::vector<Range> EpochPlan::ranges_of(std::int64_t epoch) const {
  const auto at = epoch - first;
  if (at >= std::ssize(open)) return {{0, samples}};
  return open[static_cast<std::size_t>(at)];
}

std::vector<std::uint8_t> encoded(const EpochPlan& plan) {
  Writer out;
  out.byte(version | (plan.shuffle ? shuffled : 0));
  for (int i = 0; i < 64; i += 8) out.byte(plan.seed >> i & 255);
  for (const auto number :
       {plan.samples, std::int64_t{plan.ranks}, plan.first, std::int64_t{std::ssize(plan.open)}}) {
    out.varint(static_cast<std::uint64_t>(number));
  }
  for (const auto& ranges : plan.open) out.varint(ranges.size());
  for (const auto& ranges : plan.open) {
    for (const auto& [begin, end] : ranges) {
      out.bits(static_cast<std::uint64_t>(begin), width_of(plan.samples));
      out.bits(static_cast<std::uint64_t>(end), width_of(plan.samples));
    }
  }
  return std::move(out).bytes();
}

EpochPlan decoded(std::span<const std::uint8_t> bytes) {
  Reader in(bytes);
  const auto head = in.byte();
  if ((head & ~std::uint64_t{shuffled}) != version) {
    throw Error(Code::unsupported, "the position of a cursor cannot be read",
                cat("it is of version ", head & 127, ", and this library knows ", int{version}),
                "Use a newer Cairn.");
  }
  EpochPlan plan;
  plan.shuffle = (head & shuffled) != 0;
  for (int i = 0; i < 64; i += 8) plan.seed |= in.byte() << i;
  plan.samples = in.varint(1, most_samples);
  plan.ranks = static_cast<int>(in.varint(1, INT32_MAX));
  plan.first = in.varint(0, most_epochs);
  // Each epoch takes a byte at least, so no room is made for epochs that the bytes cannot hold.
  plan.open.resize(static_cast<std::size_t>(in.varint(0, in.room())));
  for (auto& ranges : plan.open) {
    // A range takes a bit at least, so no room is made for ranges that the bytes cannot hold.
    ranges.resize(static_cast<std::size_t>(in.varint(0, std::int64_t{8} * in.room())));
  }
  for (auto& ranges : plan.open) {
    std::int64_t least = 0;
    for (auto& [begin, end] : ranges) {
      begin = in.bits(width_of(plan.samples));
      end = in.bits(width_of(plan.samples));
      if (begin < least || end <= begin || end > plan.samples) {
        refuse(cat("a range in it is ", begin, "…", end));
      }
      // Ranges do not touch: deal() assumes this.
      least = end + 1;
    }
  }
  in.end();
  return plan;
}

EpochPlan next_plan(const EpochPlan& plan, std::span<const EpochPosition> places, int ranks) {
  const auto [low, high] = std::minmax_element(
      places.begin(), places.end(),
      [](const EpochPosition& a, const EpochPosition& b) { return a.epoch < b.epoch; });
  auto next = plan;
  next.ranks = ranks;
  next.first = low->epoch;
  next.open.clear();
  // Epochs that no rank has come to yet may be open from an earlier restart.
  const auto last = std::max(high->epoch, plan.first + std::ssize(plan.open) - 1);
  for (auto epoch = low->epoch; epoch <= last; ++epoch) {
    auto ranges = plan.ranges_of(epoch);
    if (ranks != plan.ranks) {
      ranges = left_of(deal(ranges, plan.ranks), taken_of(plan, epoch, places));
    }
    next.open.push_back(std::move(ranges));
  }
  // Epochs that are whole need not be stored: ranges_of() gives that for all epochs that are not.
  const std::vector<Range> whole{{0, plan.samples}};
  while (!next.open.empty() && next.open.back() == whole) next.open.pop_back();
  return next;
}

void require_places(const EpochPlan& plan, std::span<const EpochPosition> places) {
  if (std::ssize(places) != plan.ranks) {
    refuse(cat("it is of ", plan.ranks, " ranks and has the places of ", places.size()));
  }
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto& [epoch, count] = places[static_cast<std::size_t>(rank)];
    const bool is_there = plan.first <= epoch && epoch <= most_epochs && count >= 0 &&
                          count <= share_of(count_of(plan.ranges_of(epoch)), rank, plan.ranks);
    if (!is_there) refuse(cat("rank ", rank, " is at ", count, " of epoch ", epoch));
  }
}

}  // namespace cairn::cursor
