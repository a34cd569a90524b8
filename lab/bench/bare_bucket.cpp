#include "bare_bucket.hpp"

#include <curl/curl.h>

#include "base/checksum.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::bench {
namespace {

[[noreturn]] void fail(const std::string& why) {
  throw std::runtime_error("a request fails: " + why);
}

void check(CURLMcode code) {
  if (code != CURLM_OK) fail(::curl_multi_strerror(code));
}

template <class T>
void set(CURL* easy, CURLoption option, T value) {
  const auto code = ::curl_easy_setopt(easy, option, value);
  if (code != CURLE_OK) fail(::curl_easy_strerror(code));
}

struct Slot {
  CURL* easy = nullptr;
  std::span<const std::byte> from = {};  // is sent
  std::span<std::byte> into = {};        // is received
  std::string tag = {}, text = {};       // of the answer; the text if there is no `into`
  std::size_t number = 0;                // of the part
  curl_slist* headers = nullptr;         // its own
};

// As a header has it: four bytes, the highest first, in base 64.
std::string checksum_text(std::span<const std::byte> bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto crc = std::uint64_t{crc32c(bytes)} << 4;  // 36 bits are six digits
  std::string text;
  for (int shift = 30; shift >= 0; shift -= 6) text += digits[crc >> shift & 63];
  return text + "==";
}

std::size_t on_read(char* to, std::size_t, std::size_t room, void* given) {
  auto& slot = *static_cast<Slot*>(given);
  const auto size = std::min(room, slot.from.size());
  if (size > 0) std::memcpy(to, slot.from.data(), size);
  slot.from = slot.from.subspan(size);
  return size;
}

std::size_t on_body(char* bytes, std::size_t, std::size_t size, void* given) {
  auto& slot = *static_cast<Slot*>(given);
  if (slot.into.empty()) {
    slot.text.append(bytes, size);
  } else {
    if (size > slot.into.size()) return 0;
    std::memcpy(slot.into.data(), bytes, size);
    slot.into = slot.into.subspan(size);
  }
  return size;
}

std::size_t on_header(char* bytes, std::size_t, std::size_t size, void* given) {
  const std::string line(bytes, size);
  if (line.starts_with("ETag: ")) {
    static_cast<Slot*>(given)->tag = line.substr(6, line.find('\r') - 6);
  }
  return size;
}

}  // namespace

struct BareBucket::Impl {
  const std::string url;
  const std::size_t part_bytes;
  CURLM* multi = nullptr;
  std::vector<Slot> slots = {};
  curl_slist *headers = nullptr, *checked = nullptr;

  void prepare(Slot& slot, const std::string& path, const char* method) const {
    ::curl_easy_reset(slot.easy);
    slot.tag.clear(), slot.text.clear();
    set(slot.easy, CURLOPT_URL, (url + '/' + path).c_str());
    set(slot.easy, CURLOPT_CUSTOMREQUEST, method);
    set(slot.easy, CURLOPT_FAILONERROR, 1L);
    set(slot.easy, CURLOPT_HTTPHEADER, headers);
    set(slot.easy, CURLOPT_BUFFERSIZE, 512L << 10);
    set(slot.easy, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    set(slot.easy, CURLOPT_WRITEFUNCTION, on_body);
    set(slot.easy, CURLOPT_WRITEDATA, static_cast<void*>(&slot));
    set(slot.easy, CURLOPT_HEADERFUNCTION, on_header);
    set(slot.easy, CURLOPT_HEADERDATA, static_cast<void*>(&slot));
    set(slot.easy, CURLOPT_PRIVATE, static_cast<void*>(&slot));
  }
  static void send(Slot& slot, std::span<const std::byte> bytes) {
    slot.from = bytes;
    set(slot.easy, CURLOPT_UPLOAD, 1L);
    set(slot.easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes.size()));
    set(slot.easy, CURLOPT_READFUNCTION, on_read);
    set(slot.easy, CURLOPT_READDATA, static_cast<void*>(&slot));
  }

