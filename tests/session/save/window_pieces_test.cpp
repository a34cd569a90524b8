// The window by itself: what it gives the writing thread, piece by piece, whatever happens between.
#include "session/save/window.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/background.hpp"
#include "cairn/error.hpp"
#include "cairn/state.hpp"

namespace cairn {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

class WindowPieces : public testing::Test {
 protected:
  WindowPieces() : bytes_(3 * mib + 777) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 31 / 7);
    was_ = bytes_;
  }
  void add(std::size_t begin, std::size_t size) {
    window_.add({.key = cat("at ", begin),
                 .run = bytes_.data() + begin,
                 .bytes = static_cast<std::int64_t>(size)});
  }
  // Every other column of rows of 16 bytes.
  void add_strided(std::int64_t rows) {
    strided_ = host_memory(DType::uint8, bytes_.data(), nullptr, {rows, 8}, {16, 2});
    window_.add({.key = "strided",
                 .owner = strided_,
                 .memory = std::as_const(*strided_).for_any_thread(),
                 .part = Box::whole({rows, 8}),
                 .bytes = 8 * rows});
  }
  void open(std::uint64_t round = 0, bool protects = false) {
    buffer_.resize(static_cast<std::size_t>(window_.buffer_bytes()));
    window_.open(
        round, {buffer_},
        [this](std::int64_t size) -> Window::Room {
          ++rooms_;
          room_.resize(static_cast<std::size_t>(size));
          return {room_};
        },
        protects);
  }
  // The next piece, as the writing thread gets it. `between` is called after each of its chunks.
  std::vector<std::byte> take(const std::function<void()>& between = [] {}) {
    std::vector<std::byte> got;
    window_.write_next([&](std::span<const std::byte> bytes, bool stay) {
      stay_ += stay ? 's' : '-';
      got.insert(got.end(), bytes.begin(), bytes.end());
      between();
    });
    return got;
  }
  std::vector<std::byte> expected(std::size_t begin, std::size_t size) const {
    const auto first = was_.begin() + static_cast<std::ptrdiff_t>(begin);
    return {first, first + static_cast<std::ptrdiff_t>(size)};
  }
  void spoil() { std::fill(bytes_.begin(), bytes_.end(), std::byte{0xee}); }

  std::vector<std::byte> bytes_, was_, room_, buffer_;
  std::shared_ptr<SliceMemory> strided_;
  int rooms_ = 0;
  std::string stay_;  // of each chunk: 's' if it stays where it is
  Window window_;
};

TEST_F(WindowPieces, ASecondReleaseCopiesNothing) {
  add(5, 2 * mib);
  add(2 * mib + 5, 900);
  open();
  window_.release();
  spoil();
  window_.release();
  EXPECT_EQ(rooms_, 1);
  EXPECT_TRUE(take() == expected(5, 2 * mib));
  EXPECT_TRUE(take() == expected(2 * mib + 5, 900));
  window_.release();  // all is written
  EXPECT_EQ(rooms_, 1);
}

TEST_F(WindowPieces, OnlyTheRestIsCopied) {
  for (int chunks = 0; chunks <= 3; ++chunks) {
    SCOPED_TRACE(chunks);
    bytes_ = was_;
    add(0, 2 * mib + 100);
    add(2 * mib + 333, 4096);
    open();
    int taken = 0;
    const auto release = [&] {
      window_.release();
      spoil();
    };
    if (chunks == 0) release();
    const auto first = take([&] {
      if (++taken == chunks) release();
    });
    EXPECT_TRUE(first == expected(0, 2 * mib + 100));
    EXPECT_EQ(std::exchange(stay_, ""),
              std::string("---sss").substr(static_cast<std::size_t>(3 - chunks), 3));
    EXPECT_TRUE(take() == expected(2 * mib + 333, 4096));
    EXPECT_EQ(std::exchange(stay_, ""), "s");
    // Each piece begins on a page of the copy.
    const std::size_t left[] = {2 * mib + 100, mib + 100, 100, 0};
    EXPECT_EQ(room_.size(), (left[chunks] + 4095) / 4096 * 4096 + 4096);
    window_.close();
    window_.clear();
  }
}

TEST_F(WindowPieces, OfStridedMemoryTheRest) {
  constexpr std::int64_t rows = 180'000;  // two chunks of 1.44 MB
  std::vector<std::byte> packed;
  for (std::size_t i = 0; i < rows * 16; i += 2) packed.push_back(was_[i]);
  for (int chunks = 0; chunks <= 2; ++chunks) {
    SCOPED_TRACE(chunks);
    bytes_ = was_;
    add_strided(rows);
    open();
    int taken = 0;
    const auto release = [&] {
      window_.release();
      spoil();
    };
    if (chunks == 0) release();
    EXPECT_TRUE(take([&] {
                  if (++taken == chunks) release();
                }) == packed);
    window_.close();
    window_.clear();
  }
}

// Memory as of a device: other threads read it piece by piece, into memory of its kind.
class Faraway : public SliceMemory, public std::enable_shared_from_this<Faraway> {
 public:
  explicit Faraway(std::shared_ptr<SliceMemory> host) : host_(std::move(host)) {}
  void read(const Box& part, std::byte* out) const override {
    reads.push_back(part.count());
    std::as_const(*host_).read(part, out);
  }
  void write(const Box& part, const std::byte* in) override { host_->write(part, in); }
  bool writable() const override { return false; }
  std::shared_ptr<const SliceMemory> for_any_thread() const override { return shared_from_this(); }
  std::shared_ptr<StagingMemory> staging() const override { return page_memory(); }
  mutable std::vector<std::int64_t> reads;  // their bytes

 private:
  std::shared_ptr<SliceMemory> host_;
};

