#include "lab/campaigns/programs/crash_story.hpp"

#include <algorithm>
#include <iostream>
#include <optional>
#include <thread>

#include "base/text.hpp"
#include "lab/campaigns/programs/crash_check.hpp"
#include "lab/campaigns/programs/crash_errand.hpp"

namespace cairn::campaign {
namespace {

class Story {
 public:
  Story(const Plan& plan, Tally& tally)
      : plan_(plan), tally_(tally), random_(plan.seed ^ 0x5eed), disk_(new_disk()) {}

  std::vector<std::string> run(int states) {
    for (std::size_t i = 0; i < plan_.processes.size() && findings_.empty(); ++i) {
      const auto& process = plan_.processes[i];
      const int number = static_cast<int>(i);
      starts_.push_back(disk_->operation_count());
      if (plan_.successor && i + 1 == plan_.processes.size()) {
        run_two(process, number, *plan_.successor);
      } else {
        ++tally_.jobs;
        const auto files = new_process(process, number);
        run_process(scene(), process, number, false, files);
      }
      if (process.power_fails && findings_.empty()) fail_power();
      clock_ += 1000;  // nobody waits for an owner without locks
      if (process.errand && findings_.empty()) send(*process.errand);
    }
    for (int left = states; left > 0 && findings_.empty(); --left) sample();
    auto all = findings_.take();
    if (!all.empty()) all.push_back(cat("what was told:\n", ledger_.text()));
    return all;
  }

 private:
  std::shared_ptr<io::MemoryFileSystem> new_disk() {
    auto disk = std::make_shared<io::MemoryFileSystem>();
    if (plan_.direct) disk->refuse_renames();
    if (plan_.clones) disk->share_space();
    set_clock(*disk);
    return disk;
  }
  void set_clock(io::MemoryFileSystem& disk) {
    disk.set_clock([this] { return static_cast<double>(clock_) + 1e-4 * ++ticks_; });
  }

  std::shared_ptr<test::ProcessFiles> new_process(const Process& process, int number) {
    auto files = std::make_shared<test::ProcessFiles>(disk_, process.locks);
    files->neglect(plan_.neglect);
    if (plan_.tells) {
      files->set_observer([this, number](const std::string& operation) {
        std::cout << cat("  process ", number, ": #", disk_->operation_count(), " ", operation,
                         "\n");
      });
    }
    return files;
  }

  Scene scene() {
    return {&plan_, disk_, &ledger_, &findings_, &tally_.saves, &tally_.unchanged, &tally_.encoded};
  }

  // The second takes over while the first is stopped, and may be stopped itself; then the first
  // goes on to its end before the second does.
  void run_two(const Process& first, int number, const Process& second) {
    tally_.jobs += 2;
    const auto one = new_process(first, number);
    const auto two = new_process(second, number + 1);
    const auto both = scene();
    std::thread a([&] { run_process(both, first, number, true, one); });
    if (one->wait_paused()) {
      clock_ += 1000;
      ledger_.taken_over(number);
      std::thread b([&] { run_process(both, second, number + 1, true, two); });
      two->wait_paused();
      one->resume();
      a.join();
      two->resume();
      b.join();
    } else {
      a.join();
    }
  }

  void send(const Errand& errand) {
    if (!disk_->status("/run")) return;
    ++tally_.jobs;
    std::string wrong;
    const auto done = run_errand(plan_, disk_, errand, wrong);
    errands_.push_back(done);
    clock_ += 1000;
    if (!wrong.empty()) findings_.add(cat("an errand:", wrong));
  }

  // The stop is not while a copy is put beside a checkpoint: whoever does that must see to it.
  std::size_t choose_stop() {
    auto stop = choose_any_stop();
    for (const auto& one : errands_) {
      if (one.puts_beside && stop >= one.begin) stop = std::max(stop, one.end);
    }
    return stop;
  }

  bool is_spoilt(std::size_t stop) const {
    return std::any_of(errands_.begin(), errands_.end(), [&](const auto& one) {
      return one.damages && one.begin < stop && stop < one.end;
    });
  }

  Twice twice_at(std::size_t stop) const {
    Twice twice;
    for (const auto& one : errands_) {
      if (!one.puts_beside || one.end > stop) continue;
      twice[one.step] = {one.stamp, one.required && !ledger_.may_go(one.stamp, stop)};
    }
    return twice;
  }

