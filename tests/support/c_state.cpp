#include "support/c_state.hpp"

#include <filesystem>
#include <string_view>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::test {
namespace {

void check(int code) {
  if (code == CAIRN_OK) return;
  const auto& error = *cairn_last_error();
  throw Error(static_cast<Code>(code), error.problem, error.reason, error.way_out)
      .of_tensor(error.tensor)
      .on_rank(error.rank);
}

// A manager made by the C interface, with options that only C++ can give (a file system of tests).
class CManager {
 public:
  CManager(std::shared_ptr<Group> group, const std::filesystem::path& directory,
           const ManagerOptions& options) {
    const std::unique_ptr<cairn_group, void (*)(cairn_group*)> ranks(c::give(std::move(group)),
                                                                     cairn_group_free);
    const cairn_options as_given{options};
    check(cairn_manager_create(ranks.get(), directory.c_str(), &as_given, &manager_));
  }
  ~CManager() { cairn_manager_free(manager_); }
  CManager(const CManager&) = delete;
  CManager& operator=(const CManager&) = delete;
  cairn_manager* get() { return manager_; }

 private:
  cairn_manager* manager_ = nullptr;
};

}  // namespace

CState::CState(SampleState& mine, const std::vector<Sample>& samples,
               const std::vector<std::string>& words, Storage storage) {
  check(cairn_state_create(&state_));
  check(cairn_state_store(state_, storage == Storage::dense    ? "dense"
                                  : storage == Storage::sliced ? "sliced"
                                                               : "automatic"));
  for (const auto& sample : samples) {
    std::vector<cairn_patch> patches;
    for (auto& part : mine.parts()) {
      if (part.sample.key != sample.key) continue;
      const auto item = static_cast<std::int64_t>(dtype_size(sample.dtype));
      patches.push_back({part.memory.data() + part.first * item, part.box.start.data(),
                         part.box.extent.data(), part.strides.data()});
    }
    check(cairn_state_add_patches(state_, sample.key.c_str(), static_cast<int>(sample.dtype),
                                  static_cast<int>(sample.shape.size()), sample.shape.data(),
                                  patches.size(), patches.data()));
  }
  check(cairn_strings_create(&words_));
  for (const auto& word : words) {
    check(cairn_strings_append(words_, word.data(), word.size()));
  }
  check(cairn_state_add_strings(state_, "words", words_));
}

CState::~CState() {
  cairn_state_free(state_);
  cairn_strings_free(words_);
}

void CState::save(std::shared_ptr<Group> group, const std::filesystem::path& directory,
                  const ManagerOptions& options, std::int64_t step, bool asynchronous) {
  CManager manager(std::move(group), directory, options);
  if (!asynchronous) {
    check(cairn_manager_save(manager.get(), step, state_, nullptr, nullptr));
    return;
  }
  check(cairn_manager_save_async(manager.get(), step, state_, nullptr, nullptr));
  check(cairn_manager_wait(manager.get()));
}

std::string CState::restore(std::shared_ptr<Group> group, const std::filesystem::path& directory,
                            const ManagerOptions& options, std::int64_t step) {
  CManager manager(std::move(group), directory, options);
  const cairn_report* report = nullptr;
  check(cairn_manager_restore_latest(manager.get(), state_, nullptr, nullptr, &report));
  if (!report) return "nothing to restore";
  if (report->step != step) return cat("restored step ", report->step);
  return report->unused_count == 0 ? "" : cat("unused: ", report->unused_keys[0]);
}

std::vector<std::string> CState::words() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < cairn_strings_count(words_); ++i) {
    std::size_t size = 0;
    const char* text = cairn_strings_at(words_, i, &size);
    all.emplace_back(text, size);
  }
  return all;
}

}  // namespace cairn::test
