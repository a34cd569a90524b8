#pragma once
#include <memory>
#include <string>
#include <utility>

#include "cairn/group.hpp"

namespace cairn::test {

/// A group that forwards to another one: a base for classes that override a part.
class GroupAround : public Group {
 public:
  explicit GroupAround(std::shared_ptr<Group> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int node() const override { return inner_->node(); }
  std::span<const int> nodes() const override { return inner_->nodes(); }
  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    inner_->exchange(sends, receives);
  }
  std::unique_ptr<Exchange> begin_exchange(std::span<const Send> sends,
                                           std::span<const Receive> receives) override {
    return inner_->begin_exchange(sends, receives);
  }
  void send(int to, std::string_view bytes) override { inner_->send(to, bytes); }
  std::string receive(int from) override { return inner_->receive(from); }
  void barrier() override { inner_->barrier(); }
  void broadcast(std::string& bytes, int root) override { inner_->broadcast(bytes, root); }
  void all_reduce(std::span<std::int64_t> values, Op op) override {
    inner_->all_reduce(values, op);
  }
  std::unique_ptr<Reduction> reduction(std::size_t count, Op op) override {
    return inner_->reduction(count, op);
  }
  SharedFiles* shared_files() override { return inner_->shared_files(); }
  DatasetFiles* dataset_files() override { return inner_->dataset_files(); }
  void abort(std::string_view message) override { inner_->abort(message); }

 private:
  std::shared_ptr<Group> inner_;
};

}  // namespace cairn::test
