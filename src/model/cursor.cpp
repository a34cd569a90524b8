// A cursor over the samples of epochs (cairn/cursor.hpp). The plan, which says how epochs are dealt
// to ranks, is in cursor_plan.hpp and range_deal.hpp.
#include "cairn/cursor.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"
#include "cairn/state.hpp"
#include "model/cursor_plan.hpp"
#include "model/permutation.hpp"

namespace cairn {
namespace detail {

using cursor::EpochPlan;
using cursor::EpochPosition;
using cursor::Piece;

// What a Cursor is, apart from its handle: a state refers to it as well, and a restore changes it.
class CursorData {
 public:
  CursorData(EpochPlan plan, int rank) : rank_(rank) { begin(std::move(plan), {}); }

  // Draws samples of the present epoch, and notes them as taken until they are done.
  Cursor::Batch take(std::int64_t most) {
    const auto count = std::min(most, left());
    Cursor::Batch batch{{}, drawn_.epoch, drawn_.count};
    if (count == 0) return batch;
    batch.samples.reserve(static_cast<std::size_t>(count));
    for (auto i = drawn_.count; i < drawn_.count + count; ++i)
      batch.samples.push_back(sample_at(i));
    if (taken_.empty() || taken_.back().place.epoch != drawn_.epoch) taken_.push_back({drawn_, 0});
    taken_.back().count += count;
    drawn_.count += count;
    return batch;
  }

  void done(const Cursor::Batch& batch) {
    const auto count = std::ssize(batch.samples);
    if (count == 0) return;
    const auto next = taken_.empty() ? drawn_ : taken_.front().place;
    const bool is_next = next == EpochPosition{batch.epoch, batch.first} && !taken_.empty() &&
                         count <= taken_.front().count;
    if (!is_next) {
      throw Error(Code::invalid_argument,
                  cat("a batch is done that begins at ", batch.first, " of this rank's samples of ",
                      "epoch ", batch.epoch, ", and the next one begins at ", next.count,
                      " of epoch ", next.epoch),
                  "batches are done once, in the order in which they were taken, and what was "
                  "taken before a restore is not");
    }
    done(count);
  }

  // Takes so many samples off the front of what was taken, over epochs if need be.
  void done(std::int64_t count) {
    if (count < 0 || count > waiting()) {
      throw Error(Code::invalid_argument, cat(count, " samples are done, and ", waiting(),
                                              " were taken that are not done yet"));
    }
    while (count > 0) {
      auto& [place, waits] = taken_.front();
      const auto now = std::min(count, waits);
      place.count += now;
      waits -= now;
      count -= now;
      if (waits == 0) taken_.pop_front();
    }
    note();
  }

  // Samples that were taken and are not done will be drawn again.
  void rewind() {
    const auto place = done_place();
    taken_.clear();
    move_to(place);
  }

  void next_epoch() {
    if (drawn_.epoch + 1 >= cursor::most_epochs) {
      throw Error(Code::unsupported, cat("a cursor is in epoch ", drawn_.epoch),
                  "there are no more of them");
    }
    move_to({drawn_.epoch + 1, 0});
  }

  std::int64_t epoch() const { return drawn_.epoch; }
  std::int64_t share() const { return all() - begun_in(drawn_.epoch, rank_, all()); }
  std::int64_t left() const { return all() - drawn_.count; }
  // Samples that were taken and are not done.
  std::int64_t waiting() const {
    std::int64_t count = 0;
    for (const auto& one : taken_) count += one.count;
    return count;
  }
  std::int64_t most_left() const { return most_left_; }
  const EpochPlan& plan() const { return plan_; }
  int rank() const { return rank_; }

  // -- what is saved and restored -----------------------------------------------------------------

  const std::vector<std::uint8_t>& saved_plan() const { return bytes_; }
  const std::int64_t& saved_place() const { return number_; }
  std::vector<std::uint8_t> stored_plan;  // a restore fills this and the next
  std::vector<std::int64_t> stored_places;

  // Called when both tensors have been filled: goes on with the stored plan or, for another number
  // of ranks, deals out what is left.
  void restored() {
    if (stored_plan.empty() && stored_places.empty()) return;  // restored under another key
    auto stored = cursor::decoded(std::exchange(stored_plan, {}));
    if (stored.samples != plan_.samples) {
      throw Error(Code::invalid_argument,
                  cat("a cursor over ", plan_.samples, " samples is restored from one over ",
                      stored.samples),
                  "samples that were used would be others now",
                  "Give the cursor as many samples as it had.");
    }
    std::vector<EpochPosition> places;
    for (const auto number : std::exchange(stored_places, {})) {
      places.push_back(cursor::place_of(number, stored.samples));
    }
    cursor::require_places(stored, places);
    const int ranks = plan_.ranks;
    auto next = cursor::next_plan(stored, places, ranks);
    // The new plan deals out only what is left, so all ranks begin at its front.
    if (stored.ranks != ranks) places.assign(static_cast<std::size_t>(ranks), {next.first, 0});
    begin(std::move(next), std::move(places));
  }

