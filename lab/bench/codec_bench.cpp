// What codecs of HDF5 checkpoints store, and what a save takes with them, beside the same save
// without one. Turns of all alternate; the median of each counts. States: bfloat16 weights (a file
// of their bytes, or numbers as after an initialisation), a Gray-Scott field after 5,000 steps, and
// noise. Each is saved to the disk as it is, and to one that takes 200 MB/s of each rank behind the
// page cache: there time should follow the stored bytes. With DIRECTORY in memory, only that pace
// and the processors count.
//
//   mpirun -n 2 codec_bench DIRECTORY [MIB OF EACH RANK [TURNS [FILE.json [WEIGHTS]]]]     (64 5)
#include <mpi.h>

#include <algorithm>
#include <cairn/cairn.hpp>
#include <cairn/file_system.hpp>
#include <cairn/mpi.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if CAIRN_BENCH_ZSTD
#include <zstd.h>
#endif

#include "raw_io.hpp"
#include "rows_of_json.hpp"

namespace {

using namespace cairn;

// The concentration of v on a periodic square grid after 5,000 steps.
std::vector<double> gray_scott() {
  constexpr int n = 512, steps = 5000;
  constexpr double feed = 0.04, kill = 0.06, du = 0.2, dv = 0.1;
  std::vector<double> u(n * n, 1), v(n * n, 0), next_u = u, next_v = v;
  for (int i = n / 2 - 10; i < n / 2 + 10; ++i) {
    for (int j = n / 2 - 10; j < n / 2 + 10; ++j) {
      u[static_cast<std::size_t>(i * n + j)] = 0.5;
      v[static_cast<std::size_t>(i * n + j)] = 0.25 + 0.01 * std::sin(7 * i + 3 * j);
    }
  }
  const auto at = [](int i, int j) {
    return static_cast<std::size_t>((i & (n - 1)) * n + (j & (n - 1)));
  };
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        const auto here = at(i, j);
        const auto spread = [&](const auto& f) {
          return f[at(i - 1, j)] + f[at(i + 1, j)] + f[at(i, j - 1)] + f[at(i, j + 1)] -
                 4 * f[here];
        };
        const double reaction = u[here] * v[here] * v[here];
        next_u[here] = u[here] + du * spread(u) - reaction + feed * (1 - u[here]);
        next_v[here] = v[here] + dv * spread(v) + reaction - (feed + kill) * v[here];
      }
    }
    u.swap(next_u), v.swap(next_v);
  }
  return v;
}

std::vector<std::byte> bytes_of(const auto& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof values[0]};
}

std::vector<std::byte> read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty()) throw std::runtime_error("there are no weights in " + path);
  return bytes_of(text);
}

// The higher halves of normal floats.
std::vector<std::byte> weights() {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<std::uint16_t> values(1 << 22);
  for (auto& one : values) {
    const float value = normal(random);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    one = static_cast<std::uint16_t>(bits >> 16);
  }
  return bytes_of(values);
}

std::vector<std::byte> noise() {
  std::mt19937_64 random(2);
  std::vector<std::uint64_t> values(1 << 20);
  for (auto& one : values) one = random();
  return bytes_of(values);
}

// A disk behind a page cache: a write is a copy, and a sync waits until the disk would have taken
// all bytes at its rate. For one thread.
class Disk {
 public:
  explicit Disk(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  void take(std::size_t bytes) {
    if (bytes_per_second_ <= 0) return;
    const std::chrono::duration<double> time(static_cast<double>(bytes) / bytes_per_second_);
    free_at_ = std::max(free_at_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
  }
  void settle() const { std::this_thread::sleep_until(free_at_); }

 private:
  using Clock = std::chrono::steady_clock;
  const double bytes_per_second_;
  Clock::time_point free_at_ = {};
};

class DiskFile : public io::File {
 public:
  DiskFile(std::unique_ptr<io::File> target, Disk& disk)
      : target_(std::move(target)), disk_(disk) {}

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    target_->write_at(offset, bytes);
    disk_.take(bytes.size());
  }
  void stream(DirectIo choice) override { target_->stream(choice); }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    target_->read_at(offset, bytes);
  }
  std::int64_t size() const override { return target_->size(); }
  std::optional<io::FileId> id() const override { return target_->id(); }
  void resize(std::int64_t bytes) override { target_->resize(bytes); }
  void reserve(std::int64_t bytes) override { target_->reserve(bytes); }
  void sync() override {
    target_->sync();
    disk_.settle();
  }
  void close() override { target_->close(); }

 private:
  std::unique_ptr<io::File> target_;
  Disk& disk_;
};

class DiskFiles : public io::FileSystemWrapper {
 public:
  explicit DiskFiles(Disk& disk) : FileSystemWrapper(io::posix_file_system()), disk_(disk) {}

  std::unique_ptr<io::File> create(const io::Path& path) override {
    return std::make_unique<DiskFile>(target().create(path), disk_);
  }
  std::unique_ptr<io::File> open_write(const io::Path& path) override {
    return std::make_unique<DiskFile>(target().open_write(path), disk_);
  }

