// A process group of torch.distributed (gloo) as a Group.
//
// This file calls only functions that are written in C++ (torch.frombuffer and methods of
// ProcessGroup and Work). They run no bytecode, so no signal handler of Python runs in between, and
// a KeyboardInterrupt waits until the library's call has returned.
#include <algorithm>
#include <deque>

#include "base/text.hpp"
#include "bindings.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"

namespace cairn::python {
namespace {

// Messages of exchange(), and those whose length is sent before them, must not match each other.
enum Tag { of_exchange = 1, of_length = 2, of_message = 3 };

// Python objects. Make and destroy them while holding the interpreter's lock.
struct Torch {
  py::object group, frombuffer, uint8, int64, sum, min, max, broadcast_options;
};

class TorchGroup final : public Group {
 public:
  TorchGroup(py::object group, std::vector<int> nodes)
      : torch_(new Torch), nodes_(std::move(nodes)) {
    const auto torch = py::module_::import("torch");
    const auto c10d = py::module_::import("torch._C._distributed_c10d");
    const auto options = [&](const char* op) {
      py::object made = c10d.attr("AllreduceOptions")();
      made.attr("reduceOp") = c10d.attr("ReduceOp").attr(op);
      return made;
    };
    rank_ = py::cast<int>(group.attr("rank")());
    size_ = py::cast<int>(group.attr("size")());
    *torch_ = {std::move(group),    torch.attr("frombuffer"),
               torch.attr("uint8"), torch.attr("int64"),
               options("SUM"),      options("MIN"),
               options("MAX"),      c10d.attr("BroadcastOptions")};
  }
  ~TorchGroup() override {
    if (Py_IsInitialized() == 0) {
      (void)torch_.release();
      return;
    }
    const py::gil_scoped_acquire lock;
    torch_.reset();
  }
  TorchGroup(const TorchGroup&) = delete;
  TorchGroup& operator=(const TorchGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node() const override { return nodes_.at(static_cast<std::size_t>(rank_)); }
  std::span<const int> nodes() const override { return nodes_; }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    check_exchange(sends, receives);
    std::deque<std::span<const std::byte>> own;
    for (const auto& one : sends) {
      if (one.to == rank_) own.push_back(one.bytes);
    }
    run("exchange", [&] {
      std::vector<py::object> works;
      for (const auto& one : receives) {
        if (one.from == rank_) {
          std::copy(own.front().begin(), own.front().end(), one.bytes.begin());
          own.pop_front();
        } else if (!one.bytes.empty()) {
          works.push_back(received(one.bytes.data(), one.bytes.size(), one.from, of_exchange));
        }
      }
      for (const auto& one : sends) {
        if (one.to == rank_ || one.bytes.empty()) continue;
        works.push_back(sent(one.bytes.data(), one.bytes.size(), one.to, of_exchange));
      }
      for (const auto& work : works) work.attr("wait")();
    });
  }

  void send(int to, std::string_view bytes) override {
    check_rank(to);
    if (to == rank_) {
      to_itself_.emplace_back(bytes);
      return;
    }
    std::uint64_t length = bytes.size();
    run("send", [&] {
      sent(&length, sizeof(length), to, of_length).attr("wait")();
      if (length > 0) sent(bytes.data(), bytes.size(), to, of_message).attr("wait")();
    });
  }
  std::string receive(int from) override {
    check_rank(from);
    std::string bytes;
    if (from == rank_) {
      if (to_itself_.empty()) {
        throw Error(Code::communication,
                    cat("rank ", rank_, " waits for a message from itself that it has not sent"))
            .on_rank(rank_);
      }
      bytes = std::move(to_itself_.front());
      to_itself_.pop_front();
      return bytes;
    }
    run("receive", [&] {
      std::uint64_t length = 0;
      received(&length, sizeof(length), from, of_length).attr("wait")();
      bytes.resize(length);
      if (length > 0) received(bytes.data(), length, from, of_message).attr("wait")();
    });
    return bytes;
  }

