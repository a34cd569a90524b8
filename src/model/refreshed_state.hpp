#pragma once
/// A state while a save or restore runs.
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/error.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// The tensors of a state as they were when this object was made. It refreshes the tensors that
/// were given by reference (a vector, a View, a function) and keeps what it finds until the call
/// ends. The state does not change, so several threads may save one state at the same time. All
/// other tensors are the state's own, not copies.
///
/// A State becomes a RefreshedState only by a refresh, and stages take a RefreshedState: so no
/// stage can read a shape or an address that was true when the tensor was added. What a function
/// returned goes when the call ends. Kept Views would double the memory of a program that resizes
/// them.
class RefreshedState {
 public:
  /// Memory for what a refresh finds. RefreshedStates may use it one after the other: then the
  /// second one allocates nothing.
  struct Memory {
    std::vector<LocalTensor> found;
    std::vector<std::size_t> place;  // of each tensor in `found`, plus one; 0: not there
  };

  /// The state must outlive this object, and nothing may be added to the state meanwhile. Not
  /// collective: an error is kept in error() until ranks agree on it; until then some tensors may
  /// be as they were given.
  explicit RefreshedState(const State& state) : state_(&state) { refresh(); }
  RefreshedState(const State& state, Memory& memory) : state_(&state) { refresh(&memory); }
  /// Of a state to be restored. If it has a StateMaker, this makes it from what is stored.
  RefreshedState(State& state, const CheckpointContents& contents);
  /// Of a state that this object owns.
  explicit RefreshedState(State&& own)
      : own_(std::make_unique<const State>(std::move(own))), state_(own_.get()) {
    refresh();
  }

  /// The error of the refresh, if any, with the key of its tensor.
  const std::optional<Error>& error() const { return error_; }

  using Named = std::pair<const std::string&, const LocalTensor&>;
  class Tensors;
  /// Keys and tensors, in the order in which they were added. These tensors have no source.
  Tensors tensors() const;
  const LocalTensor* find(std::string_view key) const;
  /// Whether the tensor was given by reference.
  bool follows(std::string_view key) const;

  const ObjectNotes& objects() const { return state_->objects(); }
  const Descriptions& descriptions() const { return state_->descriptions(); }
  Storage storage() const { return state_->storage(); }
  const std::shared_ptr<detail::StateMaker>& maker() const { return state_->maker(); }

  /// Adds descriptions to a state without checks: they have been checked before, or were read from
  /// a checkpoint of another version, which may have allowed more.
  static void describe(State&, const Descriptions&);
  /// Sets LocalTensor::captured of tensors with slices: to false for those whose slices all begin
  /// at one of these addresses.
  static void capture_all_but(State&, const std::set<const std::byte*>& begins);

 private:
  void refresh(Memory* lent = nullptr);
  static void give_back(Memory*);

  // Null: the state is the caller's.
  std::unique_ptr<const State> own_;
  const State* state_;
  std::unique_ptr<Memory, void (*)(Memory*)> memory_{nullptr, nullptr};  // null: none is followed
  std::optional<Error> error_;
};

class RefreshedState::Tensors {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Named;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Named;

    Iterator(const RefreshedState* state, std::size_t at) : state_(state), at_(at) {}
    Named operator*() const { return Tensors(*state_)[at_]; }
    Iterator& operator++() { return ++at_, *this; }
    Iterator operator++(int) { return {state_, at_++}; }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const RefreshedState* state_;
    std::size_t at_;
  };

  explicit Tensors(const RefreshedState& state) : state_(&state) {}
  std::size_t size() const { return state_->state_->tensors().size(); }
  Named operator[](std::size_t i) const {
    const auto& [key, given] = state_->state_->tensors()[i];
    const auto* const memory = state_->memory_.get();
    const auto place = memory ? memory->place[i] : 0;
    return {key, place == 0 ? given : memory->found[place - 1]};
  }
  Iterator begin() const { return {state_, 0}; }
  Iterator end() const { return {state_, size()}; }

 private:
  const RefreshedState* state_;
};

inline RefreshedState::Tensors RefreshedState::tensors() const { return Tensors(*this); }

}  // namespace cairn
