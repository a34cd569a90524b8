#include "cairn/c/group.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include "c/callbacks.hpp"
#include "c/handles.hpp"
#include "c/sized.hpp"
#include "cairn/log.hpp"

namespace cairn::c {
namespace {

// A Group made of a table of callbacks. A rank's messages to itself are not given to the callbacks.
// If the receiver does not know the length of a message, the length is sent first.
class CallsGroup final : public Group {
 public:
  explicit CallsGroup(const cairn_group_calls& calls) : calls_(calls) {}
  ~CallsGroup() override {
    if (is_taken_ && calls_.release) calls_.release(calls_.context);
  }
  // Called when the function that got the table has succeeded. If it fails, the program keeps what
  // it gave, and `release` is not called.
  void taken() noexcept { is_taken_ = true; }
  CallsGroup(const CallsGroup&) = delete;
  CallsGroup& operator=(const CallsGroup&) = delete;

  int rank() const override { return calls_.rank; }
  int size() const override { return calls_.size; }
  int node() const override { return calls_.node; }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    check_exchange(sends, receives);
    std::vector<cairn_send> out;
    std::vector<cairn_receive> in;
    std::deque<std::span<const std::byte>> own;
    for (const auto& one : sends) {
      if (one.to == rank()) {
        own.push_back(one.bytes);
      } else {
        out.push_back({one.to, one.bytes.data(), one.bytes.size()});
      }
    }
    for (const auto& one : receives) {
      if (one.from != rank()) {
        in.push_back({one.from, one.bytes.data(), one.bytes.size()});
        continue;
      }
      const auto bytes = own.front();
      own.pop_front();
      if (!bytes.empty()) std::memmove(one.bytes.data(), bytes.data(), bytes.size());
    }
    if (out.empty() && in.empty()) return;
    run("exchange", [&] {
      return calls_.exchange(calls_.context, out.size(), out.data(), in.size(), in.data());
    });
  }

  void send(int to, std::string_view bytes) override {
    check_rank(to);
    if (to == rank()) {
      to_itself_.emplace_back(bytes);
      return;
    }
    const std::uint64_t size = bytes.size();
    run("send", [&] { return calls_.send(calls_.context, to, &size, sizeof(size)); });
    if (size == 0) return;
    run("send", [&] { return calls_.send(calls_.context, to, bytes.data(), bytes.size()); });
  }
  std::string receive(int from) override {
    check_rank(from);
    std::string bytes;
    if (from == rank()) {
      if (to_itself_.empty()) {
        throw Error(Code::communication,
                    cat("rank ", rank(), " waits for a message from itself that it has not sent"))
            .on_rank(rank());
      }
      bytes = std::move(to_itself_.front());
      to_itself_.pop_front();
      return bytes;
    }
    std::uint64_t size = 0;
    run("receive", [&] { return calls_.receive(calls_.context, from, &size, sizeof(size)); });
    bytes.resize(size);
    if (size == 0) return bytes;
    run("receive", [&] { return calls_.receive(calls_.context, from, bytes.data(), size); });
    return bytes;
  }

  void barrier() override {
    run("barrier", [&] { return calls_.barrier(calls_.context); });
  }
  void broadcast(std::string& bytes, int root) override {
    check_rank(root);
    std::uint64_t size = bytes.size();
    run("broadcast", [&] { return calls_.broadcast(calls_.context, &size, sizeof(size), root); });
    bytes.resize(size);
    if (size == 0) return;
    run("broadcast", [&] { return calls_.broadcast(calls_.context, bytes.data(), size, root); });
  }
  void all_reduce(std::span<std::int64_t> values, Op op) override {
    if (values.empty()) return;
    const int number = op == Op::min ? CAIRN_MIN : op == Op::max ? CAIRN_MAX : CAIRN_SUM;
    run("all_reduce",
        [&] { return calls_.all_reduce(calls_.context, values.data(), values.size(), number); });
  }

  void abort(std::string_view message) override {
    const auto text = cat("rank ", rank(), ": ", message);
    tell_fatal(text);
    if (calls_.abort) calls_.abort(calls_.context, text.c_str());
    std::abort();
  }

 private:
  template <class F>
  void run(const char* name, F&& function) {
    try {
      run_callback(name, std::forward<F>(function), Code::communication);
    } catch (Error& error) {
      throw error.on_rank(rank());
    }
  }

  cairn_group_calls calls_;
  bool is_taken_ = false;
  std::deque<std::string> to_itself_;
};

void check_calls(const cairn_group_calls& calls) {
  if (calls.size < 1 || calls.rank < 0 || calls.rank >= calls.size || calls.node < 0) {
    throw Error(Code::invalid_argument,
                cat("there is no rank ", calls.rank, " of ", calls.size, " on node ", calls.node));
  }
  if (!calls.exchange || !calls.send || !calls.receive || !calls.barrier || !calls.broadcast ||
      !calls.all_reduce) {
    throw Error(Code::invalid_argument, "cairn_group_calls lacks a function",
                "only abort and release may be NULL");
  }
}

}  // namespace
}  // namespace cairn::c

using namespace cairn;

int cairn_group_serial(cairn_group** group) {
  return c::call([&] { c::make(group, serial_group()); });
}

int cairn_group_from_calls(const cairn_group_calls* calls, cairn_group** group) {
  return c::call([&] {
    constexpr auto first = offsetof(cairn_group_calls, release) + sizeof(calls->release);
    const auto known = c::sized(c::given(calls, "the table of calls"), first, "cairn_group_calls");
    c::check_calls(known);
    const auto made = std::make_shared<c::CallsGroup>(known);
    c::make(group, made);
    made->taken();
  });
}

void cairn_group_free(cairn_group* group) { delete group; }
int cairn_group_rank(const cairn_group* group) { return group ? group->group->rank() : -1; }
int cairn_group_size(const cairn_group* group) { return group ? group->group->size() : 0; }

int cairn_agree(cairn_group* group, int code, const char* problem) {
  return c::call([&] {
    run_and_agree(c::given(group, "the group").group, [&] {
      if (code == CAIRN_OK) return;
      c::before_callback();
      cairn_set_error(code, problem, "", "");
      c::check_callback(code, "");
    });
  });
}
