#include "store/directory/marks.hpp"

#include <set>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"
#include "store/commit/state_file.hpp"

namespace cairn {
namespace {

constexpr std::int64_t mark_limit_bytes = 4096;

io::Path folder_of(const Location& at) {
  return at.directory / commit::private_directory_name / commit::marked_directory_name;
}

io::Path mark_path(const Location& at, std::int64_t step) {
  return folder_of(at) / commit::prefix_name(at.naming, step);
}

// The checksum covers the prefix, too: a mark that was copied to another step does not count there.
// `identity` ties it to one save of the step.
std::string mark_text(const std::string& prefix, const std::string& identity, StepMark mark) {
  const auto said = cat(identity, '\n', words(mark).at(static_cast<std::size_t>(mark)), '\n');
  return cat(said, hex(crc32c(cat(prefix, '\n', said))), '\n');
}

}  // namespace

std::optional<StepMark> find_mark(const Location& at, const CatalogEntry& entry) {
  const auto path = mark_path(at, entry.step);
  if (!at.files->status(path)) return std::nullopt;
  const auto text = io::try_read_file(*at.files, path, mark_limit_bytes);
  if (!text) return std::nullopt;
  for (const auto mark : {StepMark::good, StepMark::bad}) {
    if (*text == mark_text(path.filename().string(), entry.save.identity, mark)) return mark;
  }
  return std::nullopt;
}

void refresh_marks(const Location& at, std::vector<CatalogEntry>& entries) {
  std::set<std::string> there;
  try {
    for (auto& mark : at.files->list(folder_of(at))) there.insert(std::move(mark));
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;  // nothing was ever marked
  }
  for (auto& entry : entries) {
    const bool may_be = there.count(commit::prefix_name(at.naming, entry.step)) != 0;
    entry.mark = may_be ? find_mark(at, entry) : std::nullopt;
  }
}

void add_mark(const Location& at, const CatalogEntry& entry, StepMark mark) {
  auto& files = *at.files;
  const auto name = commit::prefix_name(at.naming, entry.step);
  if (entry.save.identity.empty()) {
    throw Error(Code::invalid_argument, cat(name, " cannot be marked"),
                "nothing tells it from another save of its step", "Remove it, or repair it.")
        .at((at.directory / name).string());
  }
  const auto path = mark_path(at, entry.step);
  io::create_directories(files, path.parent_path());
  commit::replace_file(files, at.directory, path,
                       mark_text(path.filename().string(), entry.save.identity, mark), true);
}

void remove_mark(const Location& at, std::int64_t step) {
  const auto path = mark_path(at, step);
  if (!at.files->status(path)) return;
  at.files->remove(path);
  at.files->sync_directory(path.parent_path());
}

std::string why_passed_over(const CatalogEntry& entry) {
  if (entry.mark == StepMark::bad) return "somebody has marked it bad";
  const bool turned = entry.not_finite && !entry.not_finite->turned.empty();
  if (entry.in_vain == 0 && turned && entry.mark != StepMark::good) {
    const auto& keys = entry.not_finite->turned;
    return cat("'", keys.front(), "' ",
               keys.size() == 1 ? "has" : cat("and ", keys.size() - 1, " more have"),
               " a NaN or an infinity, and had none in the step before");
  }
  if (entry.in_vain == 0) return "";
  return cat(entry.in_vain, entry.in_vain == 1 ? " run has" : " runs have",
             " restored it and ended with no newer checkpoint");
}

}  // namespace cairn
