// String tensors. For each that any rank wants, one io rank reads and decodes it, and sends it to
// the ranks that want it.
#include <algorithm>
#include <set>

#include "base/wire.hpp"
#include "exchange/by_key.hpp"
#include "group/collectives.hpp"
#include "session/restore/delivery.hpp"
#include "session/restore/restore_tensors.hpp"

namespace cairn {
namespace {

struct StringsOf {
  int tensor = 0;
  std::string_view values;  // packed
};

// For each wanted tensor, the ranks that ask this rank for it.
std::map<int, std::vector<int>> tell_readers(const Job& job, const std::set<int>& wanted) {
  const auto readers = job.io_ranks();
  Delivery questions;
  for (const auto tensor : wanted) {
    // The number of the tensor chooses its reader, so every rank knows whom to ask.
    pack_into(questions.to(readers[static_cast<std::size_t>(tensor) % readers.size()]), tensor);
  }
  std::map<int, std::vector<int>> asked;
  const auto come = questions.deliver(*job.group);
  for (const auto& [rank, message] : come.messages) {
    for (const int tensor : unpack_each<int>(message)) asked[tensor].push_back(rank);
  }
  return asked;
}

}  // namespace

// Three exchanges: ranks ask the readers, readers look up where the strings lie, and readers
// answer.
std::map<int, std::string> restore_strings(const Job& job, const SharedIndex& index,
                                           const std::set<int>& wanted, std::int64_t& bytes_read) {
  const auto asked = tell_readers(job, wanted);
  const auto& contents = index.contents();
  // A reader looks up where its tensors lie in the same way as for other slices.
  std::vector<SharedIndex::Wish> wishes;
  for (const auto& [tensor, ranks] : asked) {
    if (!index.is_dealt(tensor)) continue;
    wishes.push_back(
        {tensor, {Box::whole(contents.tensors[static_cast<std::size_t>(tensor)].shape)}});
  }
  auto places = index.find(*job.group, wishes);
  Delivery answers;
  DeferredError error;
  std::size_t next = 0;
  for (const auto& [number, ranks] : asked) {
    auto tensor = contents.tensors[static_cast<std::size_t>(number)];
    if (index.is_dealt(number)) {
      for (auto& place : places[next]) tensor.slices.push_back(std::move(place.slice));
      ++next;
    }
    // The loop goes on after an error, since `next` has to follow the tensors.
    if (error) continue;
    error.guard([&, &number = number, &ranks = ranks] {
      const auto text = pack(read_strings(*job.files, contents, tensor));
      for (const auto& slice : tensor.slices) bytes_read += slice.stored_bytes;
      if (is_for_all(ranks.size(), job.group->size())) {
        pack_into(answers.to_all(), StringsOf{number, text});
      } else {
        for (const auto rank : ranks) pack_into(answers.to(rank), StringsOf{number, text});
      }
    });
  }
  agree_on_least(*job.group, error.first());
  const auto come = answers.deliver(*job.group);
  std::map<int, std::string> values;
  const auto take = [&](const std::string& message) {
    for (const auto& [number, values_of] : unpack_each<StringsOf>(message)) {
      if (wanted.count(number)) values[number] = values_of;
    }
  };
  for (const auto& [reader, message] : come.messages) take(message);
  take(come.for_all);
  return values;
}

}  // namespace cairn
