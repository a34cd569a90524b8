// Makes the directories whose files are damaged, and the damage.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "lab/campaigns/programs/flip_case.hpp"
#include "testing/threads.hpp"

namespace cairn::campaign {
namespace {

using Bytes = std::string;

struct Job {
  int ranks = 1, io_ranks = 0, saves = 1, keep = 0;
  Format format = Format::bundle;
  bool dies = false, has_pending = false, pins = false, returns = false;
};

Job choose_job(Random& random, bool direct, bool hdf5) {
  Job job;
  job.ranks = random.between(1, 3);
  if (hdf5 && !direct && random.one_in(2)) job.format = Format::hdf5;
  if (random.one_in(5)) job.io_ranks = 1;
  job.saves = random.between(1, 3);
  job.keep = random.one_in(3) ? 2 : 0;
  job.dies = random.one_in(3);
  job.has_pending = job.dies && random.one_in(2);
  job.pins = random.one_in(5);
  job.returns = random.one_in(5);
  return job;
}

std::string text_of(const Job& job) {
  return cat(job.ranks, " ranks, ", job.format == Format::hdf5 ? "hdf5" : "bundle",
             job.io_ranks ? ", io ranks" : "", ", ", job.saves, " saves, max_to_keep ", job.keep,
             job.returns ? ", goes back" : "", job.pins ? ", pins" : "", job.dies ? ", dies" : "",
             job.has_pending ? " with a save in flight" : "");
}

// Runs one rank of a job to its end.
void run(const Job& job, Home& home, std::int64_t first_stamp, std::shared_ptr<Group> group,
         std::shared_ptr<io::MemoryFileSystem> disk) {
  ManagerOptions options;
  options.write.file_system = disk;
  options.store.format = job.format;
  options.keep.last = job.keep;
  options.write.owner_wait_seconds = 0;
  options.write.chunk_bytes = 4096;
  options.write.atomic_rename = !home.direct;
  options.write.skip_unchanged = SkipUnchanged::on;
  options.async.queue = inline_queue();
  if (job.io_ranks > 0) options.write.io_ranks = IoRanks::count(job.io_ranks);
  const bool root = group->rank() == 0;
  StampedState mine(group, home.shape);
  CheckpointManager manager(group, "/run", options);
  manager.restore_latest(mine.state());
  auto steps = manager.steps();
  std::int64_t step = 0;
  for (const auto& one : steps) step = std::max(step, one.step);
  if (job.returns && steps.size() > 1) manager.restore(steps.front().step, mine.state());
  std::map<std::int64_t, std::int64_t> stamps = home.saved;
  std::int64_t stamp = first_stamp, pending = -1;
  group->barrier();  // all have read what is at home
  for (int i = 0; i < job.saves; ++i) {
    mine.fill(++stamp);
    manager.save(++step, mine.state());
    stamps[step] = stamp;
  }
  if (job.pins) manager.pin(step);
  steps = manager.steps();
  const auto newest = steps.back().step;
  if (job.has_pending) {
    mine.fill(++stamp);
    manager.save_async(pending = ++step, mine.state());
    stamps[step] = stamp;
    mine.spoil();
  }
  group->barrier();
  if (root) {
    home.saved.clear();
    home.pinned.clear();
    for (const auto& one : steps) {
      home.saved[one.step] = stamps[one.step];
      if (one.pinned) home.pinned.insert(one.step);
    }
    if (pending >= 0) home.saved[pending] = stamps[pending];
    home.newest = newest;
    home.pending = pending;
    if (job.dies) home.disk = disk->crash(disk->operation_count(), {.keep = true});
  }
  group->barrier();
}

Bytes read(io::FileSystem& disk, const std::string& path) {
  return io::read_file(disk, path, std::int64_t{1} << 26);
}

void write(io::FileSystem& disk, const std::string& path, const Bytes& bytes) {
  const auto file = disk.open_write(path);
  file->resize(0);
  file->write_at(0, std::as_bytes(std::span(bytes)));
  file->sync();
}

// Any offset, but often near an end, where formats have their heads and seals.
std::size_t choose_offset(std::size_t size, Random& random) {
  const auto near = static_cast<int>(std::min<std::size_t>(size, 512));
  switch (random.below(4)) {
    case 0:
      return static_cast<std::size_t>(random.below(near));
    case 1:
      return size - 1 - static_cast<std::size_t>(random.below(near));
    default:
      return static_cast<std::size_t>(random.below(static_cast<int>(size)));
  }
}

// Changes the bytes; returns whether there was anything to change.
bool change(Bytes& bytes, Damage& damage, Random& random) {
  const auto before = bytes;
  const bool in_place = damage.kind != Damage::Kind::growth;
  if (in_place && bytes.empty()) return false;
  auto from = in_place ? choose_offset(bytes.size(), random) : bytes.size();
  std::size_t count = 1;
  const auto limit = [&] { count = std::min(count, bytes.size() - from); };
  switch (damage.kind) {
    case Damage::Kind::bit:
      bytes[from] = static_cast<char>(bytes[from] ^ (1 << random.below(8)));
      break;
    case Damage::Kind::burst:
      count = static_cast<std::size_t>(random.between(2, 64));
      limit();
      for (auto i = from; i < from + count; ++i) bytes[i] = static_cast<char>(random.next());
      break;
    case Damage::Kind::zeros:
      count = static_cast<std::size_t>(random.one_in(3) ? 4096 : random.between(1, 700));
      if (random.one_in(2)) from -= from % 512;
      limit();
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), count, '\0');
      break;
    case Damage::Kind::cut:
      if (random.one_in(4)) from = 0;
      count = bytes.size() - from;
      bytes.resize(from);
      break;
    case Damage::Kind::growth: {
      count = static_cast<std::size_t>(random.between(1, random.one_in(2) ? 16 : 5000));
      const bool zeros = random.one_in(2);
      for (auto i = count; i > 0; --i) bytes += zeros ? '\0' : static_cast<char>(random.next());
      break;
    }
    case Damage::Kind::exchange:
      break;
  }
  static const char* const words[] = {"a bit of ", "a burst of ", "zeros for ", "cut off ",
                                      "grown by "};
  damage.text = cat(damage.file, ": ", words[static_cast<int>(damage.kind)], count, " bytes at ",
                    from, " of ", before.size());
  return bytes != before;
}

}  // namespace

