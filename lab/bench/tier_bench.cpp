// Checkpoints on the nodes beside bare programs that do the same: files in memory with checksums,
// parity that is sent and added up by ISA-L, and restores from home in the page cache; and what an
// application feels of a flush; and a lost piece that is computed. Each rank is a pretended node.
// Whoever's turn it is, an order drawn anew; seconds from a barrier until the slowest rank is done.
//
//   mpirun -n 4 tier_bench DIR [MIB [REPETITIONS [FILE.json]]]   (256 of each rank, 9)
//
// DIR is home. The nodes' directories are made in /dev/shm, and removed.
#include <fcntl.h>
#include <isa-l/raid.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "raw_io.hpp"
#include "rows_of_json.hpp"
#include "store/nodes/parity.hpp"

namespace {

namespace fs = std::filesystem;
using cairn::bench::median;

constexpr std::int64_t block = std::int64_t{1} << 20;

std::size_t nth(std::int64_t i) { return static_cast<std::size_t>(i); }

void check(int code) {
  if (code != MPI_SUCCESS) throw std::runtime_error("MPI fails");
}

void write_all(int file, const std::byte* bytes, std::int64_t size, std::int64_t at) {
  while (size > 0) {
    const auto done = ::pwrite(file, bytes, nth(size), at);
    if (done <= 0) throw std::runtime_error("a write fails");
    bytes += done, size -= done, at += done;
  }
}

/// A checkpoint of one rank made by hand: one file has checksums of each block, another the parity
/// of the other ranks' blocks; the two checkpoints before it are kept.
class ByHand {
 public:
  ByHand(const std::vector<double>& state, int rank, int ranks, const std::string& place)
      : bytes_(reinterpret_cast<const std::byte*>(state.data())),
        size_(static_cast<std::int64_t>(8 * state.size())),
        rank_(rank),
        ranks_(ranks),
        place_(place) {
    void* memory = nullptr;
    if (::posix_memalign(&memory, 4096, nth(block * (ranks + 1))) != 0) throw std::bad_alloc();
    blocks_ = static_cast<std::byte*>(memory);
    fs::create_directories(place_);
  }
  ~ByHand() { std::free(blocks_); }
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;

  void save(bool parity) {
    const auto name = place_ + "/" + std::to_string(number_++);
    write(name);
    if (parity) add_parity(name + ".parity");
    check(MPI_Barrier(MPI_COMM_WORLD));  // the verdict
    kept_.push_back(name);
    if (kept_.size() <= 2) return;
    ::unlink(kept_.front().c_str());
    ::unlink((kept_.front() + ".parity").c_str());
    kept_.pop_front();
  }

 private:
  void write(const std::string& name) {
    const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0) throw std::runtime_error("cannot make " + name);
    std::vector<std::uint32_t> sums;
    for (std::int64_t at = 0; at < size_; at += block) {
      const auto some = std::min(block, size_ - at);
      sums.push_back(cairn::crc32c({bytes_ + at, nth(some)}));
      write_all(file, bytes_ + at, some, 4096 + at);
    }
    write_all(file, reinterpret_cast<const std::byte*>(sums.data()), 4, 0);
    if (::close(file) != 0) throw std::runtime_error("a close fails");
  }
  // Each rank sends one block to each other rank, and adds up the blocks that it gets.
  void add_parity(const std::string& name) {
    const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0) throw std::runtime_error("cannot make " + name);
    std::int64_t at = 0;
    for (std::int64_t cycle = 0; at < size_; ++cycle) {
      std::vector<MPI_Request> requests;
      std::vector<void*> sources;
      for (int other = 0; other < ranks_; ++other) {
        if (other == rank_) continue;
        auto* const to = blocks_ + block * static_cast<std::int64_t>(sources.size());
        sources.push_back(to);
        check(MPI_Irecv(to, static_cast<int>(block), MPI_BYTE, other, 0, MPI_COMM_WORLD,
                        &requests.emplace_back()));
      }
      for (int other = 0; other < ranks_; ++other) {
        if (other == rank_) continue;
        const auto from = std::min(at, size_ - block);
        check(MPI_Isend(bytes_ + from, static_cast<int>(block), MPI_BYTE, other, 0, MPI_COMM_WORLD,
                        &requests.emplace_back()));
        at += block;
      }
      check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
      auto* const sum = blocks_ + block * ranks_;
      if (sources.size() > 1) {
        sources.push_back(sum);
        if (xor_gen(static_cast<int>(sources.size()), static_cast<int>(block), sources.data()) !=
            0) {
          throw std::runtime_error("xor_gen fails");
        }
        write_all(file, sum, block, cycle * block);
      } else {
        write_all(file, static_cast<std::byte*>(sources[0]), block, cycle * block);
      }
    }
    if (::close(file) != 0) throw std::runtime_error("a close fails");
  }

  const std::byte* bytes_;
  std::int64_t size_;
  int rank_, ranks_;
  std::string place_;
  std::byte* blocks_;
  std::int64_t number_ = 0;
  std::deque<std::string> kept_;
};

