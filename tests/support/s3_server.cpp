#include "support/s3_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "base/text.hpp"
#include "support/s3_objects.hpp"

namespace cairn::test {

constexpr std::size_t most_head = std::size_t{64} << 10;

struct S3Server::Impl {
  int socket = -1, port = 0;
  std::shared_ptr<Blocks> blocks;
  std::thread accepting = {};

  struct Peer {
    int socket;
    bool over;
    std::thread thread;
  };
  std::mutex peers_mutex = {};
  std::list<Peer> peers = {};  // those that are over stay until the next one comes
  bool ends = false;

  S3Objects objects = {};

  void accept_all() {
    for (;;) {
      const int peer = ::accept(socket, nullptr, nullptr);
      if (peer < 0) return;
      const int on = 1;
      ::setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const std::lock_guard guard(peers_mutex);
      if (ends) {
        ::close(peer);
        return;
      }
      peers.remove_if([](Peer& one) {
        if (one.over) close(one);
        return one.over;
      });
      auto& one = peers.emplace_back(Peer{peer, false, {}});
      one.thread = std::thread([this, &one] {
        try {
          serve(one.socket);
        } catch (const std::exception&) {  // what is no request ends it
        }
        ::shutdown(one.socket, SHUT_RDWR);
        const std::lock_guard over(peers_mutex);
        one.over = true;
      });
    }
  }

  static void close(Peer& one) {
    one.thread.join();
    ::close(one.socket);
  }

  void serve(int peer) {
    std::string text;
    std::array<char, 16 << 10> some = {};
    for (;;) {
      std::size_t end;
      while ((end = text.find("\r\n\r\n")) == text.npos) {
        const auto size = ::recv(peer, some.data(), some.size(), 0);
        if (size <= 0 || text.size() > most_head) return;
        text.append(some.data(), static_cast<std::size_t>(size));
      }
      auto request = parse_head(std::string_view(text).substr(0, end));
      text.erase(0, end + 4);
      if (request.header("expect") == "100-continue")
        send_all(peer, "HTTP/1.1 100 Continue\r\n\r\n");
      const auto bytes = body_bytes(request);
      request.body = std::make_shared<Body>(blocks, bytes);
      std::size_t at = 0;
      while (at < bytes) {
        auto to = request.body->from(at);
        if (!text.empty()) {
          const auto size = text.copy(to.data(), to.size());
          text.erase(0, size);
          at += size;
          continue;
        }
        const auto size = ::recv(peer, to.data(), to.size(), 0);
        if (size <= 0) return;  // nothing of a body counts that does not come whole
        at += static_cast<std::size_t>(size);
      }
      if (!answer(peer, request.method == "HEAD", objects.reply_to(request))) return;
    }
  }

  static bool send_all(int peer, std::string_view text) {
    while (!text.empty()) {
      const auto size = ::send(peer, text.data(), text.size(), MSG_NOSIGNAL);
      if (size <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
  }

  static bool answer(int peer, bool is_head, const S3Objects::Reply& reply) {
    const auto bytes = reply.object ? reply.end - reply.begin : reply.body.size();
    auto head = cat("HTTP/1.1 ", reply.status, " -\r\nContent-Length: ", bytes, "\r\n",
                    reply.headers, "\r\n");
    if (!reply.object || is_head) return send_all(peer, is_head ? head : head + reply.body);
    if (!send_all(peer, head)) return false;
    std::size_t begin = 0;
    for (const auto& part : reply.object->parts) {
      const auto end = begin + part->size();
      for (auto at = std::max(begin, reply.begin); at < std::min(end, reply.end);) {
        auto some = part->from(at - begin);
        some = some.first(std::min(some.size(), reply.end - at));
        if (!send_all(peer, {some.data(), some.size()})) return false;
        at += some.size();
      }
      begin = end;
    }
    return true;
  }
};

S3Server::S3Server(const Settings& settings) : impl_(std::make_unique<Impl>()) {
  auto& self = *impl_;
  self.blocks = std::make_shared<Blocks>(settings.reserve_bytes);
  self.socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(self.socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(settings.port));
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(self.socket, any, size) != 0 || ::listen(self.socket, 64) != 0 ||
      ::getsockname(self.socket, any, &size) != 0) {
    ::close(self.socket);
    throw std::runtime_error("the server of S3 does not start");
  }
  self.port = ntohs(address.sin_port);
  self.accepting = std::thread([&self] { self.accept_all(); });
}

S3Server::~S3Server() {
  auto& self = *impl_;
  {
    const std::lock_guard guard(self.peers_mutex);
    self.ends = true;
  }
  ::shutdown(self.socket, SHUT_RDWR);
  self.accepting.join();
  ::close(self.socket);
  for (auto& one : self.peers) {
    ::shutdown(one.socket, SHUT_RDWR);
    Impl::close(one);
  }
}

int S3Server::port() const { return impl_->port; }

}  // namespace cairn::test
