// A group of one rank. Collectives have nothing to do; messages to the rank itself are kept.
#include <cstdlib>
#include <cstring>
#include <deque>

#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "cairn/log.hpp"

namespace cairn {
namespace {

class SerialGroup final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int node() const override { return 0; }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    check_exchange(sends, receives);
    // check_exchange() has made sure that each send has a receive of the same length.
    for (std::size_t i = 0; i < sends.size(); ++i) {
      const auto from = sends[i].bytes;
      if (!from.empty()) std::memmove(receives[i].bytes.data(), from.data(), from.size());
    }
  }

  void send(int to, std::string_view bytes) override {
    check_rank(to);
    sent_.emplace_back(bytes);
  }
  std::string receive(int from) override {
    check_rank(from);
    if (sent_.empty()) {
      throw Error(Code::communication,
                  "rank 0 waits for a message from itself that it has not sent")
          .on_rank(0);
    }
    std::string bytes = std::move(sent_.front());
    sent_.pop_front();
    return bytes;
  }

  void barrier() override {}
  void broadcast(std::string&, int root) override { check_rank(root); }
  void all_reduce(std::span<std::int64_t>, Op) override {}

  void abort(std::string_view message) override {
    tell_fatal(message);
    std::abort();
  }

 private:
  // What this rank has sent to itself and not received yet.
  std::deque<std::string> sent_;
};

}  // namespace

std::shared_ptr<Group> serial_group() { return std::make_shared<SerialGroup>(); }

}  // namespace cairn
