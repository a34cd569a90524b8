#include "store/bucket/bucket_place.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/bucket/lease.hpp"
#include "store/contents/data_file.hpp"

namespace cairn {

std::optional<commit::ParsedName> BucketPlace::parse(const std::string& key) const {
  const auto directory = BucketFiles::key_of(place_.directory) + '/';
  if (!key.starts_with(directory)) return std::nullopt;
  return commit::parse_name(key.substr(directory.size()), place_.naming);
}

bool BucketPlace::is_data(const std::string& key) const {
  const auto parsed = parse(key);
  return parsed && parsed->kind == commit::ParsedName::Kind::data;
}

std::optional<std::int64_t> BucketPlace::step_of(const std::string& key) const {
  const auto parsed = parse(key);
  if (!parsed || (!commit::is_main(parsed->kind) && !is_data(key))) return std::nullopt;
  return parsed->step;
}

void BucketPlace::add_counts(const std::vector<bucket::Object>& objects,
                             std::set<std::int64_t>& counts) const {
  for (const auto& one : objects) {
    if (is_data(one.key)) counts.insert(count_of(one.key));
  }
}

std::vector<bucket::Object> BucketPlace::indexes() const {
  auto objects = files_.client()->list(BucketFiles::key_of(place_.directory) + '/', "/").objects;
  std::erase_if(objects, [&](const auto& one) { return !step_of(one.key) || is_data(one.key); });
  return objects;
}

std::vector<std::int64_t> BucketPlace::steps_there() const {
  std::vector<std::int64_t> steps;
  for (const auto& one : indexes()) steps.push_back(step_of(one.key).value());
  return steps;
}

std::vector<bucket::Object> BucketPlace::objects_of(std::int64_t step) const {
  return files_.client()->list(BucketFiles::key_of(place_.prefix(step)) + '.', "").objects;
}

// A uuid, if the object says of which save it is. The end of a data file may be anybody's bytes.
std::string BucketPlace::save_of(const bucket::Object& one) const {
  auto client = files_.client();
  if (is_data(one.key) && one.size >= save_id_bytes) try {
      std::string id(save_id_bytes, '\0');
      client->finish_read(client->start_read(one.key, one.size - save_id_bytes,
                                             std::as_writable_bytes(std::span(id)), one.tag));
      if (const auto uuid = uuid_of(id); log_.knows(uuid)) return uuid;
    } catch (const Error& error) {  // it is gone, or another one by now
      if (error.code() != Code::not_found && error.code() != Code::data_loss) throw;
      return "";
    }
  const auto there = client->look(one.key);
  return there && there->tag == one.tag ? there->mark : "";
}

std::vector<bucket::Object> BucketPlace::of_save(std::vector<bucket::Object> objects,
                                                 const std::string& uuid) const {
  std::erase_if(objects,
                [&](const auto& one) { return !step_of(one.key) || save_of(one) != uuid; });
  std::stable_partition(objects.begin(), objects.end(),
                        [&](const auto& one) { return !is_data(one.key); });
  return objects;
}

bool BucketPlace::is_new(std::int64_t step, const std::vector<bucket::Object>& objects) const {
  const MutexLock guard(mutex_);
  const auto known = indexes_.find(step);
  return known != indexes_.end() && std::ranges::any_of(objects, [&](const auto& one) {
           return step_of(one.key) == step && !is_data(one.key) &&
                  BucketFiles::number_of(one.tag) == known->second;
         });
}

void BucketPlace::has_index(std::int64_t step, std::uint64_t tag) const {
  const MutexLock guard(mutex_);
  indexes_[step] = tag;
}

bool BucketPlace::is_beside(std::int64_t step, const std::vector<bucket::Object>& objects) const {
  return !log_.counts(step) && std::ranges::any_of(objects, [&](const auto& one) {
    return step_of(one.key) == step && !is_data(one.key) && !is_dead(one);
  });
}

bool BucketPlace::was_beside(std::int64_t step) const {
  const MutexLock guard(mutex_);
  return beside_.contains(step);
}

// Of each step the beginning of its names is listed, up to the dot.
void BucketPlace::look_beside() const {
  if (!place_.naming.numbered) return;
  const auto begin = cat(BucketFiles::key_of(place_.directory), '/', place_.naming.name, '-');
  std::set<std::int64_t> steps;
  for (const auto& one : files_.client()->list(begin, ".").below) {
    std::int64_t step = 0;
    const auto number = std::string_view(one).substr(begin.size());
    if (parse_number(number.substr(0, number.size() - 1), step) && !log_.counts(step)) {
      steps.insert(step);
    }
  }
  const MutexLock guard(mutex_);
  beside_ = std::move(steps);
}

BucketPlace::Debris BucketPlace::debris() const {
  const auto directory = BucketFiles::key_of(place_.directory) + '/';
  auto client = files_.client();
  Debris found;
  found.uploads = client->uploads(directory);
  std::erase_if(found.uploads, [&](const auto& one) { return !step_of(one.key); });
  for (auto& one : client->list(directory, "/").objects) {
    const auto step = step_of(one.key);
    if (!step || log_.counts(*step)) continue;
    (is_dead(one) ? found.dead : found.kept).push_back(one);
  }
  const MutexLock guard(mutex_);
  beside_.clear();
  for (const auto& one : found.kept) beside_.insert(step_of(one.key).value());
  return found;
}

// Without an index nobody reads the data, so indexes go first. The tag spares what was put under
// that name since.
void BucketPlace::remove(const std::vector<bucket::Object>& objects) const {
  std::vector<bucket::Object> indexes, data;
  for (const auto& one : objects) (is_data(one.key) ? data : indexes).push_back(one);
  auto client = files_.client();
  client->remove_all(indexes);
  client->remove_all(data);
}

std::vector<std::int64_t> BucketFiles::steps_beside(const Location& place) {
  BucketLog log(*this, BucketLog::path_of(place));
  if (!log.read()) return {};
  const BucketPlace at(place, *this, log);
  std::vector<std::int64_t> steps;
  for (const auto& one : at.indexes()) {
    const auto step = at.step_of(one.key).value();
    if (at.is_beside(step, {one})) steps.push_back(step);
  }
  return steps;
}

std::optional<std::vector<std::int64_t>> BucketFiles::steps_that_count(const Location& place) {
  BucketLog log(*this, BucketLog::path_of(place));
  if (!log.read()) return std::nullopt;
  return log.steps();
}

io::Path BucketFiles::damaged_list(const Location& place) {
  auto path = BucketLog::path_of(place);
  BucketLog log(*this, path);
  log.read();
  return log.is_damaged() ? path : io::Path();
}

std::string BucketFiles::owner_of(const Location& place) { return Lease::owner_of(*this, place); }

std::vector<commit::Naming> BucketFiles::names_in(const io::Path& directory) {
  return names_of_lists(list(directory / commit::private_directory_name));
}

std::vector<commit::Naming> names_of_lists(const std::vector<std::string>& files) {
  std::vector<commit::Naming> names;
  for (const auto& file : files) {
    if (auto naming = BucketLog::naming_of(file)) names.push_back(*std::move(naming));
  }
  return names;
}

}  // namespace cairn
