#pragma once
/// A server of an object store that answers what a test tells it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/text.hpp"
#include "bucket/bucket.hpp"

namespace cairn::bucket {

struct Reply {
  int status = 200;
  std::string headers = {};  // each with its line's end
  std::string body = {};
  bool is_lost = false;               // the connection ends instead
  std::size_t missing = 0;            // so many bytes of the body are not sent
  std::function<void()> before = {};  // is called first
};

// Takes one request after another, and answers with the next reply.
class Server {
 public:
  Server() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, any, size) != 0 || ::listen(socket_, 8) != 0 ||
        ::getsockname(socket_, any, &size) != 0) {
      throw std::runtime_error("the test's server does not start");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  void will(Reply reply) {
    const std::lock_guard guard(mutex_);
    replies_.push_back(std::move(reply));
  }
  void drop() {
    const std::lock_guard guard(mutex_);
    replies_.clear();
  }
  // Heads of the requests so far.
  std::vector<std::string> requests() const {
    const std::lock_guard guard(mutex_);
    return requests_;
  }
  Bucket bucket(Patience patience = {.tries = 4, .first_pause = 0.001}, bool tls = false,
                std::shared_ptr<Complaints> complaints = std::make_shared<Complaints>()) const {
    Surroundings none;
    none.variable = [](const char* name) -> std::optional<std::string> {
      const std::string_view asked(name);
      if (asked == "AWS_ACCESS_KEY_ID") return "key";
      if (asked == "AWS_SECRET_ACCESS_KEY") return "secret";
      return std::nullopt;
    };
    none.file = [](const std::string&) { return std::nullopt; };
    return {{.host = cat("127.0.0.1:", port_),
             .bucket = "b",
             .region = "r",
             .tls = tls,
             .in_path = true},
            std::make_shared<CredentialSource>(std::move(none)),
            {.stalled_seconds = 5},
            patience,
            std::move(complaints)};
  }

 private:
  void serve() {
    for (;;) {
      const int peer = ::accept(socket_, nullptr, nullptr);
      if (peer < 0) return;
      while (answer(peer)) continue;
      ::close(peer);
    }
  }
  bool answer(int peer) {
    std::string text;
    const auto more = [&] {
      char bytes[4096];
      const auto size = ::recv(peer, bytes, sizeof bytes, 0);
      if (size > 0) text.append(bytes, static_cast<std::size_t>(size));
      return size > 0;
    };
    std::size_t end;
    while ((end = text.find("\r\n\r\n")) == text.npos) {
      if (!more()) return false;
      if (text.front() != '\x16') continue;
      constexpr std::string_view words = "HTTP/1.1 400 Bad Request\r\n\r\n";  // to TLS's hello
      ::send(peer, words.data(), words.size(), MSG_NOSIGNAL);
      return false;
    }
    std::size_t body = 0;
    if (const auto at = text.find("Content-Length: "); at < end) {
      std::from_chars(text.data() + at + 16, text.data() + end, body);
    }
    while (text.size() < end + 4 + body) {
      if (!more()) return false;
    }
    Reply reply;
    {
      const std::lock_guard guard(mutex_);
      requests_.push_back(text.substr(0, end));
      if (replies_.empty()) return false;
      reply = std::move(replies_.front());
      replies_.pop_front();
    }
    if (reply.before) reply.before();
    if (reply.is_lost) return false;
    const bool is_head = text.starts_with("HEAD");
    auto told = cat("HTTP/1.1 ", reply.status, " Words\r\n", reply.headers);
    if (!is_head || reply.headers.find("Content-Length") == std::string::npos) {
      told += cat("Content-Length: ", reply.body.size(), "\r\n");
    }
    told += "\r\n";
    if (!is_head) told += reply.body.substr(0, reply.body.size() - reply.missing);
    const auto sent = ::send(peer, told.data(), told.size(), MSG_NOSIGNAL);
    return reply.missing == 0 && sent == static_cast<ssize_t>(told.size());
  }

  int socket_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::deque<Reply> replies_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

inline Reply error(int status, const std::string& code, const std::string& more = "") {
  return {.status = status,
          .headers = "Content-Type: application/xml\r\n",
          .body = cat("<?xml version=\"1.0\"?><Error><Code>", code,
                      "</Code><Message>words</Message>", more, "</Error>")};
}

inline std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string header_of(const std::string& request, const std::string& name) {
  const auto at = request.find(cat("\r\n", name, ": "));
  if (at == request.npos) return "";
  const auto begin = at + name.size() + 4;
  return request.substr(begin, request.find("\r\n", begin) - begin);
}

}  // namespace cairn::bucket
