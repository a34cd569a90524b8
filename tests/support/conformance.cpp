#include "support/conformance.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "cairn/log.hpp"
#include "session/option_text.hpp"
#include "tools/verify.hpp"
#ifdef CAIRN_CONFORMANCE_HDF5
#include "layout/hdf5/library.hpp"
#endif

namespace cairn::test {

namespace {

unsigned needs_of(const std::string& text) {
  return (text.find("libhdf5") != std::string::npos ? unsigned{libhdf5} : 0) |
         (text.find("+files") != std::string::npos ? unsigned{shared_files} : 0) |
         (text.find("+datasets") != std::string::npos ? unsigned{shared_datasets} : 0) |
         (text.find("+codec") != std::string::npos ? unsigned{codecs} : 0);
}

std::vector<Combination> read_combinations() {
  std::ifstream file(CAIRN_COMBINATIONS);
  std::vector<Combination> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Combination one;
    std::string needs, how;
    if (!(words >> one.name >> needs >> how) || one.name.starts_with("#")) continue;
    one.needs = needs_of(needs);
    one.asynchronous = how == "async";
    for (std::string option; words >> option;) {
      const auto equals = option.find('=');
      one.options.emplace_back(option.substr(0, equals), option.substr(equals + 1));
    }
    all.push_back(std::move(one));
  }
  if (all.empty()) throw std::runtime_error("no combinations in " CAIRN_COMBINATIONS);
  return all;
}

}  // namespace

const std::vector<Combination>& combinations() {
  static const auto all = read_combinations();
  return all;
}

void Combination::choose(ManagerOptions& to) const {
  for (const auto& [option, value] : options) set_option(to, option, value);
}

namespace {

constexpr bool with_hdf5 =
#ifdef CAIRN_CONFORMANCE_HDF5
    true;
#else
    false;
#endif

// Counts libhdf5's objects and ours, which include dataspaces and property lists.
std::int64_t open_hdf5_objects() {
#ifdef CAIRN_CONFORMANCE_HDF5
  const hdf5::Session session;
  return H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL) +
         hdf5::Handle::open_count();
#else
  return 0;
#endif
}

const Sample& large_field() {
  static const Sample sample{"u", DType::float64, {60, 25}};
  return sample;
}

}  // namespace

std::filesystem::path place_for_files() {
  const std::filesystem::path in_memory = "/dev/shm";
  return ::access(in_memory.c_str(), W_OK) == 0 ? in_memory
                                                : std::filesystem::temp_directory_path();
}

