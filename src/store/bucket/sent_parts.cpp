#include "store/bucket/sent_parts.hpp"

#include <utility>

namespace cairn {

void SentParts::send(const bucket::Upload& upload, int number, std::span<const std::byte> stays,
                     std::vector<std::byte>& bytes, std::uint32_t crc32c, std::size_t most) {
  finish(most - 1);
  auto& one = sent_.emplace_back();
  one.number = number;
  if (stays.empty()) one.bytes = std::exchange(bytes, std::exchange(spare_, {}));
  try {
    one.id = client_->start_part(upload, number, stays.empty() ? one.bytes : stays, crc32c);
  } catch (...) {
    sent_.pop_back();
    throw;
  }
}

void SentParts::finish(std::size_t most) {
  while (sent_.size() > most) {
    auto one = std::move(sent_.front());
    sent_.pop_front();
    tags_[one.number] = client_->finish_part(one.id);
    if (one.bytes.capacity() == 0) continue;
    spare_ = std::move(one.bytes);
    spare_.clear();
  }
}

void SentParts::cancel() {
  for (const auto& one : sent_) client_->cancel(one.id);
  sent_.clear();
}

}  // namespace cairn
