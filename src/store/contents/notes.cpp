#include "store/contents/notes.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/contents/format.hpp"

namespace cairn {
namespace {

constexpr std::int64_t note_limit_bytes = 4096;

io::Path folder(const io::Path& directory) {
  return directory / commit::private_directory_name / commit::saved_directory_name;
}

io::Path note_path(const io::Path& prefix, Format format) {
  const auto name = prefix.filename().string();
  return folder(prefix.parent_path()) / format_of(format).main_file(name);
}

void make_folder(io::FileSystem& files, const io::Path& directory) {
  if (io::exists(files, folder(directory))) return;
  try {
    files.create_directory(folder(directory));
  } catch (const Error& error) {
    if (error.code() != Code::already_exists) throw;
  }
}

// Usually the folder exists and the note does not.
void write_note(io::FileSystem& files, const io::Path& path, const std::string& text) {
  std::unique_ptr<io::File> file;
  try {
    file = files.create(path);
  } catch (const Error& error) {
    if (error.code() == Code::not_found) {
      make_folder(files, path.parent_path().parent_path().parent_path());
    } else if (error.code() == Code::already_exists) {
      const auto there = files.status(path);
      if (there && there->size == static_cast<std::int64_t>(text.size()) &&
          io::read_file(files, path, note_limit_bytes) == text) {
        return;
      }
      files.remove(path);
    } else {
      throw;
    }
    file = files.create(path);
  }
  if (!text.empty()) file->write_at(0, std::as_bytes(std::span(text)));
  file->close();
}

}  // namespace

std::map<std::string, Note> read_notes(io::FileSystem& files, const io::Path& directory) {
  std::map<std::string, Note> notes;
  if (!files.status(folder(directory))) return notes;
  for (const auto& entry : files.list(folder(directory))) {
    const io::Path path = folder(directory) / entry;
    const auto file = commit::split_main_file(path);
    if (!file) continue;
    const auto& format = format_of(file->kind);
    try {
      const auto uuid = io::read_file(files, path, note_limit_bytes);
      if (!uuid.empty() && !commit::is_uuid(uuid)) continue;  // torn
      const bool beside = format.has_data_files();
      // A note of a bundle always has a UUID.
      if (uuid.empty() && beside) continue;
      auto& note = notes[file->prefix.filename().string()];
      if (beside) note.bundle = uuid;
      note.hdf5 |= !beside;
      note.alone |= !uuid.empty();
    } catch (const Error& error) {
      if (error.code() != Code::not_found && error.code() != Code::data_loss) throw;
    }
  }
  return notes;
}

void note_saved(io::FileSystem& files, const io::Path& prefix, bool numbered, Format format,
                const std::string& uuid) {
  try {
    // If the checkpoint has another format now, the old format's note is removed.
    if (!numbered || !format_of(format).has_data_files()) {
      write_note(files, note_path(prefix, format), numbered ? "" : uuid);
    }
    for (const auto* other : all_formats()) {
      if (other->id() != format) io::try_remove(files, note_path(prefix, other->id()));
    }
  } catch (const Error& error) {
    log(LogLevel::info, cat("no note is left of ", prefix.string(), ": ", error.what()));
  }
}

void forget_saved(io::FileSystem& files, const io::Path& prefix) {
  for (const auto* format : all_formats()) {
    io::try_remove(files, note_path(prefix, format->id()));
  }
}

void forget_alone(io::FileSystem& files, const io::Path& prefix) {
  bool any = false;
  for (const auto* format : all_formats()) {
    const auto path = note_path(prefix, format->id());
    const auto status = files.status(path);
    // An empty note is that of a numbered HDF5 checkpoint, of which the state file tells, too.
    if (!status || status->size == 0) continue;
    files.remove(path);
    any = true;
  }
  if (any) files.sync_directory(folder(prefix.parent_path()));
}

std::vector<PrivateMark> list_marks(io::FileSystem& files, const io::Path& directory,
                                    const commit::Naming& name) {
  std::vector<PrivateMark> marks;
  const auto visit = [&](const char* kind, auto&& use) {
    const auto where = io::Path(commit::private_directory_name) / kind;
    if (!files.status(directory / where)) return;
    for (const auto& entry : files.list(directory / where)) use((where / entry).string(), entry);
  };
  for (const char* kind : {commit::damaged_directory_name, commit::pinned_directory_name,
                           commit::marked_directory_name}) {
    visit(kind, [&](const std::string& path, const std::string& entry) {
      if (const auto step = commit::parse_prefix(entry, name)) marks.push_back({path, *step});
    });
  }
  visit(commit::saved_directory_name, [&](const std::string& path, const std::string& entry) {
    const auto step = commit::parse_name(entry, name).step;
    // A note is not listed while its file is there. If nobody recognised that file any more, the
    // note would block saves for ever.
    if (step >= 0 && !files.status(directory / entry)) marks.push_back({path, step});
  });
  visit(commit::repair_directory_name, [&](const std::string& path, const std::string& entry) {
    const auto replaced = commit::parse_aside_name(entry, name);  // a file that a repair kept
    const auto step = commit::parse_name(replaced.value_or(entry), name).step;
    if (step >= 0) marks.push_back({path, step, true, "a repair that did not finish"});
  });
  return marks;
}

}  // namespace cairn
