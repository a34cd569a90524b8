#include "lab/campaigns/programs/crash_errand.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "lab/campaigns/programs/crash_job.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/find_checkpoints.hpp"
#include "store/contents/format.hpp"
#include "testing/crash.hpp"
#include "tools/convert_checkpoint.hpp"
#include "tools/repair.hpp"

namespace cairn::campaign {
namespace {

using Disk = std::shared_ptr<io::MemoryFileSystem>;

io::Path prefix_of(std::int64_t step) { return cat("/run/ckpt-", step); }

// Opens the directory as an owner, and closes it again.
std::vector<StepInfo> settle(const Plan& plan, const Disk& disk) {
  CheckpointManager manager(serial_group(), "/run", options_of(plan, {}, disk));
  return manager.steps();
}

Repair repair(const std::shared_ptr<io::FileSystem>& files, const io::Path& prefix) {
  const commit::Naming name(prefix.filename().string(), false);
  return repair_checkpoint({*files, prefix}, commit::OwnedName::take(files, "/run", name, 0));
}

// The names of a checkpoint's data files.
std::set<std::string> data_of(io::FileSystem& disk, const std::string& name) {
  std::set<std::string> files;
  for (const auto& entry : disk.list("/run")) {
    const auto kind = commit::parse_name(entry, {name, false}).kind;
    if (kind == commit::ParsedName::Kind::data) files.insert(entry);
  }
  return files;
}

// Writes a file durably, though a tool that copies may not do so.
void put(io::FileSystem& disk, const io::Path& path, const std::string& bytes) {
  io::remove_if_there(disk, path);
  io::write_file(disk, path, bytes);
  disk.sync_directory(path.parent_path());
}

std::string bytes_of(io::FileSystem& disk, const io::Path& path) {
  return io::read_file(disk, path, std::int64_t{1} << 30);
}

bool has_data_files(io::FileSystem& disk, const io::Path& prefix) {
  return format_of(read_contents(disk, prefix).format).has_data_files();
}

class Operator {
 public:
  Operator(const Plan& plan, const Disk& disk, const Errand& errand, std::string& wrong)
      : plan_(plan), disk_(disk), errand_(errand), wrong_(wrong) {}

  ErrandDone run() {
    ErrandDone done;
    std::vector<std::int64_t> bundles, others;  // steps that exist once
    for (const auto& info : settle(plan_, disk_)) {
      if (other_format({*disk_, prefix_of(info.step)},
                       read_contents(*disk_, prefix_of(info.step)).format))
        continue;
      (has_data_files(*disk_, prefix_of(info.step)) ? bundles : others).push_back(info.step);
    }
    done.begin = disk_->operation_count();
    const bool converts = errand_.kind >= Errand::Kind::convert_beside;
    auto& from = converts && errand_.choice % 2 && !others.empty() ? others : bundles;
    if (!from.empty()) {
      const auto count = from.size();
      const auto first = static_cast<std::size_t>(errand_.choice) % count;
      const auto second =
          (first + 1 +
           static_cast<std::size_t>(errand_.choice) / 7 % std::max<std::size_t>(1, count - 1)) %
          count;
      converts ? convert(from[first], done) : spoil(from[first], from[second], done);
    }
    done.end = disk_->operation_count();
    return done;
  }

 private:
  void spoil(std::int64_t one, std::int64_t other, ErrandDone& done) {
    const auto index = commit::index_path(prefix_of(one)),
               its = commit::index_path(prefix_of(other));
    const auto bytes = bytes_of(*disk_, index);
    const bool needs_two =
        errand_.kind == Errand::Kind::copy_index || errand_.kind == Errand::Kind::exchange_indexes;
    if (needs_two && one == other) return;
    done.damages = true;
    switch (errand_.kind) {
      case Errand::Kind::copy_index:
        put(*disk_, index, bytes_of(*disk_, its));
        break;
      case Errand::Kind::exchange_indexes:
        put(*disk_, index, bytes_of(*disk_, its));
        put(*disk_, its, bytes);
        repair_killed(other);
        break;
      case Errand::Kind::lose_index:
        disk_->remove(index);
        disk_->sync_directory("/run");
        break;
      case Errand::Kind::flip_index: {
        auto flipped = bytes;
        flipped[flipped.size() / 3] = static_cast<char>(flipped[flipped.size() / 3] ^ 8);
        put(*disk_, index, flipped);
        break;
      }
      case Errand::Kind::lose_metadata:
        for (const auto& tensor : read_contents(*disk_, prefix_of(one)).own) {
          if (tensor.key != "_cairn/meta") continue;
          disk_->remove(data_path(read_contents(*disk_, prefix_of(one)), tensor.slices.at(0).file));
        }
        disk_->sync_directory("/run");
        break;
      default:
        break;
    }
    repair_killed(one);
    mend(plan_, disk_, wrong_);
  }