std::vector<ConformanceCase> conformance_cases() {
  std::vector<ConformanceCase> all;
  for (const auto& kind : launcher_kinds()) {
    const auto served = kind.serves | (with_hdf5 ? libhdf5 : 0U);
    for (const auto& one : combinations()) {
      if ((one.needs & ~served) == 0) all.push_back({one, kind});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Every, Conformance, ::testing::ValuesIn(conformance_cases()),
                         [](const auto& info) {
                           return info.param.combination.name + "_on_" + info.param.kind.name;
                         });

Fields::Fields(const Group& group, std::uint64_t version) : data_(version), words_(words(version)) {
  const Sample samples[] = {large_field(),
                            {"group/deep/v", DType::complex64, {5, 7, 3}},
                            {"group/flags", DType::boolean, {17}},
                            {"half", DType::float16, {33}},
                            {"empty", DType::float32, {0, 4}},
                            {"count", DType::int64, {}}};
  std::mt19937 random(static_cast<unsigned>(group.size()));
  int style = 0;
  for (const auto& sample : samples) {
    const auto held = deal(guillotine(sample.shape, 7, random), group.size(), true, random);
    data_.add(sample, held[static_cast<std::size_t>(group.rank())], style++ % 3);
  }
  data_.state().add("words", words_);
  data_.fill();
}

std::vector<std::string> Fields::words(std::uint64_t version) {
  return {"", cat("version ", version), std::string(version % 7 * 900, 'x')};
}

void Fields::poison() {
  data_.poison();
  for (auto& word : words_) word = "poison";
}

std::string Fields::check(std::uint64_t version) const {
  return words_ == words(version) ? data_.check(version) : "the words are wrong";
}

std::string Fields::pattern(std::uint64_t version) {
  std::string bytes(8, '\0');
  element_bytes(large_field(), 737, version, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

std::string unlike(const std::optional<Error>& error, const std::vector<Code>& codes,
                   const std::string& words) {
  if (!error) return "nothing was thrown";
  for (const auto code : codes) {
    if (error->code() != code) continue;
    return std::string(error->what()).find(words) != std::string::npos
               ? ""
               : cat("no '", words, "' in: ", error->what());
  }
  return cat("another error, ", code_name(error->code()), ": ", error->what());
}

void Conformance::SetUp() {
  set_log_sink({});
  launcher_ = GetParam().kind.make(GetParam().combination);
  launcher_->new_disk();
  open_before_ = open_hdf5_objects();
}

void Conformance::TearDown() {
  EXPECT_EQ(open_hdf5_objects(), open_before_) << "HDF5 objects were left open";
  launcher_.reset();
}

ManagerOptions Conformance::saving() const {
  ManagerOptions options;
  options.write.file_system = launcher_->files();
  options.write.chunk_bytes = 4096;
  GetParam().combination.choose(options);
  return options;
}

ManagerOptions Conformance::reading() const {
  ManagerOptions options;
  options.write.file_system = launcher_->files();
  options.write.chunk_bytes = 4096;
  options.read_only = true;
  return options;
}

int Conformance::some_ranks() const {
  const auto counts = launcher_->counts();
  return counts[counts.size() / 2];
}

void Conformance::on(int ranks, const std::string& what, const Body& body) const {
  launcher_->run(ranks, [&](std::shared_ptr<Group> group) {
    std::string wrong;
    try {
      wrong = body(group);
    } catch (const Error& error) {
      if (error.code() == Code::communication) throw;
      wrong = cat(code_name(error.code()), ": ", error.what());
    }
    EXPECT_EQ(wrong, "") << what << ", rank " << group->rank() << " of " << ranks;
  });
}

void Conformance::save(int ranks, std::int64_t step, std::uint64_t version) const {
  on(ranks, cat("save of step ", step), [&](auto group) {
    Fields mine(*group, version);
    CheckpointManager manager(group, directory(), saving());
    save(manager, step, mine.state());
    return "";
  });
}

void Conformance::save(CheckpointManager& manager, std::int64_t step, const State& state) const {
  if (!GetParam().combination.asynchronous) {
    manager.save(step, state);
    return;
  }
  manager.save_async(step, state);
  manager.wait();
}

void Conformance::expect_latest(int ranks, std::int64_t step, std::uint64_t version,
                                const std::string& what) const {
  on(ranks, what, [&](auto group) -> std::string {
    Fields mine(*group, version);
    mine.poison();
    const auto report =
        CheckpointManager(group, directory(), reading()).restore_latest(mine.state());
    if (!report) return "nothing to restore";
    if (report->step != step) return cat("step ", report->step, ", not ", step);
    return report->unchecked ? "bytes were not checked" : mine.check(version);
  });
}

void Conformance::expect_whole(std::int64_t step, const std::string& what) const {
  launcher_->once([&] {
    const auto report = verify_checkpoint({*launcher_->files(), prefix(step)});
    EXPECT_EQ(static_cast<int>(report.verdict()), static_cast<int>(Verdict::whole)) << what;
    for (const auto& finding : report.findings) ADD_FAILURE() << what << ": " << finding.what;
  });
}

std::filesystem::path Conformance::prefix(std::int64_t step) const {
  return directory() / cat("ckpt-", step);
}

std::vector<std::filesystem::path> Conformance::files_of(std::int64_t step) const {
  std::vector<std::filesystem::path> all;
  for (const auto& name : launcher_->files()->list(directory())) {
    if (name.starts_with(cat("ckpt-", step, "."))) all.push_back(directory() / name);
  }
  return all;
}

std::string Conformance::bytes_of(const std::filesystem::path& path) const {
  return io::read_file(*launcher_->files(), path, std::int64_t{1} << 30);
}

void Conformance::replace(const std::filesystem::path& path, const std::string& bytes) const {
  io::remove_if_there(*launcher_->files(), path);
  io::write_file(*launcher_->files(), path, bytes);
}

}  // namespace cairn::test
