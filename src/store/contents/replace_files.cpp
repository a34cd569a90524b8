#include "store/contents/replace_files.hpp"

#include <limits>
#include <memory>

#include "cairn/error.hpp"
#include "store/contents/data_file.hpp"
#include "store/contents/no_more_open.hpp"

namespace cairn {
FileReplacer::FileReplacer(io::FileSystem& files, const io::Path& prefix,
                           const commit::Ownership& owner)
    : files_(files), prefix_(prefix), owner_(owner) {
  // a link is not ours: what is behind it stays
  if (files_.is_link(folder())) files_.remove(folder());
  end();
}

io::Path FileReplacer::folder() const {
  return prefix_.parent_path() / commit::private_directory_name / commit::repair_directory_name;
}

io::Path FileReplacer::kept(const io::Path& path) const {
  return folder() / commit::aside_name(path.filename().string(), owner_.record().token);
}

unsigned FileReplacer::access() const {
  const commit::Naming name(prefix_.filename().string(), false);
  std::vector<Address> all;
  for (const auto& entry : files_.list(prefix_.parent_path())) {
    const auto kind = commit::parse_name(entry, name).kind;
    if (commit::is_main(kind) || kind == commit::ParsedName::Kind::data) {
      all.emplace_back(files_, prefix_.parent_path() / entry);
    }
  }
  return access_of(all);
}

io::Path FileReplacer::stage(const io::Path& path, const std::function<void(io::File&)>& write) {
  auto at = staged(path);
  if (!io::exists(files_, folder())) io::create_directories(files_, folder());
  io::remove_if_there(files_, at);
  const auto file = files_.create(at);
  files_.limit_access(at, access());
  write(*file);
  file->sync();
  file->close();
  files_.sync_directory(folder());
  return at;
}

void FileReplacer::keep(const io::Path& path, bool link) {
  if (!link || !files_.try_link(path, kept(path))) io::copy(files_, path, kept(path));
  files_.sync_directory(folder());
}

void FileReplacer::put_in_place(const io::Path& path) {
  owner_.check();
  const bool is_index = path == commit::index_path(prefix_);
  Replaced now{path, files_.status(path).has_value()};
  // A rename leaves the old bytes to their second name. Without renames they are overwritten, so a
  // copy is kept.
  if (owner_.atomic_rename()) {
    if (now.was_there) keep(path, true);
    replaced_.push_back(now);
    files_.rename(staged(path), path);
  } else if (is_index) {
    replace_index(now);
  } else {
    if (now.was_there) keep(path, false);
    replaced_.push_back(now);
    replace_bytes(staged(path), path);
  }
  files_.sync_directory(path.parent_path());
}

// In the same order as a direct save (store/commit/protocol.cpp), so that a reader in between finds
// the old index.
void FileReplacer::replace_index(Replaced& now) {
  const commit::Naming name(prefix_.filename().string(), false);
  now.save.emplace(
      commit::Transaction{prefix_.parent_path(), name, 0, commit::new_uuid(), 0, true});
  constexpr auto staged_bytes = std::numeric_limits<std::int64_t>::max();
  const auto bytes = io::read_file(files_, staged(now.path), staged_bytes);
  replaced_.push_back(now);
  const auto made = no_more_open({files_, prefix_}, access());
  commit::begin(*made.files(), *now.save);
  commit::publish(*made.files(), *now.save, bytes, {}, [](const auto&) { return true; });
}

// Writes over the present bytes: a correct byte stays correct whenever this is interrupted.
void FileReplacer::replace_bytes(const io::Path& from, const io::Path& path) {
  if (files_.is_link(path)) files_.remove(path);
  if (!io::exists(files_, path)) return io::copy(files_, from, path);
  const auto source = files_.open_read(from);
  const auto target = files_.open_write(path);
  write_over(*source, source->size(), *target);
  target->sync();
  target->close();
}

// Removes the kept index durably: if a crash brought it back, a later owner that has removed the
// checkpoint would put it back.
void FileReplacer::forget(const commit::Transaction& save) {
  if (io::exists(files_, save.temp())) commit::remove_temp(files_, save.temp());
  files_.sync_directory(save.directory);
}

void FileReplacer::put_back() {
  owner_.check();
  for (; !replaced_.empty(); replaced_.pop_back()) {
    const auto& one = replaced_.back();
    if (one.save) {
      commit::put_back(files_, *one.save);
      forget(*one.save);
    } else if (!one.was_there) {
      io::remove_if_there(files_, one.path);
    } else if (owner_.atomic_rename()) {
      files_.rename(kept(one.path), one.path);
    } else {
      replace_bytes(kept(one.path), one.path);
    }
    files_.sync_directory(one.path.parent_path());
  }
}

void FileReplacer::end() {
  for (const auto& one : replaced_) {
    if (one.save) forget(*one.save);
  }
  replaced_.clear();
  if (!io::exists(files_, folder())) return;
  for (const auto& entry : files_.list(folder())) files_.remove(folder() / entry);
  files_.remove_directory(folder());
}

}  // namespace cairn