  // The first attempt, which is killed if the errand says so.
  void repair_killed(std::int64_t step) {
    const auto files = std::make_shared<test::ProcessFiles>(disk_);
    if (errand_.stop) files->kill_after(*errand_.stop);
    try {
      const auto done = repair(files, prefix_of(step));
      if (done.after.verdict() != Verdict::whole) tell(step, done);
    } catch (const Crashed&) {
    } catch (const Error& error) {
      wrong_ += cat(" a repair of step ", step, " failed: ", error.what(), ";");
    }
    files->end();
  }

  void tell(std::int64_t step, const Repair& done) {
    wrong_ += cat(" after a repair step ", step, " is not whole:");
    for (const auto& one : done.left) wrong_ += cat(" ", one, ";");
    for (const auto& one : done.after.findings) wrong_ += cat(" ", one.what, ";");
  }

  void convert(std::int64_t step, ErrandDone& done) {
    const auto source = read_contents(*disk_, prefix_of(step));
    const bool to_hdf5 = format_of(source.format).has_data_files();
    const auto name = cat("ckpt-", step, to_hdf5 ? ".h5" : "");
    const auto codec = to_hdf5 ? errand_.codec : StoreCodec::none;
    if (errand_.kind == Errand::Kind::convert_in_place) {
      const auto files = std::make_shared<test::ProcessFiles>(disk_);
      if (errand_.stop) files->kill_after(*errand_.stop);
      try {
        convert_checkpoint({*files, source}, {files, io::Path("/run") / name},
                           {.codec = codec, .overwrite = true});
      } catch (const Crashed&) {
      } catch (const Error& error) {
        const bool is_pinned = error.code() == Code::already_exists;
        if (!is_pinned) wrong_ += cat(" a conversion failed: ", error.what(), ";");
      }
      files->end();
      return;
    }
    const auto place = cat("/other-", disk_->operation_count());
    disk_->create_directory(place);
    convert_checkpoint({*disk_, source}, {disk_, io::Path(place) / name}, {.codec = codec});
    for (const auto& entry : disk_->list(place)) {  // an index last
      if (entry.starts_with("ckpt-"))
        disk_->rename(io::Path(place) / entry, io::Path("/run") / entry);
    }
    disk_->sync_directory("/run");
    done.puts_beside = true;
    done.step = step;
    done.stamp = stamp_of(plan_, disk_, step);
  }

  const Plan& plan_;
  const Disk& disk_;
  const Errand& errand_;
  std::string& wrong_;
};

}  // namespace

ErrandDone run_errand(const Plan& plan, const Disk& disk, const Errand& errand,
                      std::string& wrong) try {
  return Operator(plan, disk, errand, wrong).run();
} catch (const Error& error) {
  wrong += cat(" an errand ended by: ", error.what(), ";");
  return {};
}

bool mend(const Plan& plan, const Disk& disk, std::string& wrong) try {
  settle(plan, disk);
  bool decided = true;
  for (const auto& name : list_prefixes({*disk, "/run"})) {
    const auto prefix = io::Path("/run") / name;
    if (verify_checkpoint({*disk, prefix}).verdict() == Verdict::whole) continue;
    const auto done = repair(disk, prefix);
    if (done.after.verdict() == Verdict::whole) continue;
    const auto may_be_several = [](const std::string& why) {
      return why.find("of several saves") != std::string::npos;
    };
    if (std::any_of(done.left.begin(), done.left.end(), may_be_several)) {
      decided = false;
      const auto files = data_of(*disk, name);
      settle(plan, disk);
      if (data_of(*disk, name) != files) wrong += cat(" data of ", name, " went undecided;");
      continue;
    }
    wrong += cat(" ", name, " cannot be repaired:");
    for (const auto& one : done.left) wrong += cat(" ", one, ";");
    for (const auto& one : done.after.findings) wrong += cat(" ", one.what, ";");
  }
  return decided;
} catch (const Error& error) {
  wrong += cat(" a repair ended by: ", error.what(), ";");
  return true;
}

std::int64_t stamp_of(const Plan& plan, const Disk& disk, std::int64_t step) {
  const auto group = serial_group();
  StampedState state(group, plan.shape);
  auto options = options_of(plan, {}, disk);
  options.read_only = true;
  CheckpointManager manager(group, "/run", options);
  state.spoil();
  manager.restore(step, state.state());
  return state.stamp();
}

}  // namespace cairn::campaign
