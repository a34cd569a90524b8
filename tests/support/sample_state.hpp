#pragma once
/// States whose right values are a function of key and global index, so that any rank can make and
/// check any part of them.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cairn/state.hpp"

namespace cairn::test {

struct Sample {
  std::string key;
  DType dtype{};
  Dims shape;
};

/// The right values of a sample; `version` makes states differ from each other.
class Elements {
 public:
  Elements(const Sample&, std::uint64_t version);
  void bytes(std::int64_t linear_index, std::byte* out) const;  ///< of one element

 private:
  std::uint64_t seed_;
  std::size_t size_;
  std::byte valid_;
};

/// The bytes of one element, for tests that need only a few.
void element_bytes(const Sample&, std::int64_t linear_index, std::uint64_t version, std::byte* out);

/// n or fewer disjoint boxes that cover the shape and, with three or more dimensions or pieces,
/// form no grid. A shape without elements gives one empty box.
std::vector<Box> guillotine(const Dims& shape, int n, std::mt19937& random);

/// For each rank the boxes it holds. Pieces are dealt at random: some ranks have several, others
/// none; with replicas some pieces go to several ranks.
std::vector<std::vector<Box>> deal(const std::vector<Box>& pieces, int ranks, bool replicas,
                                   std::mt19937& random);

/// One rank's memory for parts of samples, with halos and odd strides around some of them.
class SampleState {
 public:
  explicit SampleState(std::uint64_t version) : version_(version) {}
  SampleState(const SampleState&) = delete;
  SampleState& operator=(const SampleState&) = delete;

  /// style 0: contiguous; 1: with halos of one around each dimension; 2: column-major. `mark` may
  /// change the tensor before the state gets it.
  using Mark = std::function<LocalTensor(LocalTensor)>;
  void add(const Sample&, const std::vector<Box>& boxes, int style, const Mark& mark = {});
  void add_string(const std::string& key, std::vector<std::string> values);
  void fill();    ///< sets the right values; halos are poisoned
  void poison();  ///< makes all bytes wrong
  /// Describes the first wrong element, or one that was written outside of a slice; "" if there is
  /// none.
  std::string check(std::uint64_t version) const;
  State& state() { return state_; }

  struct Part {
    Sample sample;
    Box box;
    Dims strides;
    std::int64_t first = 0;  ///< the box's origin, in elements of the memory
    std::vector<std::byte> memory;
  };
  /// The slices of state(), for language interfaces that make their own state of them.
  std::deque<Part>& parts() { return parts_; }

 private:
  template <class Visit>
  static void each_element(const Part&, const Visit&);

  std::uint64_t version_;
  std::deque<Part> parts_;
  std::deque<std::vector<std::string>> strings_;
  State state_;
};

}  // namespace cairn::test