std::vector<std::string> files_of(io::FileSystem& disk, const io::Path& directory) {
  std::vector<std::string> all;
  for (const auto& name : disk.list(directory)) {
    const auto path = directory / name;
    if (!disk.status(path)->is_directory) {
      all.push_back(path.string());
      continue;
    }
    const auto within = files_of(disk, path);
    all.insert(all.end(), within.begin(), within.end());
  }
  return all;
}

Home make_home(std::uint64_t seed, bool hdf5) {
  Random random(seed);
  Home home;
  home.seed = seed;
  home.direct = random.one_in(6);
  home.shape.rows = random.between(1, 5);
  home.shape.columns = std::array{2, 90, 700, 1500}[static_cast<std::size_t>(random.below(4))];
  home.shape.sliced = random.one_in(2);
  home.shape.dense = random.one_in(2);
  home.shape.ragged = random.one_in(2);
  home.shape.text = random.one_in(2);
  home.text = cat("seed ", seed, ": ", home.shape.rows, " x ", home.shape.columns,
                  home.direct ? ", no renames" : "");
  const int jobs = random.between(1, 2);
  for (int number = 0; number < jobs; ++number) {
    const auto job = choose_job(random, home.direct, hdf5);
    home.text += cat("; ", text_of(job));
    const auto disk = home.disk ? home.disk : std::make_shared<io::MemoryFileSystem>();
    home.disk = disk;
    ThreadOptions threads;
    threads.seed = static_cast<unsigned>(seed) * 7 + static_cast<unsigned>(number);
    run_threads(
        job.ranks,
        [&](std::shared_ptr<Group> group) {
          run(job, home, (number + 1) * 100, std::move(group), disk);
        },
        threads);
  }
  home.disk->mark();
  return home;
}

Damage do_damage(io::MemoryFileSystem& disk, Random& random) {
  const auto files = files_of(disk, "/run");
  const auto any = [&] {
    return files[static_cast<std::size_t>(random.below(static_cast<int>(files.size())))];
  };
  for (;;) {
    Damage damage;
    damage.kind = static_cast<Damage::Kind>(random.below(Damage::kinds));
    damage.file = any();
    auto bytes = read(disk, damage.file);
    if (damage.kind == Damage::Kind::exchange) {
      damage.other = any();
      const auto others = read(disk, damage.other);
      if (others == bytes) continue;
      write(disk, damage.file, others);
      write(disk, damage.other, bytes);
      damage.text = cat(damage.file, " and ", damage.other, " exchanged");
      return damage;
    }
    if (!change(bytes, damage, random)) continue;
    write(disk, damage.file, bytes);
    return damage;
  }
}

}  // namespace cairn::campaign
