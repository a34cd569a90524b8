// Writes shards with io ranks. Each other rank sends its bytes, frame by frame, to the io rank that
// serves it. An io rank receives one frame from each of several senders at a time.
#include "session/save/writers/forwarded.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/sharding.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "session/save/call_policy.hpp"
#include "session/save/frames.hpp"
#include "session/save/shard_files.hpp"

namespace cairn {
namespace {

using Buffer = std::unique_ptr<std::byte[]>;

// Not initialised, so that pages that are never used are never touched.
Buffer take(std::int64_t bytes) {
  return std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
}

class Forward {
 public:
  Forward(const Job& job, const Draft& draft, Outgoing out, bool one_file)
      : job_(job), group_(*job.group), draft_(draft), out_(std::move(out)), one_file_(one_file) {}

  std::vector<StoredTensor> run() {
    announce();
    if (job_.is_io_rank()) {
      // The io rank's own shards come first in a joined file.
      error_.guard([&] { joined_ ? write_entries(*joined_, out_) : write_files(draft_, out_); });
      receive_all();
      error_.guard([&] {
        if (joined_ && !error_) joined_->finish();
      });
    } else {
      send_all();
    }
    agree(group_, error_.first());
    if (!job_.is_io_rank()) return {};
    auto entries = std::move(out_.entries);
    for (auto& sender : senders_) {
      std::move(sender.entries.begin(), sender.entries.end(), std::back_inserter(entries));
    }
    return entries;
  }

 private:
  struct Sender {
    int rank;
    std::vector<StoredTensor> entries;
    Frames stream;
    std::optional<Sink> file = std::nullopt;    // none: the joined one
    std::size_t next = 0;                       // index of its next frame
    std::vector<std::uint32_t> checksums = {};  // of the bytes of each entry, as they arrived
  };

  // Collective. Tells io ranks what they will receive, and allocates all memory. Once frames are
  // sent, a rank that threw would leave the others waiting for its messages, so from then on errors
  // are kept until the end.
  void announce() {
    const auto me = job_.rank();
    std::vector<std::pair<int, std::string>> lists;
    const auto list = run_and_agree(group_, [&] { return pack_each(out_.entries); });
    if (!job_.is_io_rank()) {
      group_.send(job_.io_rank_of(me), list);
    } else {
      for (int rank = 0; rank < group_.size(); ++rank) {
        if (rank != me && job_.io_rank_of(rank) == me)
          lists.emplace_back(rank, group_.receive(rank));
      }
    }
    run_and_agree(group_, [&] {
      const auto limit = job_.options.write.chunk_bytes;
      if (!job_.is_io_rank()) {
        stream_ = Frames(out_.entries, limit);
        checksums_.resize(out_.entries.size());
        buffers_.push_back(take(stream_.largest));
        return;
      }
      std::int64_t largest = 0;
      for (const auto& [rank, bytes] : lists) {
        auto entries = unpack_all<StoredTensor>(bytes);
        Frames stream(entries, limit);
        largest = std::max(largest, stream.largest);
        senders_.push_back({rank, std::move(entries), std::move(stream)});
        senders_.back().checksums.resize(senders_.back().entries.size());
      }
      // There may be many senders, each with a file and its buffer.
      const auto gathered = std::min(limit, Sink::gathered_bytes);
      if (one_file_) {
        auto all = out_.entries;
        for (const auto& sender : senders_) {
          all.insert(all.end(), sender.entries.begin(), sender.entries.end());
        }
        joined_.emplace(draft_, all, gathered);
      } else {
        for (auto& sender : senders_) {
          sender.file.emplace(draft_, sender.entries, gathered);
        }
      }
      // A joined file is filled by one sender after the other.
      const auto at_once =
          joined_ ? 1 : static_cast<std::size_t>(job_.options.write.io_ranks.memory_bytes / limit);
      for (std::size_t i = 0; i < std::min(at_once, senders_.size()); ++i) {
        buffers_.push_back(take(largest));
      }
    });
  }

  // Frame by frame to the io rank. After an error the frames still go, with whatever is in the
  // buffer.
  void send_all() {
    const auto io_rank = job_.io_rank_of(job_.rank());
    for (const auto& frame : stream_.frames) {
      std::span<const std::byte> bytes(buffers_.front().get(),
                                       static_cast<std::size_t>(frame.bytes));
      error_.guard([&] {
        for (auto p = frame.first; p < frame.end; ++p) {
          const auto& part = stream_.parts[p];
          auto* packing = buffers_.front().get() + (part.at - frame.begin);
          const auto found = fetch(part, packing, frame.end - frame.first == 1);
          checksums_[part.entry] = crc32c(found, checksums_[part.entry]);
          if (frame.end - frame.first == 1) bytes = found;
        }
      });
      if (!bytes.empty()) {
        const Group::Send send{io_rank, bytes};
        group_.exchange({&send, 1}, {});
      }
    }
    if (error_) checksums_.clear();  // without checksums nothing is compared
    group_.send(io_rank, pack(checksums_));
  }