  // The disk as an operator leaves it who has begun a repair, and tries it again. Null: the files
  // are of several saves, and nothing tells which was the last.
  std::shared_ptr<io::MemoryFileSystem> crash(std::size_t stop, const io::CrashChoice& choice,
                                              std::string& wrong) {
    auto crashed = disk_->crash(stop, choice);
    if (!is_spoilt(stop)) return crashed;
    if (!mend(plan_, crashed, wrong)) return nullptr;
    return crashed->crash(crashed->operation_count(), {.keep = false});
  }

  std::size_t choose_any_stop() {
    const auto end = static_cast<int>(disk_->operation_count());
    const int kind = random_.below(7);
    if (kind == 0) return static_cast<std::size_t>(end);
    if (kind == 1) return static_cast<std::size_t>(std::max(0, end - random_.below(40)));
    if (kind == 2) {  // while a job recovers
      const auto start =
          starts_[static_cast<std::size_t>(random_.below(static_cast<int>(starts_.size())))];
      return std::min(start + static_cast<std::size_t>(random_.below(40)),
                      static_cast<std::size_t>(end));
    }
    auto stop = static_cast<std::size_t>(random_.below(end + 1));
    if (kind > 4) return stop;
    // Where a name has just changed.
    const auto changes = [](const std::string& text) {
      return text.starts_with("rename ") || text.starts_with("remove ");
    };
    while (stop < static_cast<std::size_t>(end) && !changes(disk_->operation_text(stop))) ++stop;
    return std::min(stop + 1, static_cast<std::size_t>(end));
  }

  // Lets the power fail; the next jobs begin with the disk that this leaves.
  void fail_power() {
    const auto stop = choose_stop();
    const auto choice = choose_crash(*disk_, stop, random_);
    const auto before = ledger_.text();
    auto then = ledger_.at(stop);
    std::string wrong;
    ++tally_.states;
    const auto twice = twice_at(stop);
    const auto crashed = crash(stop, choice, wrong);
    if (crashed) {
      const auto found = restart(plan_, crashed, twice, random_, true, wrong);
      wrong += ledger_.judge(found, stop);
      then.looked(found, 0, false);
    }
    if (!wrong.empty()) {
      findings_.add(cat("after ", disk_->describe(stop, choice), ":", wrong));
      return;
    }
    if (!crashed) return;
    ledger_ = then;
    disk_ = crash(stop, choice, wrong);
    set_clock(*disk_);
    starts_ = {0};
    errands_.clear();
    for (const auto& [step, both] : twice)
      errands_.push_back({0, 0, false, true, step, both.stamp, both.required});
  }

  // Tries one state that a crash could leave at this point.
  void sample() {
    const auto stop = choose_stop();
    const auto choice = choose_crash(*disk_, stop, random_);
    std::string wrong, how = disk_->describe(stop, choice);
    const auto twice = twice_at(stop);
    auto crashed = crash(stop, choice, wrong);
    ++tally_.states;
    const int kind = random_.below(4);
    if (!crashed) {  // a decision for an operator
    } else if (kind == 0 && plan_.read_errors) {
      wrong += restart_badly(plan_, crashed, twice, ledger_.at(stop), random_);
    } else {
      std::optional<std::int64_t> seen;
      if (kind == 1) {
        std::string more;
        crashed = restart_and_crash(plan_, crashed, random_, seen, more, wrong);
        how += more;
      }
      const auto found = restart(plan_, crashed, twice, random_, random_.one_in(2), wrong);
      wrong += ledger_.judge(found, stop);
      if (seen && *seen != found.newest) {
        wrong += cat(" stamp ", *seen, " was restored, and then ", found.newest, ";");
      }
    }
    if (!wrong.empty()) findings_.add(cat("after ", how, ": ", wrong));
  }

  const Plan& plan_;
  Tally& tally_;
  Random random_;
  std::atomic<std::int64_t> clock_ = 1'000'000, ticks_ = 0;
  std::shared_ptr<io::MemoryFileSystem> disk_;
  std::vector<std::size_t> starts_;  // of jobs, in operations of the disk
  std::vector<ErrandDone> errands_;
  Ledger ledger_;
  Findings findings_;
};

}  // namespace

std::vector<std::string> play(const Plan& plan, int states, Tally& tally) {
  return Story(plan, tally).run(states);
}

}  // namespace cairn::campaign