  void barrier() override {
    run("barrier", [&] { torch_->group.attr("barrier")().attr("wait")(); });
  }
  void broadcast(std::string& bytes, int root) override {
    check_rank(root);
    run("broadcast", [&] {
      py::object options = torch_->broadcast_options();
      options.attr("rootRank") = root;
      const auto give = [&](void* data, std::size_t size) {
        const auto tensor = bytes_of(data, size);
        torch_->group.attr("broadcast")(listed(tensor), options).attr("wait")();
      };
      std::uint64_t length = bytes.size();
      give(&length, sizeof(length));
      bytes.resize(length);
      if (length > 0) give(bytes.data(), length);
    });
  }
  void all_reduce(std::span<std::int64_t> values, Op op) override {
    if (values.empty()) return;
    run("all_reduce", [&] {
      const auto memory = py::memoryview::from_memory(
          static_cast<void*>(values.data()), static_cast<py::ssize_t>(values.size_bytes()));
      const auto tensor = torch_->frombuffer(memory, py::arg("dtype") = torch_->int64);
      torch_->group.attr("allreduce")(listed(tensor), options_of(op)).attr("wait")();
    });
  }
  std::unique_ptr<Reduction> reduction(std::size_t count, Op op) override {
    return std::make_unique<TorchReduction>(*this, count, op);
  }

  void abort(std::string_view message) override {
    tell_fatal(cat("rank ", rank_, ": ", message));
    std::abort();  // torchrun, or another launcher, ends the other ranks
  }

 private:
  // Python owns its memory, since a reduction that was given up goes on in it.
  class TorchReduction final : public Reduction {
   public:
    TorchReduction(TorchGroup& group, std::size_t count, Op op)
        : group_(group), count_(count), op_(op), pending_(new Pending) {}
    ~TorchReduction() override {
      if (Py_IsInitialized() == 0) {
        (void)pending_.release();
        return;
      }
      const py::gil_scoped_acquire lock;
      pending_.reset();
    }
    void begin(std::span<const std::int64_t> values) override {
      check_reduction(values.size(), count_, under_way(), false, group_.rank_);
      under_way_ = true;
      if (count_ == 0) return;
      group_.run("all_reduce", [&] {
        pending_->memory =
            py::bytearray(reinterpret_cast<const char*>(values.data()), values.size_bytes());
        const auto tensor =
            group_.torch_->frombuffer(pending_->memory, py::arg("dtype") = group_.torch_->int64);
        pending_->work =
            group_.torch_->group.attr("allreduce")(listed(tensor), group_.options_of(op_));
      });
    }
    void end(std::span<std::int64_t> values) override {
      check_reduction(values.size(), count_, under_way(), true, group_.rank_);
      under_way_ = false;
      if (count_ == 0) return;
      group_.run("all_reduce", [&] {
        pending_->work.attr("wait")();
        const auto* result = PyByteArray_AS_STRING(pending_->memory.ptr());
        std::copy_n(result, values.size_bytes(), reinterpret_cast<char*>(values.data()));
        *pending_ = {};
      });
    }
    bool under_way() const override { return under_way_; }

   private:
    struct Pending {
      py::object memory, work;
    };
    TorchGroup& group_;
    std::size_t count_;
    Op op_;
    bool under_way_ = false;
    std::unique_ptr<Pending> pending_;
  };

  template <class F>
  void run(const char* name, F&& function) {
    const py::gil_scoped_acquire lock;
    try {
      function();
    } catch (const py::error_already_set& failure) {
      throw Error(Code::communication, cat("torch.distributed: ", name, " failed"), failure.what())
          .on_rank(rank_);
    }
  }
  static py::list listed(const py::object& tensor) {
    py::list one;
    one.append(tensor);
    return one;
  }
  py::object bytes_of(const void* data, std::size_t size) const {
    // The memory is marked writable even if it is only sent, because torch warns of memory that is
    // not.
    const auto memory =
        py::memoryview::from_memory(const_cast<void*>(data), static_cast<py::ssize_t>(size));
    return torch_->frombuffer(memory, py::arg("dtype") = torch_->uint8);
  }
  py::object sent(const void* data, std::size_t size, int to, Tag tag) const {
    return torch_->group.attr("send")(listed(bytes_of(data, size)), to, static_cast<int>(tag));
  }
  py::object received(void* data, std::size_t size, int from, Tag tag) const {
    return torch_->group.attr("recv")(listed(bytes_of(data, size)), from, static_cast<int>(tag));
  }
  const py::object& options_of(Op op) const {
    return op == Op::sum ? torch_->sum : op == Op::min ? torch_->min : torch_->max;
  }

  std::unique_ptr<Torch> torch_;
  std::vector<int> nodes_;
  int rank_ = 0, size_ = 0;
  std::deque<std::string> to_itself_;
};

}  // namespace

std::shared_ptr<Group> torch_group(const py::object& process_group, std::vector<int> nodes) {
  return std::make_shared<TorchGroup>(process_group, std::move(nodes));
}

}  // namespace cairn::python
