// What a file system makes of bytes, space and times.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "tools/file_system_attempts.hpp"

namespace cairn::attempts {
namespace {

constexpr std::size_t page = 4096, mebibyte = std::size_t{1} << 20;

// A skew of stamps from which on an owner's age may be wrong: half of the 60 s after which its
// record may be taken over.
constexpr double most_skew_seconds = 30;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string in_words(double seconds) { return cat(fixed_text(seconds, 3), " s"); }

bool are_zeros(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

void write(io::File& file, std::size_t offset, std::string_view bytes) {
  file.write_at(static_cast<std::int64_t>(offset), std::as_bytes(std::span(bytes)));
}

}  // namespace

io::Status status(const Place& place, const std::string& name) {
  if (auto found = place.files()->status(place.at(name))) return *found;
  throw Error(Code::not_found, "a file is not there that was just made").at(place.at(name));
}

std::string sum(const std::string& bytes) {
  return cat(bytes.size(), ' ', crc32c(std::string_view(bytes)));
}

std::string some_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(mixed_bits(i));
  return bytes;
}

Result pages(const Place& place) {
  for (const bool other_is_last : {true, false}) {
    const std::string name = other_is_last ? "pages" : "pages-too";
    put(place, name, "");
    if (const auto answer = place.other.run("share " + name); answer != "open") return bad(answer);
    const auto file = place.files()->open_write(place.at(name));
    if (other_is_last) write_stripes(*file, false);
    if (const auto answer = place.other.run("stripes " + name); answer != "written") {
      return bad(answer);
    }
    if (!other_is_last) write_stripes(*file, false);
    file->close();
    if (read(place, name) != striped_bytes() ||
        place.other.run("sum " + name) != sum(striped_bytes())) {
      return bad(cat("bytes are lost that ", other_is_last ? "this" : "the other",
                     " process wrote before"));
    }
  }
  return good("the bytes of both stay");
}

Result direct(const Place& place) {
  // Begins on a page, and ends within one.
  const auto bytes = some_bytes(2 * mebibyte + 100);
  const auto file = place.files()->create(place.at("direct"));
  file->stream(DirectIo::on);
  write(*file, 0, bytes);
  const bool taken = file->gathers();
  file->sync();
  file->close();
  auto read_back = std::string(bytes.size(), '\0');
  auto* to = reinterpret_cast<std::byte*>(read_back.data());
  const auto reader = place.files()->read_ahead(
      {place.at("direct")}, {{0, 0, static_cast<std::int64_t>(bytes.size()), to}}, DirectIo::on);
  if (reader->next() != crc32c(std::string_view(bytes)) || read_back != bytes) {
    return bad("other bytes come back than were written");
  }
  if (const auto answer = place.other.run("sum direct"); answer != sum(bytes)) {
    return bad(cat("another process reads other bytes: ", answer));
  }
  if (!taken) return without("it is refused", "Data files are written through the page cache.");
  return good("on 4096 bytes; the same bytes come back, in another process too");
}

Result sparse(const Place& place) {
  const auto first = some_bytes(page);
  auto whole = first + std::string(2 * mebibyte, '\0') + first;
  auto file = place.files()->create(place.at("sparse"));
  write(*file, 0, first);
  write(*file, page + 2 * mebibyte, first);
  file->sync();
  const auto hole = file->next_hole(0);
  file->close();
  if (read(place, "sparse") != whole) return bad("a hole has other bytes");
  if (place.other.run("sum sparse") != sum(whole)) return bad("a hole has other bytes elsewhere");
  const auto allocated = status(place, "sparse").allocated;
  // A file that is cut and made longer again has zeros there, too.
  file = place.files()->open_write(place.at("sparse"));
  file->resize(100);
  file->resize(static_cast<std::int64_t>(page));
  file->close();
  if (!are_zeros(read(place, "sparse").substr(100)))
    return bad("bytes that were cut off came back");
  if (allocated < 0 || allocated > static_cast<std::int64_t>(mebibyte) ||
      hole > static_cast<std::int64_t>(mebibyte)) {
    return without("they are, but take space or cannot be found",
                   "Thinned checkpoints and HDF5 files with gaps take more space.");
  }
  return good("they take no space");
}

Result space(const Place& place) {
  constexpr auto bytes = static_cast<std::int64_t>(mebibyte);
  const auto file = place.files()->create(place.at("space"));
  file->reserve(bytes);
  file->sync();
  const bool reserved = status(place, "space").allocated >= bytes;
  const auto full = some_bytes(mebibyte);
  write(*file, 0, full);
  file->sync();
  const bool punched = file->punch(0, bytes / 2);
  file->close();
  const auto rest = read(place, "space");
  if (rest.size() != mebibyte || rest.substr(mebibyte / 2) != full.substr(mebibyte / 2) ||
      (punched ? !are_zeros(rest.substr(0, mebibyte / 2)) : rest != full)) {
    return bad("giving back space changed other bytes, or left some");
  }
  if (!reserved) {
    return without("none can be reserved", "A full disk is noticed by a write in midst of a save.");
  }
  if (!punched) return without("none is given back", "cairn thin copies what stays.");
  return good("both work");
}

Result clones(const Place& place) {
  const auto bytes = some_bytes(mebibyte);
  put(place, "original", bytes);
  auto file = place.files()->create_clone(place.at("original"), place.at("clone"));
  if (!file) {
    return without("there are none", "Unchanged blocks are left out only where a save overwrites.");
  }
  write(*file, page, "changed");
  file->sync();
  file->close();
  auto changed = bytes;
  changed.replace(page, 7, "changed");
  if (read(place, "original") != bytes || place.other.run("sum original") != sum(bytes)) {
    return bad("writing into a clone changed the original");
  }
  if (read(place, "clone") != changed) return bad("a clone has other bytes");
  return good("a clone shares them until it is changed");
}

Result identity(const Place& place) {
  auto& files = *place.files();
  put(place, "known", "1");
  const auto before = status(place, "known");
  if (status(place, "known").id != before.id) return bad("a file changes its identity");
  files.rename(place.at("known"), place.at("known.renamed"));
  if (status(place, "known.renamed").id != before.id) return bad("a rename changes it");
  files.remove(place.at("known.renamed"));
  if (before.id.made_nanoseconds == 0) return bad("it does not tell when a file was made");
  for (int i = 0; i < 16; ++i) {
    put(place, "known", "1");
    if (status(place, "known").id == before.id) return bad("a new file has that of a removed one");
    files.remove(place.at("known"));
  }
  return good("a rename keeps it, and a new file has another");
}

Result changes(const Place& place) {
  put(place, "changed", "1");
  const auto before = status(place, "changed");
  if (before.changed_nanoseconds == 0) return bad("there is none");
  const auto again = status(place, "changed");
  if (again.changed_nanoseconds != before.changed_nanoseconds || again.device != before.device) {
    return bad("it changes without a change of the file");
  }
  // The same bytes, until the clock of the file system has moved.
  const auto seen = wait_until(place, [&] {
    place.other.run("overwrite changed 1");
    return status(place, "changed").changed_nanoseconds != before.changed_nanoseconds;
  });
  if (seen < 0) return bad("a write of another process does not change it");
  if (seen >= 0.5) return bad(cat("it changes only ", delay_text(seen)));
  const auto written = status(place, "changed").changed_nanoseconds;
  place.files()->rename(place.at("changed"), place.at("changed.renamed"));
  if (status(place, "changed.renamed").changed_nanoseconds < written) return bad("it goes back");
  return good("another process's write changes it");
}

Result clock(const Place& place) {
  put(place, "here", "1");
  const auto ours = status(place, "here").modified_seconds, now = seconds_now();
  const auto asked = std::chrono::steady_clock::now();
  if (const auto answer = place.other.run("put there 1"); answer != "written") return bad(answer);
  const auto theirs = status(place, "there").modified_seconds;
  const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count();
  // The other file was made after ours, within the time that its errand took.
  const auto skew = std::max(std::abs(theirs - ours) - took, 0.0);
  if (skew > most_skew_seconds) {
    return bad(cat("it stamps files with the hosts' clocks, which differ by ", in_words(skew)));
  }
  if (skew > 1) {
    return without(cat("it stamps files with the hosts' clocks, which differ by ", in_words(skew)),
                   "Owners are told apart only if their clocks differ by less than 30 s.");
  }
  if (const auto difference = now - ours; std::abs(difference) > 1) {
    return without(cat("it differs from this host's by ", in_words(difference)),
                   "Ages are differences of the file system's own times; listings show these.");
  }
  return good("it agrees with this host's");
}

Result heartbeat(const Place& place) {
  put(place, "beat", "1");
  const auto before = status(place, "beat").modified_seconds;
  // Writes the same bytes in place, as an owner renews its record; a successor reads, then looks.
  const auto seen = wait_until(place, [&] {
    place.other.run("overwrite beat 1");
    read(place, "beat");
    return status(place, "beat").modified_seconds != before;
  });
  if (seen < 0) return bad("its renewal is not seen");
  return good(cat("it is seen ", delay_text(seen)));
}

}  // namespace cairn::attempts
