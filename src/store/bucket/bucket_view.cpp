#include "store/bucket/bucket_view.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/bucket/bucket_place.hpp"
#include "store/bucket/bucket_reader.hpp"
#include "store/bucket/object_names.hpp"
#include "store/bucket/old_objects.hpp"
#include "store/commit/names.hpp"

namespace cairn {
namespace {

// The directory in which this key, or beginning of keys, is.
std::string above(std::string key) {
  if (key.ends_with('/')) key.pop_back();
  return key.substr(0, key.rfind('/') + 1);
}

// The beginning of the names of all objects of a numbered checkpoint, up to the dot, if this is the
// path of its index or of one of its data files. One that is a single object needs no listing.
std::optional<std::string> begin_of_step(const io::Path& path) {
  const auto main = commit::split_main_file(path);
  if (main && commit::is_whole(main->kind)) return std::nullopt;
  const auto prefix = main ? main->prefix.string() : prefix_of_data(path.string()).value_or("");
  if (!commit::split_step(io::Path(prefix).filename().string())) return std::nullopt;
  return BucketFiles::key_of(prefix) + '.';
}

Error none_at(const io::Path& path) {
  return Error(Code::not_found, cat("there is no ", path.string())).at(path.string());
}

}  // namespace

// -- what is known ------------------------------------------------------------------------------

std::optional<KnownObjects::Known> KnownObjects::find(const std::string& key) const {
  const MutexLock guard(mutex_);
  if (const auto at = found_.find(key); at != found_.end()) return Known{at->second, true};
  const auto at = listed_.find(key);
  if (at == listed_.end()) return std::nullopt;
  if (const auto prefix = prefix_of_data(key)) {
    const auto index = commit::index_path(*prefix).string();
    const auto now = found_.find(index);
    const auto then = listed_.find(index);
    const bool is_new = now != found_.end() && now->second && then != listed_.end() &&
                        now->second->tag == then->second.tag;
    if (!is_new) return std::nullopt;
  }
  return Known{at->second, false};
}

void KnownObjects::found(const std::string& key, std::optional<bucket::Object> object) {
  const MutexLock guard(mutex_);
  found_.insert_or_assign(key, std::move(object));
}

void KnownObjects::listed(const std::string& begin, const bucket::Requests::Listing& listing) {
  const MutexLock guard(mutex_);
  for (const auto& one : listing.objects) listed_.insert_or_assign(one.key, one);
  below_[begin] = {listing.below.begin(), listing.below.end()};
}

bool KnownObjects::is_listed(const std::string& begin) const {
  const MutexLock guard(mutex_);
  return below(begin) != nullptr;
}

const std::set<std::string>* KnownObjects::below(const std::string& begin) const {
  static const std::set<std::string> none;
  if (const auto at = below_.find(begin); at != below_.end()) return &at->second;
  if (begin.empty()) return nullptr;
  const auto* const there = below(above(begin));
  return there && !there->contains(begin) ? &none : nullptr;
}

std::vector<std::string> KnownObjects::names_in(const std::string& begin) const {
  const MutexLock guard(mutex_);
  std::set<std::string> names;
  if (const auto at = below_.find(begin); at != below_.end()) {
    for (const auto& one : at->second) {
      names.insert(one.substr(begin.size(), one.size() - begin.size() - 1));
    }
  }
  const auto add = [&](const std::string& key) {
    if (key.find('/', begin.size()) == key.npos) names.insert(key.substr(begin.size()));
  };
  for (auto at = listed_.lower_bound(begin); at != listed_.end(); ++at) {
    if (!at->first.starts_with(begin)) break;
    const auto now = found_.find(at->first);
    if (now == found_.end() || now->second) add(at->first);
  }
  for (auto at = found_.lower_bound(begin); at != found_.end(); ++at) {
    if (!at->first.starts_with(begin)) break;
    if (at->second) add(at->first);
  }
  names.erase("");  // an object with the directory's own name, which some tools make
  return {names.begin(), names.end()};
}

std::optional<bool> KnownObjects::is_directory(const std::string& key) const {
  const auto begin = key + '/';
  const MutexLock guard(mutex_);
  if (const auto at = below_.find(begin); at != below_.end()) {
    const auto first = listed_.lower_bound(begin);
    const bool any = first != listed_.end() && first->first.starts_with(begin);
    return any || !at->second.empty();
  }
  const auto* const there = below(above(key));
  return there ? std::optional(there->contains(begin)) : std::nullopt;
}

std::shared_ptr<ObjectEnd> KnownObjects::end_of(const bucket::Object& object) {
  const MutexLock guard(mutex_);
  if (!end_ || end_of_ != std::pair(object.key, object.tag)) {
    end_ = std::make_shared<ObjectEnd>();
    end_of_ = {object.key, object.tag};
  }
  return end_;
}

void KnownObjects::forget() {
  const MutexLock guard(mutex_);
  end_.reset();
  listed_.clear();
  found_.clear();
  below_.clear();
}

// -- files --------------------------------------------------------------------------------------

std::shared_ptr<io::FileSystem> BucketFiles::view(std::shared_ptr<io::FileSystem> self) {
  return std::make_shared<BucketView>(self, *this);
}

std::optional<bucket::Object> BucketView::find(bucket::Requests& client, const io::Path& path) {
  const auto key = BucketFiles::key_of(path);
  if (auto known = known_->find(key)) return std::move(known->object);
  // One listing tells of all files of a checkpoint.
  const auto begin = begin_of_step(path);
  if (begin && !known_->is_listed(above(key)) && !known_->is_listed(*begin)) {
    known_->listed(*begin, client.list(*begin, ""));
    if (auto known = known_->find(key)) return std::move(known->object);
  }
  auto object = client.look(key);
  // A job may be removing the checkpoint.
  if (!object && prefix_of_data(key)) known_->forget();
  known_->found(key, object);
  return object;
}

bucket::Object BucketView::require(bucket::Requests& client, const io::Path& path) {
  auto object = find(client, path);
  if (!object) throw none_at(path);
  return *std::move(object);
}

std::optional<io::Status> BucketView::status(const io::Path& path) {
  const auto key = BucketFiles::key_of(path);
  io::Status directory;
  directory.is_directory = true;
  if (key.empty()) return directory;
  if (!may_be_file(path)) return list(path).empty() ? std::nullopt : std::optional(directory);
  auto client = files_.client();
  if (!known_->find(key) && known_->is_directory(key).value_or(false)) return directory;
  if (const auto object = find(*client, path)) return status_of(*object);
  if (!may_be_directory(path)) return std::nullopt;
  if (!known_->is_directory(key)) known_->listed(key + '/', client->list(key + '/', "/"));
  return known_->is_directory(key).value_or(false) ? std::optional(directory) : std::nullopt;
}

std::vector<std::string> BucketView::list(const io::Path& path) {
  const auto key = BucketFiles::key_of(path);
  const auto begin = key.empty() ? key : key + '/';
  const auto learn = [&](const std::string& of) {
    if (!known_->is_listed(of)) known_->listed(of, files_.client()->list(of, "/"));
  };
  // Most folders of this one are not there.
  if (path.parent_path().filename() == commit::private_directory_name) learn(above(begin));
  learn(begin);
  return known_->names_in(begin);
}

std::unique_ptr<io::File> BucketView::open_read(const io::Path& path) {
  auto client = files_.client();
  const auto key = BucketFiles::key_of(path);
  auto object = require(*client, path);
  const auto known = known_->find(key);
  const auto lost = [known = known_] { known->forget(); };
  if (may_be_replaced(path) && object.size <= most_whole_bytes) {
    auto got = client->get(key);
    if (!got) {
      lost();
      throw none_at(path);
    }
    // The time, if it is another object than was known.
    if (got->tag != object.tag) object = client->look(key).value_or(object);
    object.size = std::ssize(got->bytes);
    object.tag = std::move(got->tag);
    known_->found(key, object);
    return small_object(path, object, std::move(got->bytes));
  }
  // A listing may be older than the object.
  if (known && !known->is_found && !prefix_of_data(key)) {
    const auto now = client->look(key);
    if (!now) {
      lost();
      throw none_at(path);
    }
    known_->found(key, object = *now);
  }
  auto end = known_->end_of(object);
  return old_object(files_, path, std::move(object), lost, std::move(end));
}

std::unique_ptr<io::Reader> BucketView::read_ahead(std::vector<io::Path> files,
                                                   std::vector<io::Extent> extents, DirectIo) {
  return bucket_reader(
      files_, std::move(files), std::move(extents),
      [this](const io::Path& path) {
        const auto known = known_->find(BucketFiles::key_of(path));
        return known && known->object ? known->object->tag : std::string();
      },
      [known = known_] { known->forget(); });
}

// -- lists of steps -----------------------------------------------------------------------------

// A listing that is older than the list of steps shows some that were removed meanwhile. So if
// there seem to be any, the server is asked in the other order.
std::vector<std::int64_t> BucketView::steps_beside(const Location& place) {
  const auto counts = steps_that_count(place);
  if (!counts) return {};
  for (const auto& name : list(place.directory)) {
    const auto parsed = commit::parse_name(name, place.naming);
    if (commit::is_main(parsed.kind) && std::ranges::count(*counts, parsed.step) == 0) {
      return files_.steps_beside(place);
    }
  }
  return {};
}

std::vector<commit::Naming> BucketView::names_in(const io::Path& directory) {
  return names_of_lists(list(directory / commit::private_directory_name));
}

}  // namespace cairn