 private:
  // Samples of one epoch: the place of the first one that is not done, and how many were taken from
  // there on.
  struct Taken {
    EpochPosition place;
    std::int64_t count;
  };

  // `places` has those of all ranks; it is empty if all ranks begin.
  void begin(EpochPlan plan, std::vector<EpochPosition> places) {
    plan_ = std::move(plan);
    begun_ = std::move(places);
    bytes_ = cursor::encoded(plan_);
    taken_.clear();
    order_.reset();
    move_to(begun_.empty() ? EpochPosition{plan_.first, 0}
                           : begun_[static_cast<std::size_t>(rank_)]);
  }

  // How much of its share of an epoch a rank had taken when this plan began.
  std::int64_t begun_in(std::int64_t epoch, int rank, std::int64_t share) const {
    if (begun_.empty()) return 0;
    const auto& place = begun_[static_cast<std::size_t>(rank)];
    return place.epoch > epoch ? share : place.epoch == epoch ? place.count : 0;
  }
  // The most samples that any rank has left of the epoch when the plan begins. All ranks compute
  // the same, so they can make as many batches without a message.
  std::int64_t find_most_left(std::int64_t positions) const {
    std::int64_t most = 0;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      const auto share = cursor::share_of(positions, rank, plan_.ranks);
      most = std::max(most, share - begun_in(drawn_.epoch, rank, share));
    }
    return most;
  }
  // This rank's positions of the epoch, with those that it had taken when this plan began.
  std::int64_t all() const { return ends_.empty() ? 0 : ends_.back(); }

  // Goes to a place. The pieces and the order of an epoch are computed only when it is entered.
  void move_to(EpochPosition place) {
    const bool is_new = !order_ || place.epoch != drawn_.epoch;
    drawn_ = place;
    if (is_new) {
      const auto ranges = plan_.ranges_of(place.epoch);
      pieces_ = std::move(cursor::deal(ranges, plan_.ranks)[static_cast<std::size_t>(rank_)]);
      ends_.clear();
      for (const auto& one : pieces_) ends_.push_back(all() + one.range.count());
      most_left_ = find_most_left(cursor::count_of(ranges));
      order_.emplace(plan_.samples, plan_.seed, place.epoch);
    }
    note();
  }

  // The sample that is number `count` of this rank's in the epoch.
  std::int64_t sample_at(std::int64_t count) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), count);
    const auto& [range, backwards] = pieces_[static_cast<std::size_t>(end - ends_.begin())];
    const auto rest = *end - count;  // of the piece
    const auto position = backwards ? range.begin + rest - 1 : range.end - rest;
    return plan_.shuffle ? (*order_)(position) : position;
  }

  // The place that a checkpoint stores: samples that were taken but are not done will come again.
  EpochPosition done_place() const { return taken_.empty() ? drawn_ : taken_.front().place; }
  void note() { number_ = cursor::number_of(done_place(), plan_.samples); }

  int rank_;
  EpochPlan plan_;
  // Where each rank was when this plan began; empty: all were at its beginning.
  std::vector<EpochPosition> begun_;
  std::vector<std::uint8_t> bytes_;  // the plan, encoded
  std::int64_t number_ = 0;          // the place up to which samples are done
  // The place of the next sample that is drawn.
  EpochPosition drawn_;
  std::deque<Taken> taken_;  // taken and not done, one for each epoch
  // These belong to the epoch that is drawn from.
  std::vector<Piece> pieces_;
  std::vector<std::int64_t> ends_;  // of each piece, counted in this rank's samples
  std::int64_t most_left_ = 0;
  std::optional<Permutation> order_;
};

}  // namespace detail

namespace {

using detail::CursorData;

// What a restore fills: the plan, which is the same on all ranks; or, with `places`, the places of
// all ranks, of which each rank saves its own.
class CursorRows final : public Rows {
 public:
  CursorRows(std::shared_ptr<CursorData> data, bool places)
      : data_(std::move(data)), places_(places) {}
  std::int64_t count() const override {
    return places_ ? std::ssize(data_->stored_places) : std::ssize(data_->stored_plan);
  }
  bool resizable() const override { return true; }
  void resize(std::int64_t rows) override {
    const auto count = static_cast<std::size_t>(rows);
    if (places_) {
      data_->stored_places.assign(count, 0);
    } else {
      data_->stored_plan.assign(count, 0);
    }
  }
  std::shared_ptr<SliceMemory> memory() const override {
    auto& plan = data_->stored_plan;
    auto& places = data_->stored_places;
    if (!places_)
      return host_memory(DType::uint8, plan.data(), plan.data(), {std::ssize(plan)}, {});
    return host_memory(DType::int64, places.data(), places.data(), {std::ssize(places)}, {});
  }
  Footprint footprint() const override {
    return places_ ? footprint_of(data_->stored_places) : footprint_of(data_->stored_plan);
  }
  // Called for both tensors when the whole state has been filled. One call is enough.
  void filled() override {
    if (places_) data_->restored();
  }

