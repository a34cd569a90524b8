#include "store/directory/two_formats.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "store/commit/names.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/format.hpp"
#include "store/directory/candidates.hpp"
#include "store/directory/pins.hpp"

namespace cairn {
namespace {

struct Found {
  std::int64_t step = 0;
  TwoFormats::Replaced replaced = {};
  Candidate survivor = {};  // what examine() asks for
};

// All that is read of a checkpoint. Throws data_loss if it is seen to be damaged.
Candidate all_of(const Location& place, Format format, const io::Path& prefix) {
  const auto contents = read_contents_as(format, *place.files, prefix);
  Candidate all;
  std::map<std::int32_t, std::int32_t> numbers;  // of files, as they come
  for (const auto* tensors : {&contents.tensors, &contents.own}) {
    for (auto tensor : *tensors) {
      if (!tensor.problem.empty()) throw Error(Code::data_loss, tensor.problem);
      for (auto& slice : tensor.slices) {
        const auto next = static_cast<std::int32_t>(all.paths.size());
        const auto [at, is_new] = numbers.emplace(slice.file, next);
        if (is_new) all.paths.push_back(data_path(contents, slice.file).string());
        slice.file = at->second;
      }
      all.entries.push_back(std::move(tensor));
    }
  }
  return all;
}

// Whether any save of this step is pinned.
bool is_any_pinned(const Location& place, std::int64_t step) {
  CatalogEntry any;
  any.step = step;
  any.damage = "not looked at";  // it may be the one that is meant
  return is_pinned(place, any);
}

void say_it_stays(std::int64_t step, const std::string& why) {
  log(LogLevel::warning, cat("step ", step, " is there in two formats, and stays so: ", why));
}

// Of a temp directory: the step that its save has made and replaced.
std::optional<Found> look_at(const Location& place, const std::string& name,
                             std::set<std::string>& kept) {
  const auto parsed = commit::parse_name(name, place.naming);
  if (parsed.kind != commit::ParsedName::Kind::temp_directory || commit::is_staging(parsed)) {
    return std::nullopt;
  }
  const auto prefix = place.prefix(parsed.step);
  for (const auto* format : all_formats()) {
    const auto there = try_recognise(*format, {*place.files, format->main_file(prefix)});
    if (!there.value_or(true)) return std::nullopt;
  }
  try {
    std::optional<Format> made, before;
    for (const auto* format : all_formats()) {
      const auto contents = read_summary(*place.files, prefix, format->id());
      if (!contents.meta) return std::nullopt;  // another program's
      (contents.meta->uuid == parsed.uuid ? made : before) = format->id();
    }
    if (!made || !before) return std::nullopt;
    if (!is_any_pinned(place, parsed.step)) {
      return Found{parsed.step, {*before, name}, all_of(place, *made, prefix)};
    }
    kept.insert(name);
  } catch (const Error& error) {
    say_it_stays(parsed.step, error.what());
    if (error.code() != Code::data_loss) kept.insert(name);
  }
  return std::nullopt;
}

}  // namespace

void TwoFormats::leave_pinned(const Location& place, bool locked) {
  std::erase_if(replaced, [&](const auto& one) {
    const bool stays = !locked || is_any_pinned(place, one.first);
    if (stays) kept.insert(one.second.temp);
    return stays;
  });
}

TwoFormats find_two_formats(const Location& place, const Readers& readers,
                            const std::vector<std::string>& listing) {
  Group& group = readers.group;
  TwoFormats two;
  std::vector<Found> found;
  std::int64_t count = 0;
  run_and_agree(group, [&] {
    if (!readers.root()) return;
    for (const auto& name : listing) {
      if (auto one = look_at(place, name, two.kept)) found.push_back(*std::move(one));
    }
    count = static_cast<std::int64_t>(found.size());
  });
  group.all_reduce({&count, 1}, Group::Op::max);
  for (std::int64_t i = 0; i < count; ++i) {
    // Other ranks need none: examine() sends them rank 0's.
    static const Found none;
    const auto& one = readers.root() ? found[static_cast<std::size_t>(i)] : none;
    std::string why;
    const auto finding = examine(place, readers, one.survivor, why);
    if (!readers.root()) continue;
    if (finding == Soundness::whole) {
      two.replaced[one.step] = one.replaced;
    } else {
      say_it_stays(one.step, why);
      if (finding == Soundness::unreadable) two.kept.insert(one.replaced.temp);
    }
  }
  return two;
}

}  // namespace cairn