/// A piece that is lost on the first rank, from the others' and their parity: as a restart computes
/// it, with the checksums of parity and of what was computed; and by a bare program that reads,
/// sends and adds up as many bytes.
class Rebuild {
 public:
  Rebuild(std::shared_ptr<cairn::Group> group, std::int64_t bytes, const std::string& place)
      : group_(std::move(group)),
        rank_(group_->rank()),
        ranks_(group_->size()),
        size_(bytes),
        buffer_(nth(block)) {
    set_.code = cairn::protect::code_of(ranks_, 1);
    for (int node = 0; node < ranks_; ++node)
      set_.members.push_back({{node}, {size_}, false, true, {}, {}});
    set_.block_bytes = cairn::protect::choose_block_bytes(set_.code, size_);
    fs::create_directories(place);
    piece_ = make(place + "/piece"), parity_ = make(place + "/parity"), new_ = make(place + "/new");
    for (std::int64_t at = 0; at < size_; at += block) {
      std::fill(buffer_.begin(), buffer_.end(), static_cast<std::byte>(at / block + rank_));
      write_all(piece_, buffer_.data(), std::min(block, size_ - at), at);
      sums_.push_back(cairn::crc32c(std::span(buffer_).first(nth(std::min(block, size_ - at)))));
    }
    const auto room = cairn::protect::Room::to_make(set_);
    cairn::protect::make_parity(
        *group_, set_, rank_, [this](int, auto at, auto to) { read(piece_, to, at); },
        [this](auto number, auto bytes) {
          crcs_.resize(std::max(crcs_.size(), nth(number + 1)));
          crcs_[nth(number)] = cairn::crc32c(bytes);
          write_all(parity_, bytes.data(), std::ssize(bytes), number * set_.block_bytes);
        },
        room);
    set_.members[0].is_lost = true;
    stock_.resize(nth(ranks_));
    auto& mine = stock_[nth(rank_)];
    mine.read_part = [this](int, auto at, auto to) { read(piece_, to, at); };
    mine.read_parity = [this](auto number, auto to) {
      read(parity_, to, number * set_.block_bytes);
      if (cairn::crc32c(to) != crcs_[nth(number)]) throw std::runtime_error("parity is wrong");
    };
    mine.write_part = [this](int, auto at, auto bytes) {
      write_all(new_, bytes.data(), std::ssize(bytes), at);
    };
  }
  ~Rebuild() {
    for (const int file : {piece_, parity_, new_}) ::close(file);
  }
  Rebuild(const Rebuild&) = delete;
  Rebuild& operator=(const Rebuild&) = delete;

