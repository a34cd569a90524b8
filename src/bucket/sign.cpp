#include "bucket/sign.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <chrono>
#include <ctime>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::bucket {
namespace {

using Digest = std::array<unsigned char, 32>;

std::string hex(std::span<const unsigned char> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const auto byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

Digest hmac(std::span<const unsigned char> key, std::string_view text) {
  Digest digest = {};
  unsigned size = 0;
  if (!::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
              reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
              &size)) {
    throw Error(Code::internal, "libcrypto computes no HMAC");
  }
  return digest;
}

std::span<const unsigned char> bytes_of(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

}  // namespace

std::string sha256_hex(std::span<const std::byte> bytes) {
  Digest digest = {};
  unsigned size = 0;
  if (::EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, ::EVP_sha256(), nullptr) !=
      1) {
    throw Error(Code::internal, "libcrypto computes no SHA-256");
  }
  return hex(digest);
}

std::string percent_encoded(std::string_view text, bool is_path) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (is_path && c == '/');
    if (plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += digits[byte >> 4];
      encoded += digits[byte & 15];
    }
  }
  return encoded;
}

std::string query_text(const std::map<std::string, std::string>& query) {
  // In the order of the encoded names, which may differ from that of the names.
  std::map<std::string, std::string> encoded;
  for (const auto& [name, value] : query) encoded[percent_encoded(name)] = percent_encoded(value);
  std::string text;
  for (const auto& [name, value] : encoded) {
    text += cat(text.empty() ? "" : "&", name, '=', value);
  }
  return text;
}

std::string signing_time(double seconds_since_1970) {
  const auto seconds = static_cast<std::time_t>(seconds_since_1970);
  std::tm parts = {};
  std::array<char, 32> text = {};
  if (!::gmtime_r(&seconds, &parts) ||
      std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts) == 0) {
    throw Error(Code::invalid_argument, cat(seconds_since_1970, " s is no time"));
  }
  return text.data();
}

void sign(Request& request, const Credentials& credentials, std::string_view region,
          std::string_view time, std::string_view payload, std::string_view service) {
  auto& headers = request.headers;
  headers["host"] = request.host;
  headers["x-amz-date"] = time;
  headers["x-amz-content-sha256"] = payload;
  if (!credentials.token.empty()) headers["x-amz-security-token"] = credentials.token;
  headers.erase("authorization");

  std::string names, lines;
  for (const auto& [name, value] : headers) {
    names += cat(names.empty() ? "" : ";", name);
    lines += cat(name, ':', value, '\n');
  }
  const auto canonical = cat(request.method, '\n', percent_encoded(request.path, true), '\n',
                             query_text(request.query), '\n', lines, '\n', names, '\n', payload);
  const auto day = time.substr(0, 8);
  const auto scope = cat(day, '/', region, '/', service, "/aws4_request");
  const auto to_sign = cat("AWS4-HMAC-SHA256\n", time, '\n', scope, '\n',
                           sha256_hex(std::as_bytes(std::span(canonical))));
  auto key = hmac(bytes_of(cat("AWS4", credentials.secret)), day);
  for (const auto part : {region, service, std::string_view("aws4_request")}) key = hmac(key, part);
  headers["authorization"] = cat("AWS4-HMAC-SHA256 Credential=", credentials.key_id, '/', scope,
                                 ",SignedHeaders=", names, ",Signature=", hex(hmac(key, to_sign)));
}

}  // namespace cairn::bucket