 private:
  std::shared_ptr<CursorData> data_;
  bool places_;
};

// What a save reads: the encoded plan, or this rank's place.
class CursorSource final : public TensorSource {
 public:
  CursorSource(std::shared_ptr<const CursorData> data, bool places)
      : data_(std::move(data)), places_(places) {}
  void refresh(LocalTensor& tensor) const override {
    if (!places_) {
      const auto& bytes = data_->saved_plan();
      tensor.shape = {std::ssize(bytes)};
      const auto memory = host_memory(DType::uint8, bytes.data(), nullptr, tensor.shape, {});
      tensor.slices = {{Box::whole(tensor.shape), memory}};
    } else {
      tensor.shape = {data_->plan().ranks};
      const auto memory = host_memory(DType::int64, &data_->saved_place(), nullptr, {1}, {});
      tensor.slices = {{Box{{data_->rank()}, {1}}, memory}};
    }
  }
  void let_go(LocalTensor& tensor) const override { tensor.slices.clear(); }

 private:
  std::shared_ptr<const CursorData> data_;
  bool places_;
};

// The two forms of a cursor's tensors: what a save reads, and what a restore fills and resizes.
LocalTensor tensor_of(const std::shared_ptr<CursorData>& data, bool places) {
  auto tensor = nothing(places ? DType::int64 : DType::uint8, {0});
  tensor.source = std::make_shared<CursorSource>(data, places);
  tensor.source->refresh(tensor);
  tensor.resizes = std::make_shared<CursorRows>(data, places);
  return tensor;
}

cursor::EpochPlan plan_of(std::int64_t samples, const CursorOptions& options) {
  if (samples < 1 || samples > cursor::most_samples) {
    throw Error(Code::invalid_argument, cat("a cursor has ", samples, " samples"),
                "there must be one at least, and at most 2^40");
  }
  if (options.rank < 0 || options.rank >= options.ranks) {
    throw Error(Code::invalid_argument,
                cat("a cursor is of rank ", options.rank, " of ", options.ranks),
                "ranks go from 0 to their number less one");
  }
  return {samples, options.seed, options.shuffle, options.ranks, 0, {}};
}

}  // namespace

Cursor::Cursor(std::int64_t samples, const CursorOptions& options)
    : data_(std::make_shared<CursorData>(plan_of(samples, options), options.rank)) {}
Cursor::~Cursor() = default;
Cursor::Cursor(Cursor&&) noexcept = default;
Cursor& Cursor::operator=(Cursor&&) noexcept = default;

Cursor::Batch Cursor::take(std::int64_t samples) {
  if (samples >= 0) return data_->take(samples);
  throw Error(Code::invalid_argument, cat("a batch of ", samples, " samples is taken"));
}
void Cursor::done(const Batch& batch) { data_->done(batch); }
void Cursor::done(std::int64_t samples) { data_->done(samples); }
void Cursor::rewind() { data_->rewind(); }
void Cursor::next_epoch() { data_->next_epoch(); }

std::int64_t Cursor::epoch() const { return data_->epoch(); }
std::int64_t Cursor::left() const { return data_->left(); }
std::int64_t Cursor::share() const { return data_->share(); }
std::int64_t Cursor::waiting() const { return data_->waiting(); }
std::int64_t Cursor::batches(std::int64_t size) const {
  if (size < 1) throw Error(Code::invalid_argument, cat("batches have ", size, " samples"));
  const auto left = data_->most_left();
  return left / size + (left % size > 0 ? 1 : 0);
}
std::int64_t Cursor::samples() const { return data_->plan().samples; }
std::uint64_t Cursor::seed() const { return data_->plan().seed; }
bool Cursor::shuffle() const { return data_->plan().shuffle; }
int Cursor::rank() const { return data_->rank(); }
int Cursor::ranks() const { return data_->plan().ranks; }

// A cursor is two tensors below the key: "deal", the plan, and "done", the places of all ranks.
State& State::add(const std::string& key, Cursor& cursor) {
  State part;
  part.add("deal", tensor_of(cursor.data_, false)).add("done", tensor_of(cursor.data_, true));
  return add(key, part);
}

}  // namespace cairn