  void empty() {
    if (::ftruncate(new_, 0) != 0) throw std::runtime_error("a file cannot be emptied");
  }
  void as_a_restart() {
    const auto room = cairn::protect::Room::to_compute(set_);
    cairn::protect::compute_lost(*group_, set_, stock_, room);
    if (rank_ == 0) prove();
  }
  void by_hand() {
    std::vector<std::vector<std::byte>> blocks(nth(ranks_),
                                               std::vector<std::byte>(nth(block) + 64));
    const auto aligned = [](std::vector<std::byte>& bytes) {
      void* at = bytes.data();
      auto space = bytes.size();
      return static_cast<std::byte*>(std::align(64, nth(block), at, space));
    };
    const auto chunk = static_cast<int>(block);
    for (std::int64_t at = 0; at < size_; at += block) {
      if (rank_ > 0) {
        read(piece_, {aligned(blocks[0]), nth(block)}, at);
        check(MPI_Send(aligned(blocks[0]), chunk, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
        continue;
      }
      std::vector<MPI_Request> requests;
      std::vector<void*> all;
      for (int other = 1; other < ranks_; ++other) {
        all.push_back(aligned(blocks[nth(other)]));
        check(MPI_Irecv(all.back(), chunk, MPI_BYTE, other, 0, MPI_COMM_WORLD,
                        &requests.emplace_back()));
      }
      check(MPI_Waitall(ranks_ - 1, requests.data(), MPI_STATUSES_IGNORE));
      all.push_back(aligned(blocks[0]));
      if (all.size() > 2 && xor_gen(static_cast<int>(all.size()), chunk, all.data()) != 0) {
        throw std::runtime_error("xor_gen fails");
      }
      write_all(new_, static_cast<std::byte*>(all[all.size() == 2 ? 0 : all.size() - 1]),
                std::min(block, size_ - at), at);
    }
  }

 private:
  static int make(const std::string& name) {
    const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0) throw std::runtime_error("cannot make " + name);
    return file;
  }
  // Bytes beyond the end are zeros.
  static void read(int file, std::span<std::byte> to, std::int64_t at) {
    const auto done = ::pread(file, to.data(), to.size(), at);
    if (done < 0) throw std::runtime_error("a read fails");
    std::fill(to.begin() + done, to.end(), std::byte{});
  }
  // Checks that the result is what the first rank had.
  void prove() {
    for (std::int64_t at = 0; at < size_; at += block) {
      const auto some = std::span(buffer_).first(nth(std::min(block, size_ - at)));
      read(new_, some, at);
      if (cairn::crc32c(some) != sums_[nth(at / block)]) throw std::runtime_error("wrong bytes");
    }
  }

  std::shared_ptr<cairn::Group> group_;
  int rank_, ranks_;
  std::int64_t size_;
  std::vector<std::byte> buffer_;
  cairn::protect::Set set_;
  std::vector<cairn::protect::Stock> stock_;
  int piece_ = -1, parity_ = -1, new_ = -1;
  std::vector<std::uint32_t> sums_, crcs_;
};

/// What an application does between saves: it sweeps over its memory, and sums over ranks.
class Application {
 public:
  explicit Application(std::int64_t bytes) : old_(nth(bytes / 16), 1), now_(nth(bytes / 16)) {}
  void compute() {
    for (int sweep = 0; sweep < 20; ++sweep) {
      double sum = 0;
      for (std::size_t i = 1; i + 1 < old_.size(); ++i) {
        now_[i] = 0.25 * old_[i - 1] + 0.5 * old_[i] + 0.25 * old_[i + 1];
        sum += now_[i];
      }
      check(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
      old_.swap(now_);
    }
  }

 private:
  std::vector<double> old_, now_;
};

struct Contest {
  std::string measure, what;
  std::function<void()> run;
  std::size_t beside;                                   // which one of the list
  std::function<void()> before = [] {}, after = [] {};  // not measured
  std::vector<double> seconds = {};
};

int run(int argc, char** argv) {
  int rank = 0, ranks = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  if (argc < 2) throw std::runtime_error("usage: tier_bench DIR [MIB [REPETITIONS [FILE.json]]]");
  const std::string home = argv[1];
  const auto mib = argc > 2 ? std::atoll(argv[2]) : 256;
  const int repetitions = argc > 3 ? std::atoi(argv[3]) : 9;
  const std::string json = argc > 4 ? argv[4] : "";
  if (ranks < 2) throw std::runtime_error("parity needs two ranks");
  const auto columns = mib * block / 8;
  std::vector<double> values(nth(columns)), read(nth(columns));
  for (std::int64_t i = 0; i < columns; ++i) values[nth(i)] = static_cast<double>(i * ranks + rank);
  cairn::State state, wanted;
  const cairn::Dims shape{ranks, columns};
  state.add("u", cairn::slice(values.data(), shape, {rank, 0}, {1, columns}));
  wanted.add("u", cairn::slice(read.data(), shape, {rank, 0}, {1, columns}));

  const std::string shm = "/dev/shm/cairn-tier-bench";
  const auto options = [&](cairn::Protection protection, const std::string& name) {
    cairn::ManagerOptions all;
    all.write.skip_unchanged = cairn::SkipUnchanged::off;  // at home all bytes are to be written
    all.tier.directory = shm + "/" + name + "-%n";
    all.tier.protection = protection;
    all.tier.set_nodes = std::max(2, std::min(ranks, 8));
    all.tier.home_every = 0;
    all.tier.node = std::to_string(rank);
    return all;
  };
  const auto group = cairn::mpi(MPI_COMM_WORLD);
  if (rank == 0) fs::remove_all(shm), fs::create_directories(shm);
  check(MPI_Barrier(MPI_COMM_WORLD));
  cairn::CheckpointManager bare(group, home + "/none", options(cairn::Protection::none, "none"));
  cairn::CheckpointManager safe(group, home + "/xor", options(cairn::Protection::parity, "xor"));
  cairn::CheckpointManager at_home(group, home + "/home", {});
  std::int64_t step = 0;
  bare.save(++step, state);
  safe.save(step, state);
  at_home.save(step, state);
  ByHand hand(values, rank, ranks, shm + "/hand-" + std::to_string(rank));
  ByHand hand_xor(values, rank, ranks, shm + "/hand-xor-" + std::to_string(rank));

  constexpr std::int64_t slow = 50'000'000;
  const auto flushing = [&](const std::string& name, std::int64_t limit) {
    auto some = options(cairn::Protection::none, name);
    some.tier.home_every = 1;
    some.tier.flush_bytes_per_second = limit;
    return some;
  };
  cairn::CheckpointManager slowly(group, home + "/slow", flushing("slow", slow));
  cairn::CheckpointManager fast(group, home + "/fast", flushing("fast", slow * 1'000'000));
  slowly.save(step, state);
  fast.save(step, state);
  Rebuild rebuild(group, mib * block, shm + "/rebuild-" + std::to_string(rank));
  Application application(mib * block / 4);
  // A limited flush is still under way when the application is done; the rest is not measured.
  const auto begin = [&](auto& manager) { return [&] { manager.save(++step, state); }; };
  const auto end = [](auto& manager) { return [&] { manager.wait(); }; };

  std::vector<Contest> all{
      {"save", "by hand, with checksums", [&] { hand.save(false); }, 0},
      {"save", "on the nodes, protection none", [&] { bare.save(++step, state); }, 0},
      {"save", "by hand, checksums and parity", [&] { hand_xor.save(true); }, 2},
      {"save", "on the nodes, xor", [&] { safe.save(++step, state); }, 2},
      {"restore", "home, page cache", [&] { at_home.restore_latest(wanted); }, 4},
      {"restore", "the nodes, all back", [&] { safe.restore_latest(wanted); }, 4},
      {"compute", "alone", [&] { application.compute(); }, 6},
      {"compute", "beside a flush of 50 MB/s", [&] { application.compute(); }, 6, begin(slowly),
       end(slowly)},
      {"compute", "beside a flush without limit", [&] { application.compute(); }, 6, begin(fast),
       end(fast)},
      {"rebuild", "by hand", [&] { rebuild.by_hand(); }, 9, [&] { rebuild.empty(); }},
      {"rebuild", "as a restart does", [&] { rebuild.as_a_restart(); }, 9,
       [&] { rebuild.empty(); }},
  };
  std::mt19937 random(1);
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (int turn = -2; turn < repetitions; ++turn) {  // two to warm up: older ones go from then on
    std::shuffle(order.begin(), order.end(), random);
    for (const auto i : order) {
      std::fill(read.begin(), read.end(), 0);
      all[i].before();
      check(MPI_Barrier(MPI_COMM_WORLD));
      const auto start = MPI_Wtime();
      all[i].run();
      auto seconds = MPI_Wtime() - start;
      all[i].after();
      check(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
      if (turn >= 0) all[i].seconds.push_back(seconds);
      if (all[i].measure == "restore" && read != values) throw std::runtime_error("wrong values");
    }
  }
  nlohmann::json rows;
  const auto bytes = static_cast<double>(mib * block * ranks);
  const auto tell = [&](const Contest& one) {
    if (rank != 0) return;
    const auto& beside = all[one.beside].seconds;
    std::printf("%-8s %-32s %8.1f ms  %6.2f GB/s  x %.2f\n", one.measure.c_str(), one.what.c_str(),
                1000 * median(one.seconds), bytes / median(one.seconds) / 1e9,
                cairn::bench::median_ratio(one.seconds, beside));
    rows.push_back(
        cairn::bench::row_of("tiers, " + one.measure, one.what, ranks, bytes, one.seconds, beside));
  };
  for (const auto& one : all) tell(one);
  // How much time parity adds, for each way.
  std::vector<double> adds;
  for (std::size_t i = 0; i < all[0].seconds.size(); ++i) {
    adds.push_back((all[3].seconds[i] - all[1].seconds[i]) /
                   (all[2].seconds[i] - all[0].seconds[i]));
  }
  if (rank == 0) std::printf("parity adds %.2f x what it adds by hand\n", median(adds));
  if (rank == 0) cairn::bench::write_rows(json, rows);
  check(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) fs::remove_all(shm);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 1;
  try {
    code = run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tier_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return code;
}
