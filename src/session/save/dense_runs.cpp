// What a rank does with the runs of dense tensors that are complete in its memory.
#include "session/save/dense_runs.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/codec.hpp"
#include "session/save/window.hpp"

namespace cairn {
DenseMemory dense_memory(const DensePlan& plan, bool keeps_all) {
  DenseMemory most;
  for (const auto& round : plan.exchange.rounds) {
    std::int64_t hand = 0;
    for (auto c = round.first; c < round.end; ++c) hand += plan.exchange.chunks[c].bytes;
    most.hand = keeps_all ? most.hand + hand : std::max(most.hand, hand);
  }
  most.pass = room_to_pass(plan.exchange, true);
  return most;
}

// Tries a few bytes from the middle of a large chunk: noise costs hardly any time then.
bool EncodedChunks::may_shrink(std::span<const std::byte> chunk, std::size_t item) {
  constexpr std::size_t sample = 4096;
  if (chunk.size() < 16 * sample) return true;
  encoded_.clear();
  plan_.encoding->encode(chunk.subspan(chunk.size() / 2 / item * item, sample), item, encoded_);
  return encoded_.size() < sample;
}

// Readers expect chunks of one size, so the last ones are filled up with zeros. Those are always
// encoded: as they are, they would not be shorter.
void EncodedChunks::write(const plan::Chunk& run, std::span<const std::byte> bytes, io::File& file,
                          Piece& stored) {
  const auto begin = std::chrono::steady_clock::now();
  const auto whole = static_cast<std::size_t>(plan_.chunk_bytes(run));
  const bool is_whole = bytes.size() == whole;
  const auto item = dtype_size(plan_.tensor_of(run).dtype);
  auto out = bytes;
  if (!is_whole || (encodes_ && may_shrink(bytes, item))) {
    if (!is_whole) {
      whole_.assign(bytes.begin(), bytes.end());
      whole_.resize(whole);
      out = whole_;
    }
    encoded_.clear();
    plan_.encoding->encode(out, item, encoded_);
    if (!is_whole || encoded_.size() < whole) {
      out = encoded_;
      stored.codec = plan_.encoding->codec;
      stored.raw_crc32c = std::exchange(stored.crc32c, crc32c(out));
      stored.raw_bytes = static_cast<std::int64_t>(whole);
      stored.stored_bytes = std::ssize(out);
    }
  }
  stored.offset = plan_.range.begin + bytes_;
  bytes_ += stored.stored_bytes;
  raw_bytes_ += std::ssize(bytes);
  if (bytes_ > plan_.range.bytes) {
    throw Error(Code::internal, cat("encoded chunks take more than ", plan_.range.bytes, " bytes"));
  }
  file.write_at(stored.offset, out);
  time_ += std::chrono::steady_clock::now() - begin;
}

void EncodedChunks::close(io::File& file) {
  const auto begin = std::chrono::steady_clock::now();
  file.sync();
  file.close();
  time_ += std::chrono::steady_clock::now() - begin;
  if (!plan_.choice) return;
  plan_.choice->took(encodes_, std::chrono::duration<double>(time_).count(), raw_bytes_);
}

RunWrite::RunWrite(const DensePlan& plan, int number, int first_file, io::File* file,
                   NotFiniteKeys* not_finite, EncodedChunks* encoded)
    : plan_(plan),
      run_(plan.run(number)),
      file_(file),
      not_finite_(not_finite),
      encoded_(encoded),
      in_chunks_(plan.in_chunks(run_)) {
  const auto& tensor = plan.tensor_of(run_);
  stored_.box = run_.box;
  stored_.file = first_file + tensor.file;
  stored_.offset = at_ = in_chunks_ ? 0 : plan.offset_of(run_);
  stored_.stored_bytes = stored_.raw_bytes = run_.bytes;
  if (not_finite) look_ = FiniteCheck(tensor.dtype);
}

void RunWrite::add(std::span<const std::byte> bytes) {
  // Piece by piece, so that a piece is still in the cache when it is written after its checksum.
  for (auto rest = bytes; !rest.empty();) {
    const auto piece = rest.first(std::min<std::size_t>(cached_bytes, rest.size()));
    stored_.crc32c = crc32c(piece, stored_.crc32c);
    look_.add(piece);
    if (file_ && !in_chunks_) file_->write_at(at_, piece);
    at_ += static_cast<std::int64_t>(piece.size());
    rest = rest.subspan(piece.size());
  }
  if (!in_chunks_) return;
  const auto whole = static_cast<std::size_t>(run_.bytes);
  if (bytes.size() == whole) return encoded_->write(run_, bytes, *file_, stored_);
  gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
  if (gathered_.size() == whole) encoded_->write(run_, gathered_, *file_, stored_);
}

void RunWrite::end(std::vector<StoredTensor>& entries) {
  const auto& tensor = plan_.tensor_of(run_);
  if (look_.found()) not_finite_->insert(tensor.key);
  if (entries.empty() || entries.back().key != tensor.key) {
    entries.push_back({tensor.key, tensor.dtype, tensor.shape, in_chunks_, {}, ""});
  }
  entries.back().slices.push_back(std::move(stored_));
}

void write_run(const DensePlan& plan, int number, const std::byte* bytes, int first_file,
               io::File* file, std::vector<StoredTensor>& entries, NotFiniteKeys* not_finite,
               EncodedChunks* encoded) {
  RunWrite run(plan, number, first_file, file, not_finite, encoded);
  run.add({bytes, static_cast<std::size_t>(plan.run(number).bytes)});
  run.end(entries);
}

std::int64_t capture_bytes(const DensePlan& plan) { return dense_memory(plan, true).bytes(); }

// Runs come in the order of their files, so one file is open at a time.
std::vector<StoredTensor> write_runs(const Draft& draft, const DensePlan& plan,
                                     const std::vector<CapturedRun>& runs, int first_file,
                                     Window* window) {
  std::vector<StoredTensor> entries;
  std::unique_ptr<io::File> file;
  EncodedChunks encoded(plan);
  int open = -1;
  const auto close = [&] {
    if (file) encoded.close(*file);
  };
  for (const auto& [chunk, bytes] : runs) {
    const auto number = plan.tensor_of(plan.run(chunk)).file;
    if (number != open) {
      close();
      file = open_parts(draft, plan, number, first_file);
      open = number;
    }
    RunWrite run(plan, chunk, first_file, file.get(), draft.not_finite(), &encoded);
    if (bytes) {
      run.add({bytes, static_cast<std::size_t>(plan.run(chunk).bytes)});
    } else {
      window->write_next([&](std::span<const std::byte> part, bool) { run.add(part); });
    }
    run.end(entries);
  }
  close();
  return entries;
}

std::unique_ptr<io::File> open_parts(const Draft& draft, const DensePlan& plan, int file,
                                     int first_file) {
  const auto number = first_file + file;
  return plan.is_in_parts(file) ? draft.open_parts(number, plan.parts_of(file))
                                : draft.make_or_open(number);
}

// A new file has zeros between its tensors without being written; a recycled one has old bytes
// there.
std::unique_ptr<io::File> make_dense_file(const Draft& draft, const DensePlan& plan, int file,
                                          int first_file) {
  const auto bytes = plan.file_bytes[static_cast<std::size_t>(file)];
  auto part = draft.make(first_file + file, bytes);
  if (!part.is_old()) return std::move(part.file);
  part.file->resize(bytes);
  std::int64_t end = 0;
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    if (plan.tensors[t].file != file) continue;
    const auto begin = plan.begins[t];
    const std::string gap(static_cast<std::size_t>(begin - end), '\0');
    if (!gap.empty()) part.file->write_at(end, std::as_bytes(std::span(gap)));
    const auto& tensor = plan.tensors[t];
    end = begin + element_count(tensor.shape) * static_cast<std::int64_t>(dtype_size(tensor.dtype));
  }
  return std::move(part.file);
}

}  // namespace cairn
