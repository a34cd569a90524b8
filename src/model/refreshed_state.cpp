#include "model/refreshed_state.hpp"

#include <algorithm>
#include <exception>

#include "base/error_of.hpp"
#include "base/text.hpp"
#include "model/check_tensor.hpp"
#include "model/follow.hpp"

namespace cairn {
namespace {

// Refreshes a tensor. Before, it is as the application gave it; afterwards, it has no source.
void look_at(const std::string& key, LocalTensor& tensor) try {
  const auto source = std::move(tensor.source);
  source->refresh(tensor);
} catch (const Error& error) {
  throw named(error, key);
} catch (const std::exception& error) {
  throw Error(Code::invalid_argument,
              cat("what tensor '", key, "' is now cannot be told: ", error.what()),
              "the function that gives it threw this")
      .of_tensor(key);
}

}  // namespace

RefreshedState::RefreshedState(State& state, const CheckpointContents& contents) : state_(&state) {
  try {
    state.make(contents);
  } catch (...) {
    error_ = current_error();
    return;
  }
  refresh();
}

// Lets go of what the tensors hold, but keeps the memory of their lists of slices.
void RefreshedState::give_back(Memory* memory) {
  for (auto& one : memory->found) {
    auto slices = std::move(one.slices);
    slices.clear();
    one = {};
    one.slices = std::move(slices);
  }
}

// Only tensors that follow something are copied and refreshed.
void RefreshedState::refresh(Memory* lent) try {
  const auto& followed = state_->followed_;
  if (followed.empty()) return;
  memory_ = lent ? decltype(memory_)(lent, give_back)
                 : decltype(memory_)(new Memory, [](Memory* own) { delete own; });
  const auto& tensors = state_->tensors_;
  auto& [found, place] = *memory_;
  place.assign(tensors.size(), 0);
  found.resize(followed.size());
  std::size_t next = 0;
  for (const auto i : followed) {
    const auto& [key, given] = tensors[i];
    auto& now = found[next++];
    now = given;
    look_at(key, now);
    check_tensor(key, now);
    place[i] = next;
  }
} catch (...) {
  error_ = current_error();
}

const LocalTensor* RefreshedState::find(std::string_view key) const {
  const auto at = state_->position_.find(key);
  return at == state_->position_.end() ? nullptr : &tensors()[at->second].second;
}

bool RefreshedState::follows(std::string_view key) const {
  const auto* given = state_->find(key);
  return given && given->source;
}

void RefreshedState::describe(State& state, const Descriptions& said) {
  auto& [attributes, by_key] = state.descriptions_;
  for (const auto& [name, value] : said.attributes) attributes.insert_or_assign(name, value);
  for (const auto& [key, one] : said.by_key) by_key.insert_or_assign(key, one);
}

void RefreshedState::capture_all_but(State& state, const std::set<const std::byte*>& begins) {
  for (auto& [key, tensor] : state.tensors_) {
    tensor.captured = !std::all_of(
        tensor.slices.begin(), tensor.slices.end(),
        [&](const auto& slice) { return begins.count(slice.memory->footprint().first) > 0; });
  }
}

}  // namespace cairn
