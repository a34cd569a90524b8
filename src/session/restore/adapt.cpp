// Compares the versions of the application: who saved, and who restores.
#include "session/restore/adapt.hpp"

#include <algorithm>
#include <string_view>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "model/key_pattern.hpp"

namespace cairn {
namespace {

// Takes the next part of a version off `rest`, and the separator after it.
std::string_view take_part(std::string_view& rest) {
  const auto end = std::min(rest.find_first_of(".-+_"), rest.size());
  const auto part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

bool is_number(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
}

// Numbers are compared as texts, so that they may have any number of digits.
std::string_view without_zeros(std::string_view number) {
  return number.substr(std::min(number.find_first_not_of('0'), number.size()));
}

// Returns -1, 0 or 1. A part that is a word comes before a missing part, and a missing part before
// any number: 2.0-rc1, 2.0, 2.0.1.
int compare(std::string_view a, std::string_view b) {
  const auto rank = [](std::string_view part) {
    return part.empty() ? 1 : is_number(part) ? 2 : 0;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b) ? -1 : 1;
  if (rank(a) == 2) {
    a = without_zeros(a), b = without_zeros(b);
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  }
  return a == b ? 0 : a < b ? -1 : 1;
}

std::string text_of(const Application& one) {
  if (one.version.empty()) return one.name.empty() ? "a program that does not say" : one.name;
  return cat(one.name.empty() ? "version" : one.name, ' ', one.version);
}

// Without RestoreOptions::accept, only a checkpoint of a newer version is refused, and only if both
// versions are known.
void require_accepted(const Job& job, const std::string& prefix, const Application& from,
                      const Accept& accept) {
  const auto& own = job.options.store.application;
  const auto refuse = [&](const std::string& reason, const std::string& way_out) {
    throw Error(Code::invalid_argument, cat("this program cannot read ", prefix), reason, way_out)
        .at(prefix);
  };
  const auto says = cat("it was saved by ", text_of(from));
  if (accept.predicate) {
    if (call_user_code("RestoreOptions::accept", [&] { return accept.predicate(from); })) return;
    refuse(cat(says, ", which RestoreOptions::accept does not take"),
           "Restore a checkpoint of a version that it takes.");
  } else if (!accept.versions.empty()) {
    if (from.version == own.version && !own.version.empty()) return;
    for (const auto& pattern : accept.versions) {
      if (matches_key(pattern, from.version)) return;
    }
    std::string all;
    for (const auto& one : accept.versions) all += cat(all.empty() ? "" : ", ", one);
    refuse(cat(says, ", and RestoreOptions::accept takes ", all),
           "Restore a checkpoint of one of these, or accept this version, too.");
  } else if (!from.version.empty() && !own.version.empty() &&
             is_newer_version(from.version, own.version)) {
    refuse(cat(says, ", which is newer than this one, ", text_of(own)),
           "Use that version, or say what may be read: RestoreOptions::accept.");
  }
}

}  // namespace

bool is_newer_version(const std::string& a, const std::string& b) {
  std::string_view left(a), right(b);
  for (auto* one : {&left, &right}) {
    if (one->starts_with('v') || one->starts_with('V')) one->remove_prefix(1);
  }
  while (!left.empty() || !right.empty()) {
    const int order = compare(take_part(left), take_part(right));
    if (order != 0) return order > 0;
  }
  return false;
}

Adapted::Adapted(const Job& job, const std::string& prefix, const CheckpointMeta* meta,
                 State& state, const RestoreOptions& options)
    : given_(state), given_options_(options) {
  const auto& own = job.options.store.application;
  const auto& hook = job.options.hooks.migrate;
  const auto from = meta ? meta->application : Application{};
  migrates_ = meta && hook && from.version != own.version;
  run_and_agree(*job.group, [&] {
    require_accepted(job, prefix, from, options.accept);
    if (!migrates_) return;
    // The migration changes copies, so that the application's own objects stay as they were given.
    state_ = state;
    options_ = options;
    Migration migration{*state_, *options_};
    call_user_code("Hooks::migrate", [&] { hook(from, migration); });
    finish_ = std::move(migration.finish);
  });
  if (!from.version.empty() && !own.version.empty() && from.version != own.version) {
    versions_ = cat("it was saved by ", text_of(from), ", and this is ", text_of(own));
  }
  const bool other = !from.name.empty() && !own.name.empty() && from.name != own.name;
  if (other && job.root()) {
    log(LogLevel::warning, cat(prefix, " was saved by ", from.name, ", and is read by ", own.name));
  }
}

Error Adapted::with_versions(const Error& error) const {
  const bool fits_not = error.code() == Code::not_found || error.code() == Code::invalid_argument;
  if (versions_.empty() || !fits_not) return error;
  const auto& reason = error.reason();
  return Error(error.code(), error.problem(), cat(reason, reason.empty() ? "" : "; ", versions_),
               error.way_out())
      .at(error.path())
      .of_tensor(error.tensor())
      .on_rank(error.rank());
}

void Adapted::finish(Group& group) const {
  if (!migrates_) return;
  run_and_agree(group, [&] {
    if (finish_) call_user_code("the end of Hooks::migrate", finish_);
  });
}

}  // namespace cairn
