#include "bucket/http.hpp"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::bucket {
namespace of_curl {  // named, since Impl has members of these types

// A body of an error, or of a list; what is longer is not kept.
constexpr std::size_t most_body = std::size_t{64} << 20;

struct FreeEasy {
  void operator()(CURL* handle) const { ::curl_easy_cleanup(handle); }
};
struct FreeMulti {
  void operator()(CURLM* handle) const { ::curl_multi_cleanup(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, FreeEasy>;
using List = std::unique_ptr<curl_slist, FreeList>;

static void check(CURLMcode code) {
  if (code != CURLM_OK) {
    throw Error(Code::io, "libcurl cannot transfer anything", ::curl_multi_strerror(code));
  }
}

template <class T>
void set(CURL* handle, CURLoption option, T value) {
  const auto code = ::curl_easy_setopt(handle, option, value);
  if (code != CURLE_OK) {
    throw Error(Code::io, "libcurl lacks what Cairn needs", ::curl_easy_strerror(code));
  }
}

// curl_global_init is not thread-safe in all builds, and is needed once.
static void begin_curl() {
  static const CURLcode code = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) throw Error(Code::io, "libcurl does not start", ::curl_easy_strerror(code));
}

// Of the connections. Which of them a transfer has, curl does not tell while it runs.
class Sockets {
 public:
  // A server may send a body only when its head is acknowledged, as Ceph's gateway does, and Linux
  // waits 40 ms with that.
  void acknowledge() const {
    const int on = 1;
    for (const auto one : all_) ::setsockopt(one, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
  }
  void note_in(CURL* easy) {
    set(easy, CURLOPT_OPENSOCKETFUNCTION, open);
    set(easy, CURLOPT_OPENSOCKETDATA, static_cast<void*>(this));
    set(easy, CURLOPT_CLOSESOCKETFUNCTION, close);
    set(easy, CURLOPT_CLOSESOCKETDATA, static_cast<void*>(this));
  }

 private:
  static curl_socket_t open(void* self, curlsocktype, curl_sockaddr* to) {
    const auto one = ::socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    if (one >= 0) static_cast<Sockets*>(self)->all_.insert(one);
    return one >= 0 ? one : CURL_SOCKET_BAD;
  }
  static int close(void* self, curl_socket_t one) {
    static_cast<Sockets*>(self)->all_.erase(one);
    return ::close(one);
  }

  std::set<curl_socket_t> all_;
};

using Clock = std::chrono::steady_clock;

struct Running {
  Clock::time_point* last_byte = nullptr;
  const Sockets* sockets = nullptr;
  Easy easy;
  List headers;
  Transfer transfer;
  std::size_t sent = 0;
  Answer answer;
  bool has_ended = false;

  void note_bytes() const { *last_byte = Clock::now(); }
  std::size_t receive(std::span<const char> bytes) {
    note_bytes();
    long status = 0;
    ::curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300 && !transfer.into.empty()) {
      const auto at = static_cast<std::size_t>(answer.received);
      if (bytes.size() > transfer.into.size() - at)
        return answer.is_too_long = true, std::size_t{0};
      std::memcpy(transfer.into.data() + at, bytes.data(), bytes.size());
      answer.crc32c = crc32c(std::as_bytes(bytes), answer.crc32c);
    } else {
      if (answer.body.size() + bytes.size() > most_body)
        return answer.is_too_long = true, std::size_t{0};
      answer.body.append(bytes.data(), bytes.size());
    }
    answer.received += std::ssize(bytes);
    return bytes.size();
  }
};

static std::size_t on_body(char* bytes, std::size_t, std::size_t count, void* running) {
  return static_cast<Running*>(running)->receive({bytes, count});
}

static std::size_t on_header(char* bytes, std::size_t, std::size_t count, void* running) {
  std::string_view line(bytes, count);
  auto& answer = static_cast<Running*>(running)->answer;
  static_cast<const Running*>(running)->note_bytes();
  if (line.starts_with("HTTP/")) answer.headers.clear();  // what came before was "100 Continue"
  const auto colon = line.find(':');
  if (colon == line.npos) {
    if (line == "\r\n") static_cast<const Running*>(running)->sockets->acknowledge();
    return count;
  }
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  line.remove_prefix(colon + 1);
  constexpr std::string_view blank = " \t\r\n";
  const auto begin = line.find_first_not_of(blank), end = line.find_last_not_of(blank);
  answer.headers[name] = begin == line.npos ? "" : line.substr(begin, end + 1 - begin);
  return count;
}

static std::size_t on_read(char* to, std::size_t, std::size_t room, void* running) {
  auto& self = *static_cast<Running*>(running);
  self.note_bytes();
  const auto size = std::min(room, self.transfer.body.size() - self.sent);
  if (size > 0) std::memcpy(to, self.transfer.body.data() + self.sent, size);
  self.sent += size;
  return size;
}

// A connection that was kept may turn out to be closed: then the body is sent once more.
static int on_seek(void* running, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Running*>(running)->sent = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

static void append(List& list, const std::string& line) {
  auto* longer = ::curl_slist_append(list.get(), line.c_str());
  if (!longer) throw std::bad_alloc();
  static_cast<void>(list.release());
  list.reset(longer);
}

}  // namespace of_curl
using namespace of_curl;

const std::string& Answer::header(const std::string& name) const {
  static const std::string none;
  const auto found = headers.find(name);
  return found == headers.end() ? none : found->second;
}

struct Http::Impl {
  HttpSettings settings;
  Sockets sockets;  // until all connections have ended
  std::unique_ptr<CURLM, FreeMulti> multi;
  std::map<Id, std::unique_ptr<Running>> running;
  Id next = 0;
  Clock::time_point last_byte = Clock::now();

  explicit Impl(const HttpSettings& given) : settings(given) {
    begin_curl();
    multi.reset(::curl_multi_init());
    if (!multi) throw std::bad_alloc();
  }
  ~Impl() {
    for (auto& [id, one] : running) leave(*one);
  }

  void leave(Running& one) {
    if (!one.has_ended) ::curl_multi_remove_handle(multi.get(), one.easy.get());
  }

  void prepare(Running& one) {
    auto* easy = one.easy.get();
    const auto& request = one.transfer.request;
    const auto query = query_text(request.query);
    set(easy, CURLOPT_URL,
        cat(settings.tls ? "https://" : "http://", request.host,
            percent_encoded(request.path, true), query.empty() ? "" : "?", query)
            .c_str());
    set(easy, CURLOPT_PATH_AS_IS, 1L);  // a key may contain "/../"
    set(easy, CURLOPT_NOSIGNAL, 1L);
    sockets.note_in(easy);
    set(easy, CURLOPT_NOPROGRESS, 1L);
    set(easy, CURLOPT_PROTOCOLS_STR, settings.tls ? "https" : "http");
    set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(easy, CURLOPT_CONNECTTIMEOUT, static_cast<long>(settings.connect_seconds));
    set(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(easy, CURLOPT_LOW_SPEED_TIME,
        static_cast<long>(one.transfer.stalled_seconds > 0 ? one.transfer.stalled_seconds
                                                           : settings.stalled_seconds));
    set(easy, CURLOPT_BUFFERSIZE, 512L << 10);
    set(easy, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    if (!settings.ca_file.empty()) set(easy, CURLOPT_CAINFO, settings.ca_file.c_str());
    set(easy, CURLOPT_WRITEFUNCTION, on_body);
    set(easy, CURLOPT_WRITEDATA, static_cast<void*>(&one));
    set(easy, CURLOPT_HEADERFUNCTION, on_header);
    set(easy, CURLOPT_HEADERDATA, static_cast<void*>(&one));
    if (request.method == "HEAD") {
      set(easy, CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.method == "POST") {
      set(easy, CURLOPT_UPLOAD, 1L);
      set(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(one.transfer.body.size()));
      set(easy, CURLOPT_READFUNCTION, on_read);
      set(easy, CURLOPT_READDATA, static_cast<void*>(&one));
      set(easy, CURLOPT_SEEKFUNCTION, on_seek);
      set(easy, CURLOPT_SEEKDATA, static_cast<void*>(&one));
    }
    set(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    for (const auto& [name, value] : request.headers) {
      if (name != "host") append(one.headers, value.empty() ? name + ';' : cat(name, ": ", value));
    }
    append(one.headers, "Expect:");  // a pause for "100 Continue" costs a second with some servers
    append(one.headers, "Content-Type:");
    set(easy, CURLOPT_HTTPHEADER, one.headers.get());
  }

  // Takes note of what has ended. Returns whether anything has.
  bool collect() {
    bool any = false;
    int left = 0;
    while (const auto* message = ::curl_multi_info_read(multi.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const auto code = message->data.result;
      auto* easy = message->easy_handle;
      const auto found = std::ranges::find_if(
          running, [&](const auto& one) { return one.second->easy.get() == easy; });
      auto& one = *found->second;
      check(::curl_multi_remove_handle(multi.get(), easy));
      one.has_ended = any = true;
      if (code == CURLE_OK) {
        long status = 0;
        ::curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        one.answer.status = static_cast<int>(status);
      } else {
        one.answer.failure = one.answer.is_too_long ? "the answer is longer than it can be"
                                                    : ::curl_easy_strerror(code);
        one.answer.has_no_tls = code == CURLE_SSL_CONNECT_ERROR;
      }
    }
    return any;
  }
};

Http::Http(const HttpSettings& settings) : impl_(std::make_unique<Impl>(settings)) {}
Http::~Http() = default;

Http::Id Http::start(Transfer transfer) {
  auto one = std::make_unique<Running>();
  one->last_byte = &impl_->last_byte;
  one->sockets = &impl_->sockets;
  one->easy.reset(::curl_easy_init());
  if (!one->easy) throw std::bad_alloc();
  one->transfer = std::move(transfer);
  impl_->prepare(*one);
  check(::curl_multi_add_handle(impl_->multi.get(), one->easy.get()));
  impl_->running.emplace(++impl_->next, std::move(one));
  move_on(0);
  return impl_->next;
}

void Http::move_on(double seconds) {
  int running = 0;
  check(::curl_multi_perform(impl_->multi.get(), &running));
  if (impl_->collect() || seconds <= 0) return;  // nothing need be left to wait for
  check(
      ::curl_multi_poll(impl_->multi.get(), nullptr, 0, static_cast<int>(seconds * 1000), nullptr));
  check(::curl_multi_perform(impl_->multi.get(), &running));
  impl_->collect();
}

bool Http::has_ended(Id id) const {
  const auto found = impl_->running.find(id);
  return found == impl_->running.end() || found->second->has_ended;
}

double Http::silent_seconds() const {
  return std::chrono::duration<double>(Clock::now() - impl_->last_byte).count();
}

Answer Http::wait(Id id) {
  const auto found = impl_->running.find(id);
  if (found == impl_->running.end()) {
    throw Error(Code::internal, "a transfer is waited for twice");
  }
  while (!found->second->has_ended) move_on(1);
  auto answer = std::move(found->second->answer);
  impl_->running.erase(found);
  return answer;
}

void Http::cancel(Id id) {
  const auto found = impl_->running.find(id);
  if (found == impl_->running.end()) return;
  impl_->leave(*found->second);
  impl_->running.erase(found);
}

}  // namespace cairn::bucket
