#include "session/save/dense_parts.hpp"

#include <algorithm>
#include <utility>

#include "group/collectives.hpp"

namespace cairn {
namespace {

std::size_t slot(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int64_t bytes_of(const DenseTensor& tensor) {
  return element_count(tensor.shape) * static_cast<std::int64_t>(dtype_size(tensor.dtype));
}

std::int64_t stretch_of(std::int64_t file_bytes, std::int64_t part_bytes) {
  auto stretch = part_bytes;
  while (file_bytes / stretch >= most_parts) stretch *= 2;
  return stretch;
}

}  // namespace

std::int64_t most_in_run(std::int64_t file_bytes, std::int64_t part_bytes) {
  return std::max<std::int64_t>(stretch_of(file_bytes, part_bytes) / 4, 1);
}

PartWriters::PartWriters(Group& group, DensePlan& plan, std::int64_t part_bytes,
                         const std::function<plan::ChunkCut(std::size_t)>& cut) {
  auto best = run_and_agree(group, [&] {
    for (const auto bytes : plan.file_bytes) {
      plan.parts.push_back({1, stretch_of(bytes, part_bytes)});
    }
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
      const auto of = cut(t);
      if (of.count() == 0) continue;
      const auto number = slot(plan.tensors[t].file);
      auto& file = plan.parts[number];
      const auto last = plan.begins[t] + of.chunk(of.count() - 1).offset;
      // What is less than a stretch at the end is a part of its own if no other follows it.
      const auto parts =
          plan.enclosed ? plan.file_bytes[number] / file.stretch : last / file.stretch + 1;
      file.count = std::max(file.count, static_cast<int>(parts));
    }
    std::int64_t all = 0;
    for (const auto& file : plan.parts) first_.push_back(std::exchange(all, all + file.count));
    // How much of each part this rank has.
    std::vector<std::int64_t> bytes(slot(all));
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
      const auto of = cut(t);
      const auto item = static_cast<std::int64_t>(dtype_size(plan.tensors[t].dtype));
      for (const auto& mine : plan.tensors[t].parts) {
        of.each_in(mine.box, [&](std::int64_t chunk, const Box& common) {
          bytes[part_of(plan, t, of.chunk(chunk).offset)] += common.count() * item;
        });
      }
    }
    return bytes;
  });
  // The largest number of a part tells its writer: how much that has, in eighths, then its turn.
  const std::int64_t ranks = group.size();
  auto one = best.begin();
  for (std::size_t file = 0; file < plan.parts.size(); ++file) {
    const auto eighth = std::min(plan.parts[file].stretch, plan.file_bytes[file]) / 8 + 1;
    for (int p = 0; p < plan.parts[file].count; ++p, ++one) {
      const auto eighths = *one == 0 ? 0 : 1 + *one / eighth;
      *one = eighths * ranks + (group.rank() + p) % ranks;
    }
  }
  group.all_reduce(best, Group::Op::max);
  for (const auto& file : plan.parts) {
    for (int p = 0; p < file.count; ++p) {
      const auto turn = best[writers_.size()] % ranks;
      writers_.push_back(static_cast<int>((turn - p % ranks + ranks) % ranks));
    }
  }
  if (plan.enclosed) writers_.front() = 0;
}

std::size_t PartWriters::part_of(const DensePlan& plan, std::size_t tensor,
                                 std::int64_t offset) const {
  const auto file = slot(plan.tensors[tensor].file);
  return slot(first_[file] + plan.part_at(plan.tensors[tensor].file, plan.begins[tensor] + offset));
}

int PartWriters::operator()(const DensePlan& plan, int tensor, std::int64_t offset) const {
  return writers_[part_of(plan, slot(tensor), offset)];
}

std::vector<FilePart> DensePlan::parts_of(int file) const {
  std::vector<FilePart> mine;
  const auto count = parts[slot(file)].count;
  for (const auto& run : exchange.chunks) {
    if (tensor_of(run).file != file) continue;
    const auto begin = offset_of(run);
    const auto number = part_at(file, begin) + 1;
    if (mine.empty() || mine.back().number != number) {
      mine.push_back({number, begin, begin, number == count});
    }
    // Up to the next run, whoever writes that.
    auto end = begin + run.bytes;
    auto next = slot(run.source);
    if (run.offset + run.bytes == bytes_of(tensors[next])) {
      do ++next;
      while (next < tensors.size() && bytes_of(tensors[next]) == 0);
      const bool is_here = next < tensors.size() && tensors[next].file == file;
      end = is_here ? begins[next] : region + file_bytes[slot(file)];
    }
    mine.back().end = end;
  }
  return mine;
}

std::vector<int> DensePlan::files_in_parts(int first_file) const {
  std::vector<int> numbers;
  for (int file = 0; file < static_cast<int>(parts.size()); ++file) {
    if (parts[slot(file)].count > 1) numbers.push_back(first_file + file);
  }
  return numbers;
}

}  // namespace cairn