 private:
  Disk& disk_;
};

class Bench {
 public:
  Bench(std::filesystem::path directory, std::int64_t mib, int turns)
      : directory_(std::move(directory)), bytes_(mib << 20), turns_(turns) {}

  // Fills each rank's memory with this sample, again and again if that is shorter.
  void run(const char* what, DType dtype, std::vector<std::byte> sample) {
    const auto item = static_cast<std::int64_t>(dtype_size(dtype));
    std::vector<std::byte> mine;
    while (std::ssize(mine) < bytes_) mine.insert(mine.end(), sample.begin(), sample.end());
    mine.resize(static_cast<std::size_t>(bytes_));
    tell_zstd(what, sample);
    const auto memory = host_memory(dtype, mine.data(), mine.data(), {bytes_ / item}, {});
    State state;
    LocalTensor tensor{dtype, {ranks_.size() * bytes_ / item}, {}, nullptr};
    tensor.slices.push_back({{{ranks_.rank() * bytes_ / item}, {bytes_ / item}}, memory, {}});
    state.add("x", std::move(tensor));
    for (const double pace : {0.0, 200e6}) compare(what, state, pace);
  }
  const nlohmann::json& rows() const { return rows_; }

 private:
  // The goal of a field is the ratio of zstd -1.
  void tell_zstd(const char* what, const std::vector<std::byte>& bytes) {
#if CAIRN_BENCH_ZSTD
    if (ranks_.rank() != 0) return;
    std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
    const auto length = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1);
    const auto ratio = static_cast<double>(length) / static_cast<double>(bytes.size());
    rows_.push_back({{"measure", "zstd -1 by hand"}, {"what", what}, {"ratio", ratio}});
    std::printf("%-8s zstd -1 of all bytes as they are: ratio %6.3f\n", what, 1 / ratio);
#else
    static_cast<void>(what), static_cast<void>(bytes);
#endif
  }

  struct Way {
    StoreCodec codec;
    std::unique_ptr<CheckpointManager> manager;
    std::vector<double> seconds = {};
  };

  void compare(const char* what, const State& state, double bytes_per_second) {
    Disk disk(bytes_per_second);
    std::vector<Way> ways;
    for (const auto codec : {StoreCodec::none, StoreCodec::deflate, StoreCodec::zstd,
                             StoreCodec::blosc, StoreCodec::automatic}) {
      ManagerOptions options;
      options.write.file_system = std::make_shared<DiskFiles>(disk);
      options.keep.last = 1;
      options.store.format = Format::hdf5;
      options.store.codec = codec;
      const auto place = directory_ / std::to_string(place_++);
      ways.push_back({codec, std::make_unique<CheckpointManager>(group_, place, options)});
    }
    constexpr int first = 2;
    for (int step = 1; step <= first + turns_; ++step) {
      for (auto& way : ways) {
        const auto seconds = timed([&] { way.manager->save(step, state); });
        if (step > first) way.seconds.push_back(seconds);
      }
    }
    const auto raw = static_cast<double>(bytes_ * ranks_.size());
    for (const auto& way : ways) {
      const auto stored = static_cast<double>(way.manager->open(first + turns_).total_bytes());
      const auto name = std::string(words(way.codec)[static_cast<std::size_t>(way.codec)]);
      rows_.push_back(bench::row_of(name,
                                    std::string(what) + (bytes_per_second > 0 ? ", paced" : ""),
                                    ranks_.size(), stored, way.seconds, ways[0].seconds));
      if (ranks_.rank() != 0) continue;
      std::printf("%-8s %-9s %-8s ratio %6.3f, stored/raw %.5f, time/none %.3f, %.4f s\n", what,
                  bytes_per_second > 0 ? "paced" : "as it is", name.c_str(), raw / stored,
                  stored / raw, bench::median_ratio(way.seconds, ways[0].seconds),
                  bench::median(way.seconds));
      std::fflush(stdout);
    }
  }
  double timed(const std::function<void()>& what) const {
    ranks_.barrier();
    const double begin = MPI_Wtime();
    what();
    return ranks_.max(MPI_Wtime() - begin);
  }

  const bench::Ranks ranks_{MPI_COMM_WORLD};
  const std::shared_ptr<Group> group_ = cairn::mpi(MPI_COMM_WORLD);
  const std::filesystem::path directory_;
  const std::int64_t bytes_;
  const int turns_;
  int place_ = 0;
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc < 2) {
      throw std::runtime_error("usage: codec_bench DIRECTORY [MIB [TURNS [FILE [WEIGHTS]]]]");
    }
    Bench bench(argv[1], argc > 2 ? std::atoll(argv[2]) : 64, argc > 3 ? std::atoi(argv[3]) : 5);
    bench.run("weights", DType::bfloat16, argc > 5 ? read(argv[5]) : weights());
    bench.run("field", DType::float64, bytes_of(gray_scott()));
    bench.run("noise", DType::int64, noise());
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) bench::write_rows(argc > 4 ? argv[4] : "", bench.rows());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "codec_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