// A device copies large chunks at its full speed, and few small ones for the checksums.
TEST_F(WindowPieces, OfADevicesMemoryLargeChunks) {
  constexpr std::int64_t size = 48 << 20, chunk = 4 << 20;
  bytes_.resize(size);
  for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 31 / 7);
  was_ = bytes_;
  const auto far = std::make_shared<Faraway>(
      host_memory(DType::uint8, bytes_.data(), nullptr, {size / 1024, 1024}, {}));
  for (int chunks = 0; chunks <= 3; ++chunks) {
    SCOPED_TRACE(chunks);
    bytes_ = was_;
    window_.add({.key = "far",
                 .owner = far,
                 .memory = far,
                 .part = Box::whole({size / 1024, 1024}),
                 .bytes = size});
    EXPECT_EQ(window_.buffer_bytes(), chunk);
    open(static_cast<std::uint64_t>(chunks));
    const auto samples = std::exchange(far->reads, {});
    EXPECT_LT(samples.size(), 12u);
    for (const auto bytes : samples) EXPECT_LE(bytes, 32 << 10);
    const auto release = [&] {
      window_.release();
      spoil();
    };
    if (chunks == 0) release();
    int taken = 0;
    EXPECT_TRUE(take([&] {
                  if (++taken == chunks) release();
                }) == was_);
    auto expected = std::vector<std::int64_t>(static_cast<std::size_t>(size / chunk), chunk);
    if (chunks == 0) expected = {size};
    EXPECT_EQ(std::exchange(far->reads, {}), expected);
    window_.close();
    window_.clear();
  }
}

// Of gathered memory one chunk in eight is looked at, another one with each round, so that a change
// of all of them is always found.
TEST_F(WindowPieces, EachRoundLooksAtAnotherChunkOfStridedMemory) {
  constexpr int rounds = 64;
  bytes_.resize(10 * mib);
  was_ = bytes_;
  for (const bool all : {true, false}) {
    int found = 0;
    for (int round = 0; round < rounds; ++round) {
      bytes_ = was_;
      add_strided(5 * mib / 8);  // five chunks
      open(static_cast<std::uint64_t>(round));
      std::fill(bytes_.begin(), all ? bytes_.end() : bytes_.begin() + mib, std::byte{0xee});
      try {
        take();
      } catch (const Error& error) {
        EXPECT_EQ(error.tensor(), "strided");
        ++found;
      }
      window_.close();
      window_.clear();
    }
    if (all) {
      EXPECT_EQ(found, rounds);
    } else {
      EXPECT_GT(found, 1);
      EXPECT_LT(found, rounds / 2);
    }
  }
}

// Of a large state each round looks at other parts of the same chunks.
TEST_F(WindowPieces, EachRoundLooksAtOtherParts) {
  constexpr int rounds = 64;
  constexpr std::size_t changed = 64 << 10;  // at the beginning of each chunk
  int found = 0;
  for (int round = 0; round < rounds; ++round) {
    bytes_ = was_;
    add(0, bytes_.size());
    open(static_cast<std::uint64_t>(round));
    for (std::size_t at = 0; at < bytes_.size(); at += mib) {
      const auto end = std::min(at + changed, bytes_.size());
      for (auto i = at; i < end; ++i) bytes_[i] ^= std::byte{1};
    }
    // The last chunk has 777 bytes, of which all are changed: it tells nothing here.
    std::copy(was_.end() - 777, was_.end(), bytes_.end() - 777);
    try {
      take();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_EQ(error.tensor(), "at 0");
      ++found;
    }
    window_.close();
    window_.clear();
  }
  EXPECT_GT(found, 3);
  EXPECT_LT(found, rounds / 2);
}

TEST_F(WindowPieces, TheTimeThatReleaseTakesIsThatOfOneSave) {
  add(0, bytes_.size());
  open();
  EXPECT_EQ(window_.held_seconds(), 0);
  window_.release();
  EXPECT_GT(window_.held_seconds(), 0);
  window_.close();
  window_.clear();
  EXPECT_EQ(window_.held_seconds(), 0);
}

TEST_F(WindowPieces, TheMemoryIsNotKeptAfterTheWrite) {
  add_strided(9000);
  open();
  EXPECT_GT(strided_.use_count(), 1);
  take();
  window_.close();
  EXPECT_EQ(strided_.use_count(), 1);
  window_.clear();
}

// What was written to protected memory during one save does not fail the next one.
TEST_F(WindowPieces, ABrokenPromiseIsOfOneSave) {
  for (int i = 0; i < 2; ++i) {
    add(0, bytes_.size());
    open(0, true);
    if (i == 0) {
      bytes_[mib] ^= std::byte{1};
      bytes_[mib] ^= std::byte{1};  // found though its bytes are as they were
      EXPECT_THROW(take(), Error);
    } else {
      EXPECT_TRUE(take() == was_);
    }
    window_.close();
    window_.clear();
  }
}

// A window that was closed early, as by a failed save, serves the next one from its beginning.
TEST_F(WindowPieces, ItServesAgainAfterAnEarlyEnd) {
  for (int i = 0; i < 4; ++i) {
    bytes_ = was_;
    add(0, 2 * mib);
    add(2 * mib, 500);
    open();
    if (i == 1) take();
    if (i == 2) window_.release();
    if (i == 3) {
      EXPECT_THROW(take([] { throw std::bad_alloc(); }), std::bad_alloc);
    }
    const int before = rooms_;
    window_.close();
    window_.release();  // does nothing
    EXPECT_EQ(rooms_, before);
    window_.clear();
  }
  add(7, mib + 3);
  open();
  window_.release();
  spoil();
  EXPECT_TRUE(take() == expected(7, mib + 3));
}

}  // namespace
}  // namespace cairn