  // The bytes of a part: packed, or without a copy if `may_stay` and they are contiguous.
  std::span<const std::byte> fetch(const Frames::Part& part, std::byte* packing,
                                   bool may_stay) const {
    const auto& run = out_.bytes[part.entry].run;
    const auto* slice = out_.bytes[part.entry].slice;
    const auto size = static_cast<std::size_t>(part.bytes);
    if (!run.empty()) {
      const auto bytes = run.subspan(static_cast<std::size_t>(part.offset), size);
      if (may_stay) return bytes;
      std::copy(bytes.begin(), bytes.end(), packing);
    } else if (size > 0) {
      slice->memory->read(part.box.relative_to(slice->box.start), packing);
    }
    return {packing, size};
  }

  // Receives from as many senders at a time as there are buffers, in rank order.
  void receive_all() {
    std::vector<Sender*> active(buffers_.size(), nullptr);
    std::size_t coming = 0;
    for (;;) {
      std::vector<Group::Receive> receives;
      for (std::size_t i = 0; i < active.size(); ++i) {
        auto*& sender = active[i];
        // A sender whose frames have all come makes room for the next one. It may have none at all.
        while (!sender || sender->next == sender->stream.frames.size()) {
          if (sender) finish(*sender);
          sender = coming < senders_.size() ? &senders_[coming++] : nullptr;
          if (!sender) break;
        }
        if (!sender) continue;
        const auto bytes = sender->stream.frames[sender->next].bytes;
        if (bytes > 0) {
          receives.push_back({sender->rank, {buffers_[i].get(), static_cast<std::size_t>(bytes)}});
        }
      }
      if (std::all_of(active.begin(), active.end(), [](auto* sender) { return !sender; })) return;
      if (!receives.empty()) group_.exchange({}, receives);
      for (std::size_t i = 0; i < active.size(); ++i) {
        if (!active[i]) continue;
        error_.guard([&] { write_frame(*active[i], buffers_[i].get()); });
        ++active[i]->next;
      }
    }
  }

  // After an error frames are still received, since senders wait for that, and thrown away.
  void write_frame(Sender& sender, const std::byte* bytes) {
    if (error_) return;
    const auto& frame = sender.stream.frames[sender.next];
    for (auto p = frame.first; p < frame.end; ++p) {
      const auto& part = sender.stream.parts[p];
      auto& entry = sender.entries[part.entry];
      auto& file = joined_ ? *joined_ : *sender.file;
      if (part.offset == 0) file.begin(entry);
      file.append({bytes + (part.at - frame.begin), static_cast<std::size_t>(part.bytes)});
      if (part.offset + part.bytes == entry.slices.front().raw_bytes) {
        sender.checksums[part.entry] = file.end(entry);
      }
    }
  }

  // The last message of a sender has its checksums; it is empty of them if the sender has failed.
  void finish(Sender& sender) {
    const auto message = group_.receive(sender.rank);
    error_.guard([&] {
      if (error_) return;
      if (sender.file) sender.file->finish();
      const auto sent = unpack<std::vector<std::uint32_t>>(message);
      for (std::size_t e = 0; e < sent.size(); ++e) {
        if (sent[e] == sender.checksums.at(e)) continue;
        throw changed_on_the_way(sender.entries[e].key, sender.rank, job_.rank(), sent[e],
                                 sender.checksums[e]);
      }
    });
  }

  const Job& job_;
  Group& group_;
  const Draft& draft_;
  Outgoing out_;
  const bool one_file_;
  std::vector<Sender> senders_;           // of an io rank
  std::optional<Sink> joined_;            // of an io rank that writes one file
  Frames stream_;                         // of a rank that is served
  std::vector<std::uint32_t> checksums_;  // of a rank that is served: by entry
  // A served rank has one, to pack its frames; an io rank has one for each sender that it receives
  // from at a time.
  std::vector<Buffer> buffers_;
  DeferredError error_;
};

}  // namespace

bool ForwardedFiles::one_file(const Job& job, const Sharding& sharding) const {
  const auto& io = job.options.write.io_ranks;
  return (io.joined || io.choice == IoRanks::Choice::automatic) &&
         // Other policies promise something about files, which joined files would break.
         policy_of(sharding.policy).description() == ShardByTaskPolicy().description();
}

bool ForwardedFiles::serves(const Job& job) const {
  return job.options.write.writer == Writer::posix && !job.places.served_by.empty();
}

DataWriter::Files ForwardedFiles::number(const Job& job, const std::vector<int>& shards,
                                         bool one_file) const {
  if (!one_file) return DataWriter::number(job, shards, one_file);
  std::vector<int> written(shards.size(), 0);
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    if (shards[rank] > 0) {
      written[static_cast<std::size_t>(job.io_rank_of(static_cast<int>(rank)))] = 1;
    }
  }
  Files files;
  for (std::size_t rank = 0; rank < written.size(); ++rank) {
    if (static_cast<int>(rank) == job.io_rank_of(job.rank())) files.first = files.all;
    files.all += written[rank];
  }
  return files;
}

std::vector<StoredTensor> ForwardedFiles::write_with_others(const Job& job,
                                                            const RefreshedState& state,
                                                            const LocalShards& local,
                                                            const FileLayout& layout,
                                                            const Draft& draft) const {
  auto out = run_and_agree(
      *job.group, [&] { return outgoing(state, local, layout.first_file, layout.one_file); });
  return Forward(job, draft, std::move(out), layout.one_file).run();
}

}  // namespace cairn
