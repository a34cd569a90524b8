#include "store/bucket/bucket_records.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "layout/bundle/part_record.hpp"
#include "store/contents/format.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

io::Path records_directory(const Location& place) {
  const auto& naming = place.naming;
  return place.directory / commit::private_directory_name /
         cat(naming.numbered ? "records." : "records-single.", naming.name);
}

std::string record_name(int slot, int writer, int writers) {
  return cat(slot, '.', writer, "-of-", writers);
}

namespace {

std::vector<bucket::Object> records_there(const Location& place, BucketFiles& files) {
  return files.client()->list(BucketFiles::key_of(records_directory(place)) + '/', "").objects;
}

// The record of the first writer of the same save.
std::string first_of(const std::string& key) {
  const auto name = key.rfind('/') + 1;
  const auto slot = key.find('.', name), writers = key.find("-of-", name);
  if (slot == key.npos || writers == key.npos || slot > writers) return key;
  return cat(key.substr(0, slot + 1), '0', key.substr(writers));
}

// By the uuid of their save. One that is not whole, or gone by now, tells of none. If the first
// writer's does not, the others' are not read.
std::map<std::string, std::vector<bundle::PartRecord>> read_records(const Location& place,
                                                                    BucketFiles& files,
                                                                    const BucketLog& log) {
  std::map<std::string, std::vector<bundle::PartRecord>> by_save;
  auto client = files.client();
  // Returns whether it is that of a save that may be completed.
  const auto read = [&](const std::string& key) {
    const auto got = client->get(key);
    if (!got) return false;
    try {
      auto record = bundle::decode_part_record(got->bytes);
      const auto step = record.meta.step;
      if (log.is_over_another(record.uuid, step)) {
        cairn::log(LogLevel::warning,
                   cat("a save of step ", step,
                       ", which was written but not committed, is not completed: another save of "
                       "that step counts, and in a bucket it stays until a commit"));
      }
      if (!log.may_be_completed(record.uuid, step)) return false;
      by_save[record.uuid].push_back(std::move(record));
      return true;
    } catch (const Error& error) {
      if (error.code() != Code::data_loss) throw;
      return false;
    }
  };
  std::map<std::string, bool> firsts;
  for (const auto& one : records_there(place, files)) {
    const auto first = first_of(one.key);
    if (!firsts.contains(first)) firsts[first] = read(first);
    if (one.key != first && firsts[first]) read(one.key);
  }
  return by_save;
}

}  // namespace

std::vector<Candidate> find_written(const Location& place, BucketFiles& files, const BucketLog& log,
                                    std::set<std::int64_t>& undecided) {
  std::vector<Candidate> found;
  auto by_save = read_records(place, files, log);
  if (by_save.empty()) return found;
  std::int64_t last = 0;
  for (const auto& one : look_at_steps(place, log.steps())) {
    last = std::max(last, one.save.sequence);
  }
  for (const auto& [uuid, records] : by_save) try {
      commit::Transaction save{place.directory, place.naming, records.front().meta.step, uuid};
      const bool is_one_object = std::ranges::any_of(records, [](const auto& record) {
        return std::ranges::any_of(record.uploads, [](auto& one) { return one.ends.has_value(); });
      });
      const auto& format = format_of(is_one_object ? Format::hdf5 : Format::bundle);
      format.shape(save, 0);
      auto candidate = join_records(std::move(save), records);
      if (candidate.meta.sequence <= last) continue;
      for (int file = 0; file < candidate.data_files; ++file) {
        candidate.paths.push_back(
            format.data_file(candidate.save.prefix(), file, candidate.save.num_files).string());
      }
      found.push_back(std::move(candidate));
    } catch (const Error& error) {
      const bool is_none = error.code() == Code::data_loss || error.code() == Code::internal;
      if (!is_none) undecided.insert(records.front().meta.step);  // another version made it, say
      cairn::log(LogLevel::info, cat("save of step ", records.front().meta.step,
                                     " did not finish: ", error.what()));
    }
  std::ranges::sort(found, {}, [](const auto& one) { return one.meta.sequence; });
  return found;
}

void remove_records(const Location& place, BucketFiles& files) {
  const auto there = records_there(place, files);
  auto client = files.client();
  for (const auto& one : there) client->remove(one.key, one.tag);
}

}  // namespace cairn
