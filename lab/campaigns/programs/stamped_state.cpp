#include "lab/campaigns/programs/stamped_state.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "lab/campaigns/programs/random.hpp"

namespace cairn::campaign {
namespace {

// The value of one element, small enough for a double to hold it exactly.
std::int64_t value_of(std::int64_t stamp, int tensor, std::int64_t element) {
  return stamp * 65536 + (element * 31 + tensor * 7919) % 65521;
}

std::int64_t particles_of(std::int64_t stamp, std::int64_t rank) {
  return (stamp * 7 + rank * 5) % 13;
}

std::string text_of(std::int64_t stamp) {
  return cat("save ", stamp, std::string(static_cast<std::size_t>(stamp % 3), '.'));
}

// The id of row i; ids have gaps.
std::int64_t id_of(std::int64_t row) { return 10 * row + 7; }

std::size_t length_of(std::int64_t stamp) { return static_cast<std::size_t>(stamp * 37 % 300); }

std::vector<std::string> words_of(std::int64_t stamp) {
  return std::vector<std::string>(static_cast<std::size_t>(stamp % 4), text_of(stamp));
}

// Which frozen values a save has: saves 1 and 2 of a job share those of the last one of any other
// job, 4 and 5 share others.
std::int64_t epoch_of(std::int64_t stamp) {
  const auto save = stamp % 100;
  return save < 3 ? 0 : save / 2;
}

// Each of three ranks has a whole block of 64 KiB, wherever its part begins in a file.
constexpr std::int64_t base_elements = 3 * (2 * 65536 / 8);

// Five stamps in a row share the base. Every other base has chunks that no codec makes smaller.
std::int64_t base_value(std::int64_t stamp, std::int64_t element) {
  const auto save = stamp / 5;
  const auto value = value_of(save, 9, element);
  if (save % 2 == 0) return value;
  const auto mixed = Random(static_cast<std::uint64_t>(value)).next();
  return static_cast<std::int64_t>(mixed);
}

template <class Values>
void fill_all(Values& values, std::int64_t stamp, int tensor, std::int64_t first) {
  for (auto& value : values) value = static_cast<double>(value_of(stamp, tensor, first++));
}

template <class Values>
bool is_filled(const Values& values, std::int64_t stamp, int tensor, std::int64_t first) {
  return std::all_of(values.begin(), values.end(), [&](double value) {
    return value == static_cast<double>(value_of(stamp, tensor, first++));
  });
}

}  // namespace

StampedState::Piece StampedState::piece_of(std::int64_t total, std::int64_t rank) const {
  const auto ranks = group_->size();
  const auto small = total / ranks, more = total % ranks;
  return {rank * small + std::min<std::int64_t>(rank, more), small + (rank < more)};
}

StampedState::StampedState(std::shared_ptr<Group> group, const Shape& shape)
    : group_(std::move(group)), shape_(shape) {
  const auto rank = group_->rank();
  rows_ = piece_of(shape.rows, shape.backward ? group_->size() - 1 - rank : rank);
  const auto add = [&](const char* key, std::vector<double>& values, Storage storage) {
    values.resize(static_cast<std::size_t>(rows_.count * shape.columns));
    state_.add(key, stored(storage, slice(values.data(), {shape.rows, shape.columns},
                                          {rows_.first, 0}, {rows_.count, shape.columns})));
  };
  state_.add("stamp", stamp_).add("writers", writers_).add("table", table_);
  add("field", sliced_, shape.sliced ? Storage::sliced : Storage::automatic);
  if (shape.dense) add("dense", dense_, Storage::dense);
  if (shape.frozen) add("model", model_, Storage::sliced);
  if (shape.ragged) state_.add("particles", ragged(particles_));
  if (shape.text) state_.add("text", text_);
  if (shape.by_id) {
    state_.add("by_id", indexed(ids(&ids_, {.ids_key = "ids"}), by_id_, {shape.columns}));
  }
  if (shape.lengths) state_.add("history", resizable(history_)).add("words", resizable(words_));
  if (shape.kept) {
    kept_ = piece_of(base_elements, rank);
    base_.resize(static_cast<std::size_t>(kept_.count));
    state_.add("base", slice(base_.data(), {base_elements}, {kept_.first}, {kept_.count}));
  }
  if (!shape.sparse) return;
  sparse_.resize(static_cast<std::size_t>(rows_.count * shape.columns));
  state_.add("sparse", cairn::sparse(slice(sparse_.data(), {shape.rows + 1, shape.columns},
                                           {rows_.first, 0}, {rows_.count, shape.columns}),
                                     -2.0));
}

// In each save the rows are on other ranks, the last ones first.
void StampedState::fill_by_id(std::int64_t stamp) {
  ids_.clear(), by_id_.clear();
  for (auto row = shape_.rows; row-- > 0;) {
    if ((row + stamp) % group_->size() != group_->rank()) continue;
    ids_.push_back(id_of(row));
    for (std::int64_t i = 0; i < shape_.columns; ++i) {
      by_id_.push_back(static_cast<double>(value_of(stamp, 5, row * shape_.columns + i)));
    }
  }
}

bool StampedState::lengths_are_of(std::int64_t stamp) const {
  return history_.size() == length_of(stamp) && is_filled(history_, stamp, 6, 0) &&
         words_ == words_of(stamp);
}

bool StampedState::is_base_of(std::int64_t stamp) const {
  auto element = kept_.first;
  return std::all_of(base_.begin(), base_.end(),
                     [&](auto value) { return value == base_value(stamp, element++); });
}

void StampedState::fill(std::int64_t stamp) {
  stamp_ = stamp;
  writers_ = group_->size();
  const auto first = rows_.first * shape_.columns;
  fill_all(table_, stamp, 1, 0);
  fill_all(sliced_, stamp, 2, first);
  fill_all(dense_, stamp, 3, first);
  fill_all(model_, epoch_of(stamp), 8, first);
  text_ = text_of(stamp);
  if (shape_.by_id) fill_by_id(stamp);
  history_.resize(length_of(stamp));
  fill_all(history_, stamp, 6, 0);
  words_ = words_of(stamp);
  auto element = kept_.first;
  for (auto& value : base_) value = base_value(stamp, element++);
  fill_all(sparse_, stamp, 7, first);
  particles_.clear();
  std::int64_t row = 0;
  for (int rank = 0; rank < group_->rank(); ++rank) row += particles_of(stamp, rank);
  for (auto left = particles_of(stamp, group_->rank()); left > 0; --left, ++row) {
    particles_.push_back({stamp, row, value_of(stamp, 4, row)});
  }
}

void StampedState::spoil() {
  stamp_ = writers_ = -1;
  std::fill(table_.begin(), table_.end(), -1);
  std::fill(sliced_.begin(), sliced_.end(), -1);
  std::fill(dense_.begin(), dense_.end(), -1);
  std::fill(model_.begin(), model_.end(), -1);
  text_ = "spoilt";
  ids_.clear(), by_id_.assign(1, -1);
  for (auto row = rows_.first; row < rows_.first + rows_.count; ++row) ids_.push_back(id_of(row));
  history_.assign(3, -1);
  words_.assign(1, "spoilt");
  std::fill(sparse_.begin(), sparse_.end(), -1);
  std::fill(base_.begin(), base_.end(), -1);
  particles_.assign(2, {-1, -1, -1});
}

std::string StampedState::problem() const {
  std::string wrong;
  const auto first = rows_.first * shape_.columns;
  if (!is_filled(table_, stamp_, 1, 0)) wrong += " 'table'";
  if (!is_filled(sliced_, stamp_, 2, first)) wrong += " 'field'";
  if (!is_filled(dense_, stamp_, 3, first)) wrong += " 'dense'";
  if (!is_filled(model_, epoch_of(stamp_), 8, first)) wrong += " 'model'";
  if (shape_.text && text_ != text_of(stamp_)) wrong += " 'text'";
  if (shape_.by_id && (by_id_.size() != sliced_.size() || !is_filled(by_id_, stamp_, 5, first))) {
    wrong += " 'by_id'";
  }
  if (shape_.lengths && !lengths_are_of(stamp_)) wrong += " 'history' or 'words'";
  if (!is_filled(sparse_, stamp_, 7, first)) wrong += " 'sparse'";
  if (!is_base_of(stamp_)) wrong += " 'base'";
  if (shape_.ragged) {
    std::int64_t total = 0;
    for (std::int64_t rank = 0; rank < writers_; ++rank) total += particles_of(stamp_, rank);
    const auto mine = piece_of(total, group_->rank());
    bool right = mine.count == static_cast<std::int64_t>(particles_.size());
    auto row = mine.first;
    for (const auto& one : particles_) {
      right = right && one == std::array{stamp_, row, value_of(stamp_, 4, row)};
      ++row;
    }
    if (!right) wrong += " 'particles'";
  }
  std::int64_t ranks = wrong.empty() ? 0 : 1;
  group_->all_reduce({&ranks, 1}, Group::Op::sum);
  if (ranks == 0) return "";
  return cat("not of stamp ", stamp_, " alone, on ", ranks, " ranks:", wrong);
}

}  // namespace cairn::campaign