  // `begin` prepares a slot for a part, `end` takes what came.
  void all_parts(std::size_t count, const std::function<void(Slot&)>& begin,
                 const std::function<void(Slot&)>& end) {
    std::size_t begun = 0, done = 0;
    const auto start = [&](Slot& slot) {
      slot.number = begun++;
      begin(slot);
      check(::curl_multi_add_handle(multi, slot.easy));
    };
    for (auto& slot : slots) {
      if (begun < count) start(slot);
    }
    while (done < count) {
      int running = 0, left = 0;
      check(::curl_multi_perform(multi, &running));
      bool any = false;
      while (const auto* message = ::curl_multi_info_read(multi, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        if (message->data.result != CURLE_OK) fail(::curl_easy_strerror(message->data.result));
        char* slot = nullptr;
        ::curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &slot);
        auto& one = *reinterpret_cast<Slot*>(slot);
        check(::curl_multi_remove_handle(multi, one.easy));
        end(one);
        any = true;
        ++done;
        if (begun < count) start(one);
      }
      if (!any) check(::curl_multi_poll(multi, nullptr, 0, 1000, nullptr));
    }
  }
  std::string post(const std::string& path, const std::string& text, bool checks = false) {
    std::string answer;
    all_parts(
        1,
        [&](Slot& slot) {
          prepare(slot, path, "POST");
          if (checks) set(slot.easy, CURLOPT_HTTPHEADER, checked);
          send(slot, std::as_bytes(std::span(text)));
        },
        [&](Slot& slot) { answer = slot.text; });
    return answer;
  }
  std::size_t parts_of(std::size_t bytes) const { return (bytes + part_bytes - 1) / part_bytes; }
};

BareBucket::BareBucket(std::string url, std::size_t part_bytes, std::size_t connections)
    : impl_(new Impl{std::move(url), part_bytes}) {
  ::curl_global_init(CURL_GLOBAL_DEFAULT);
  impl_->multi = ::curl_multi_init();
  impl_->headers = ::curl_slist_append(nullptr, "Expect:");
  impl_->checked = ::curl_slist_append(nullptr, "Expect:");
  impl_->checked = ::curl_slist_append(impl_->checked, "x-amz-checksum-algorithm: CRC32C");
  if (!impl_->multi || !impl_->headers) throw std::bad_alloc();
  impl_->slots.resize(connections);
  for (auto& slot : impl_->slots) {
    slot.easy = ::curl_easy_init();
    if (!slot.easy) throw std::bad_alloc();
  }
}

BareBucket::~BareBucket() {
  for (auto& slot : impl_->slots) {
    ::curl_multi_remove_handle(impl_->multi, slot.easy);
    ::curl_easy_cleanup(slot.easy);
  }
  ::curl_multi_cleanup(impl_->multi);
  ::curl_slist_free_all(impl_->headers);
  ::curl_slist_free_all(impl_->checked);
}

void BareBucket::put(const std::string& key, std::span<const std::byte> bytes, bool checks) {
  auto& self = *impl_;
  const auto begun = self.post(key + "?uploads=", "", checks);
  const std::string before = "<UploadId>";
  const auto at = begun.find(before);
  if (at == begun.npos) fail("no upload is begun");
  const auto id =
      begun.substr(at + before.size(), begun.find('<', at + before.size()) - at - before.size());
  std::vector<std::string> tags(self.parts_of(bytes.size())), checksums(tags.size());
  self.all_parts(
      tags.size(),
      [&](Slot& slot) {
        self.prepare(slot,
                     key + "?partNumber=" + std::to_string(slot.number + 1) + "&uploadId=" + id,
                     "PUT");
        const auto begin = slot.number * self.part_bytes;
        const auto part = bytes.subspan(begin, std::min(self.part_bytes, bytes.size() - begin));
        if (checks) {
          slot.headers = ::curl_slist_append(nullptr, "Expect:");
          checksums[slot.number] = checksum_text(part);
          slot.headers = ::curl_slist_append(
              slot.headers, ("x-amz-checksum-crc32c: " + checksums[slot.number]).c_str());
          set(slot.easy, CURLOPT_HTTPHEADER, slot.headers);
        }
        self.send(slot, part);
      },
      [&](Slot& slot) {
        ::curl_slist_free_all(std::exchange(slot.headers, nullptr));
        tags[slot.number] = slot.tag;
      });
  std::string text = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < tags.size(); ++i) {
    text +=
        "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + tags[i] + "</ETag>";
    if (checks) text += "<ChecksumCRC32C>" + checksums[i] + "</ChecksumCRC32C>";
    text += "</Part>";
  }
  self.post(key + "?uploadId=" + id, text + "</CompleteMultipartUpload>");
}

void BareBucket::get(const std::string& key, std::span<std::byte> bytes) {
  auto& self = *impl_;
  self.all_parts(
      self.parts_of(bytes.size()),
      [&](Slot& slot) {
        self.prepare(slot, key, "GET");
        const auto begin = slot.number * self.part_bytes;
        slot.into = bytes.subspan(begin, std::min(self.part_bytes, bytes.size() - begin));
        const auto range =
            std::to_string(begin) + '-' + std::to_string(begin + slot.into.size() - 1);
        set(slot.easy, CURLOPT_RANGE, range.c_str());
      },
      [&](Slot& slot) {
        if (!slot.into.empty()) fail("an object is shorter");
      });
}

}  // namespace cairn::bench
