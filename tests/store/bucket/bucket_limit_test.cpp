// A server that stops answering at any request of a save with a storage limit, and answers later or
// never: all ranks get one verdict, nothing that was acknowledged is lost, and the next save works
// once the server has answered.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <iostream>
#include <semaphore>

#include "io/limited.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/bucket/bucket_kit.hpp"
#include "support/rounds.hpp"

namespace cairn::test {
namespace {

// What becomes of the request that is not answered in time.
enum class Outcome { carried_out_late, answered_late, never_carried_out, never_answered };

struct BucketSilence {
  std::string name;
  int ranks;
  std::int64_t step;  // that is saved over step 10, or beside it
  int keep_last = 0;
  bool async = false;
  Storage storage = Storage::automatic;
  Format format = Format::bundle;
};
void PrintTo(const BucketSilence& silence, std::ostream* out) { *out << silence.name; }

class BucketLimit : public testing::TestWithParam<std::tuple<BucketSilence, Outcome>> {
 protected:
  BucketLimit() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~BucketLimit() override { set_log_sink({}); }

  static const BucketSilence& silence() { return std::get<0>(GetParam()); }
  static Outcome outcome() { return std::get<1>(GetParam()); }

  // The server falls silent at this request of the second save. Returns false if there are fewer.
  static bool round(std::size_t at) {
    const auto server = std::make_shared<BucketServer>();
    auto options = options_in(server, silence().keep_last, silence().format);
    const auto limited = io::limited(options.write.file_system, 1e6);
    options.write.file_system = limited;
    std::counting_semaphore<> answers(0);
    std::atomic<std::size_t> requests = 0;
    std::atomic<bool> counts = false, silent = false;
    std::string where;
    const auto fall_silent = [&](const std::string& request) {
      if (!counts || requests++ != at) return;
      where = request;
      silent = true;
      limited->give_up();
      answers.acquire();
      if (outcome() == Outcome::never_carried_out) throw Error(Code::io, "no connection");
      if (outcome() == Outcome::never_answered) throw Error(Code::io, "no answer");
    };
    if (outcome() == Outcome::carried_out_late || outcome() == Outcome::never_carried_out) {
      server->set_observer([&](const auto& request, bool) { fall_silent(request); });
    } else {
      server->set_answer_observer(fall_silent);
    }
    std::vector<std::string> verdicts(static_cast<std::size_t>(silence().ranks));
    std::string wrong;
    run_threads(silence().ranks, [&](std::shared_ptr<Group> group) {
      StoryJob job(group, options, silence().ranks, silence().storage);
      job.async = silence().async;
      job.save(10, 1);
      job.manager.wait();
      group->barrier();
      counts = true;
      auto& verdict = verdicts[static_cast<std::size_t>(group->rank())];
      try {
        job.save(silence().step, 2);
        job.manager.wait();
      } catch (const Error& error) {
        verdict = error.what();
      }
      group->barrier();
      counts = false;
      if (group->rank() == 0) wrong += look(server, verdict.empty());
      group->barrier();
      if (group->rank() == 0 && silent) {
        answers.release();
        limited->wait_until_back();
      }
      group->barrier();
      job.save(30, 3);
      job.manager.wait();
    });
    for (const auto& verdict : verdicts) {
      if (verdict != verdicts.front()) wrong += cat(" other verdict: ", verdict);
      const bool is_clear = verdict.find("the storage has not answered") != verdict.npos;
      if (!verdict.empty() && !is_clear) wrong += cat(" not clear: ", verdict);
    }
    server->set_observer({});
    server->set_answer_observer({});
    const auto found = look_at_bucket(server, silence().ranks, wrong, silence().format);
    if (!found.contains(30) || found.at(30) != 3) wrong += " step 30 is lost";
    const bool keeps_all = silence().keep_last == 0;
    if (keeps_all && !found.contains(10)) wrong += " step 10 is lost";
    if (keeps_all && verdicts.front().empty() && found.at(silence().step) != 2) {
      wrong += " what was saved is lost";
    }
    EXPECT_EQ(wrong, "") << "silent at request " << at << " (" << where << "), after which "
                         << (verdicts.front().empty() ? "all was well" : verdicts.front());
    return silent;
  }

  // What a reader without a limit finds while the server does not answer that request.
  static std::string look(const std::shared_ptr<BucketServer>& server, bool saved) {
    auto reading = options_in(server, 0, silence().format);
    reading.read_only = true;
    StoryJob reader(serial_group(), reading, silence().ranks);
    const auto report = reader.manager.restore_latest(reader.state);
    if (!report || !report->skipped.empty() || !is_whole(reader)) return " no whole checkpoint";
    const bool is_expected = reader.stamp == 2 || (!saved && reader.stamp == 1);
    return is_expected ? "" : cat(" a reader found stamp ", reader.stamp);
  }
};

TEST_P(BucketLimit, OneVerdictWhereverItFallsSilent) {
  const std::size_t step = sanitized ? 7 : 1;
  std::size_t at = 0, rounds = 0;
  for (; round(at) && !HasFailure(); at += step) ++rounds;
  std::cout << "[ STATES   ] " << rounds << " requests\n";
  EXPECT_GT(rounds, sanitized ? 0u : 4u);
}

std::string name_of_silence(const testing::TestParamInfo<BucketLimit::ParamType>& info) {
  const auto& [silence, outcome] = info.param;
  constexpr std::array names = {"_carried_out_late", "_answered_late", "_never_carried_out",
                                "_never_answered"};
  return silence.name + names[static_cast<std::size_t>(outcome)];
}

std::vector<BucketSilence> silences() {
  return {{"one_rank", 1, 20},       {"three_ranks", 3, 20},
          {"over", 2, 10},           {"retention", 2, 20, 1},
          {"async", 2, 20, 1, true}, {"dense", 2, 20, 0, false, Storage::dense}};
}

INSTANTIATE_TEST_SUITE_P(
    All, BucketLimit,
    testing::Combine(testing::ValuesIn(silences()),
                     testing::Values(Outcome::carried_out_late, Outcome::answered_late,
                                     Outcome::never_carried_out, Outcome::never_answered)),
    name_of_silence);

}  // namespace
}  // namespace cairn::test
