#include "model/seen_state.hpp"

#include <exception>

#include "base/error_of.hpp"
#include "base/text.hpp"
#include "model/check_tensor.hpp"
#include "model/follow.hpp"

namespace cairn {
namespace {

// `tensor`: as it was given. Afterwards as it is now.
void look_at(const std::string& key, LocalTensor& tensor) try {
  const auto source = std::move(tensor.source);
  source->look(tensor);
} catch (const Error& error) {
  throw named(error, key);
} catch (const std::exception& error) {
  throw Error(Code::invalid_argument,
              cat("what tensor '", key, "' is now cannot be told: ", error.what()),
              "the function that gives it threw this")
      .of_tensor(key);
}

}  // namespace

SeenState::SeenState(State& state, const CheckpointContents& contents) : state_(&state) {
  try {
    state.make(contents);
  } catch (...) {
    error_ = error_in_flight();
    return;
  }
  look();
}

void SeenState::look() try {
  const auto& followed = state_->followed_;
  if (followed.empty()) return;
  const auto& tensors = state_->tensors_;
  found_.reserve(followed.size());
  place_.resize(tensors.size());
  for (const auto i : followed) {
    const auto& [key, given] = tensors[i];
    auto& now = found_.emplace_back(given);
    look_at(key, now);
    check_tensor(key, now);
    place_[i] = found_.size();
  }
} catch (...) {
  error_ = error_in_flight();
}

const LocalTensor* SeenState::find(std::string_view key) const {
  const auto at = state_->position_.find(key);
  return at == state_->position_.end() ? nullptr : &tensors()[at->second].second;
}

bool SeenState::follows(std::string_view key) const {
  const auto* given = state_->find(key);
  return given && given->source;
}

}  // namespace cairn
