// Makes the directories whose files are damaged, and the damage.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "lab/campaigns/programs/codecs.hpp"
#include "lab/campaigns/programs/flip_case.hpp"
#include "store/contents/contents_reader.hpp"
#include "testing/threads.hpp"

namespace cairn::campaign {
namespace {

using Bytes = std::string;

struct Job {
  int ranks = 1, io_ranks = 0, saves = 1, keep = 0;
  Format format = Format::bundle;
  StoreCodec codec = StoreCodec::none;
  bool dies = false, has_pending = false, pins = false, returns = false;
  bool async = false;  // the last of the blocking saves is none
  Until until = Until::captured;
};

Job choose_job(Random& random, const Home& home, bool hdf5) {
  const bool direct = home.direct;
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
  if (job.format == Format::hdf5 && home.encodes) job.codec = choose_codec(random);
  job.async = random.one_in(3);
  if (random.one_in(2)) job.until = Until::released;
  // A file is written over once its checkpoint has gone, which takes some saves.
  if (home.shape.kept && job.format == Format::bundle) {
    job.saves = random.between(3, 5);
    job.keep = random.between(home.clones ? 0 : 1, 2);
  }
  return job;
}

std::string text_of(const Job& job) {
  return cat(job.ranks, " ranks, ", job.format == Format::hdf5 ? "hdf5" : "bundle",
             job.codec == StoreCodec::none ? "" : cat(" by ", name_of(job.codec)),
             job.io_ranks ? ", io ranks" : "", ", ", job.saves, " saves, max_to_keep ", job.keep,
             job.returns ? ", goes back" : "", job.pins ? ", pins" : "", job.dies ? ", dies" : "",
             job.has_pending ? " with a save in flight" : "", job.async ? ", asynchronous" : "",
             job.until == Until::released ? ", in place" : "");
}

// Runs one rank of a job to its end.
void run(const Job& job, Home& home, std::int64_t first_stamp, std::set<std::int64_t>& skipped,
         std::shared_ptr<Group> group, std::shared_ptr<io::MemoryFileSystem> disk) {
  ManagerOptions options;
  options.write.file_system = disk;
  options.store.format = job.format;
  options.store.codec = job.codec;
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
    stamps[++step] = stamp;
    if (job.async && i + 1 == job.saves) {
      manager.save_async(step, mine.state(), {.until = job.until}).release();
      mine.spoil();
      manager.wait();
    } else {
      manager.save(step, mine.state());
    }
  }
  if (job.pins) manager.pin(step);
  steps = manager.steps();
  const auto newest = steps.back().step;
  if (job.has_pending) {
    mine.fill(++stamp);
    manager.save_async(pending = ++step, mine.state(), {.until = job.until}).release();
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
    for (const auto& one : manager.statistics().last) {
      if (one.unchanged_bytes == 0) continue;
      home.unchanged_bytes += one.unchanged_bytes;
      skipped.insert(one.step);
    }
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

// Bytes of a kind that few files have; no file: any bytes of any.
Home::Range choose_aim(const Home& home, Random& random) {
  if (!random.one_in(3)) return {};
  const auto& all = home.left_out.empty() ? home.encoded : home.left_out;
  if (all.empty()) return {};
  return all[static_cast<std::size_t>(random.below(static_cast<int>(all.size())))];
}

// Any offset, but often near an end, where formats have their heads and seals.
std::size_t choose_offset(std::size_t size, const Home::Range& aim, Random& random) {
  if (aim.begin < aim.end) {
    const auto within = random.below(static_cast<int>(aim.end - aim.begin));
    return static_cast<std::size_t>(aim.begin + within);
  }
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
bool change(Bytes& bytes, const Home::Range& aim, Damage& damage, Random& random) {
  const auto before = bytes;
  const bool in_place = damage.kind != Damage::Kind::growth;
  if (in_place && bytes.empty()) return false;
  auto from = in_place ? choose_offset(bytes.size(), aim, random) : bytes.size();
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
  damage.begin = std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end()).first -
                 before.begin();
  damage.text = cat(damage.file, ": ", words[static_cast<int>(damage.kind)], count, " bytes at ",
                    from, " of ", before.size());
  return bytes != before;
}

}  // namespace

namespace {

// Notes the whole blocks of the base that saves have left out, and the encoded files.
void note_bytes(Home& home, const std::set<std::int64_t>& skipped) {
  constexpr std::int64_t block = 65536;
  for (const auto& [step, stamp] : home.saved) {
    if (step == home.pending) continue;
    const auto contents = read_contents(*home.disk, cat("/run/ckpt-", step));
    for (const auto& tensor : contents.tensors) {
      for (const auto& piece : tensor.slices) {
        if (piece.codec == Codec::none) continue;
        home.encoded.push_back({data_path(contents, piece.file).string(), piece.offset,
                                piece.offset + piece.stored_bytes});
      }
    }
    const auto* base = skipped.count(step) ? contents.find("base") : nullptr;
    if (!base) continue;
    for (const auto& piece : base->slices) {
      const auto begin = (piece.offset + block - 1) / block * block;
      const auto end = (piece.offset + piece.stored_bytes) / block * block;
      if (begin < end)
        home.left_out.push_back({data_path(contents, piece.file).string(), begin, end});
    }
  }
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
  home.shape.kept = random.one_in(2);
  home.clones = !home.direct && random.one_in(3);
  home.encodes = hdf5 && !home.direct && !random.one_in(3);
  if (home.encodes && !home.shape.kept) {  // smaller tensors are not encoded
    home.shape.rows = std::max<std::int64_t>(home.shape.rows, 2);
    home.shape.columns = 1500;
  }
  home.text = cat("seed ", seed, ": ", home.shape.rows, " x ", home.shape.columns,
                  home.shape.kept ? " and a base" : "", home.clones ? ", shares space" : "",
                  home.direct ? ", no renames" : "");
  home.disk = std::make_shared<io::MemoryFileSystem>();
  if (home.clones) home.disk->share_space();
  std::set<std::int64_t> skipped;  // steps whose saves have left bytes out
  const int jobs = random.between(1, 2);
  for (int number = 0; number < jobs; ++number) {
    const auto job = choose_job(random, home, hdf5);
    home.text += cat("; ", text_of(job));
    const auto disk = home.disk;
    ThreadOptions threads;
    threads.seed = static_cast<unsigned>(seed) * 7 + static_cast<unsigned>(number);
    run_threads(
        job.ranks,
        [&](std::shared_ptr<Group> group) {
          run(job, home, (number + 1) * 100, skipped, std::move(group), disk);
        },
        threads);
  }
  home.disk->mark();
  note_bytes(home, skipped);
  return home;
}

Damage do_damage(const Home& home, io::MemoryFileSystem& disk, Random& random) {
  const auto files = files_of(disk, "/run");
  const auto any = [&] {
    return files[static_cast<std::size_t>(random.below(static_cast<int>(files.size())))];
  };
  for (;;) {
    Damage damage;
    damage.kind = static_cast<Damage::Kind>(random.below(Damage::kinds));
    const auto aim = choose_aim(home, random);
    damage.file = aim.file.empty() ? any() : aim.file;
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
    if (!change(bytes, aim, damage, random)) continue;
    write(disk, damage.file, bytes);
    return damage;
  }
}

}  // namespace cairn::campaign
