#include "tools/verify.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/key_text.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/codec.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "layout/offsets.hpp"
#include "store/commit/names.hpp"
#include "store/contents/data_file.hpp"
#include "store/contents/data_files.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/contents/spare.hpp"
#include "store/contents/standing.hpp"
#include "store/contents/whose.hpp"
#include "store/directory/pins.hpp"

namespace cairn {
namespace {

constexpr std::int64_t verified_bytes = std::int64_t{4} << 20;
constexpr int most_missing_files = 100;  // a limit, so that a hostile number of files does no harm

using Kind = Finding::Kind;

// The bytes of one slice in a data file.
struct Range {
  const StoredTensor* tensor;
  const Piece* slice;
  std::int64_t begin() const { return slice->offset; }
  std::int64_t end() const { return end_of(*slice); }
  bool is_string() const { return tensor->dtype == DType::string; }
  bool is_decodable() const { return slice->codec != Codec::none && is_known(slice->codec); }
  bool same_bytes(const Range& other) const {
    return begin() == other.begin() && end() == other.end();
  }
};

class Verifier {
 public:
  /// Reads the checkpoint in `format`; without it, in the format that readers take.
  Verifier(const Address& prefix, const Progress& progress,
           std::optional<Format> format = std::nullopt)
      : prefix_(prefix), progress_(progress), format_(format) {
    report_.prefix = prefix.string();
  }

  Verification run();

 private:
  struct OpenFile {
    std::int32_t number;
    std::string path;
    std::unique_ptr<io::File> file;
    std::int64_t size;
  };

  Finding& add(Kind kind, std::string what) {
    auto& finding = report_.findings.emplace_back();
    finding.kind = kind, finding.what = std::move(what);
    return finding;
  }
  Finding& add(Kind kind, std::string_view what, const StoredTensor& tensor) {
    auto& finding = add(
        kind, cat("tensor ", bundle::key_text(tensor.key), ' ', shape_text(tensor.shape), what));
    finding.key = tensor.key;
    return finding;
  }

  bool has_spare() const;
  bool load();
  void look_at_metadata(const StoredTensor&);
  void look_at_tensors();
  void list_data_files();
  void read_data_file(std::int32_t number, std::vector<Range>& ranges);
  void check(OpenFile&, std::span<const Range> same_bytes);
  void check_gap(OpenFile&, std::int64_t begin, std::int64_t end);
  void check_tail(OpenFile&, std::int64_t begin);
  void check_spare_index(OpenFile&, std::int64_t begin);
  template <class Use>
  void read(OpenFile&, std::int64_t begin, std::int64_t end, Use use);
  std::string_view read_whole(OpenFile&, std::int64_t begin, std::int64_t end);
  std::string steps_that_share(const std::string& path, const commit::NameAndStep& mine);
  void tell_who_shares();

  Address prefix_;
  const Progress& progress_;
  std::optional<Format> format_;
  Verification report_;
  IndexFile loaded_;
  CheckpointContents contents_;
  std::map<std::int32_t, std::int64_t> sizes_;  // of the data files that exist
  std::string save_id_;
  std::optional<std::int32_t> meta_file_;
  std::optional<std::size_t> meta_finding_;
  std::int64_t total_ = 0, unreferenced_ = 0;
  std::string buffer_;
};

// Returns whether exactly one save has a copy of the index here.
bool Verifier::has_spare() const {
  try {
    return find_spares(prefix_).size() == 1;
  } catch (const Error&) {  // the damage is reported without this
    return false;
  }
}

// Returns whether the index as a whole can be trusted.
bool Verifier::load() {
  try {
    loaded_ = load_index(prefix_, Graph::read, format_);
    contents_ = parse_contents(loaded_, prefix_.path());
  } catch (const Error& error) {
    const bool damage = error.code() == Code::data_loss;
    report_.changed = error.code() == Code::not_found;
    auto path = error.path();
    if (path.empty()) path = commit::index_path(prefix_.path()).string();
    std::string what = error.what();
    const bool may_add = damage && what.find("--repair") == what.npos && has_spare();
    if (may_add) what += cat(" Or: ", index_way_out(prefix_.path()));
    add(damage ? Kind::damage : Kind::unknown, std::move(what)).file = path;
    return false;
  }
  const auto main = format_of(loaded_.format).main_file(prefix_.path()).string();
  if (!loaded_.foreign.empty()) {
    add(Kind::damage, cat(loaded_.foreign, "; cairn verify --repair puts that back")).file = main;
  }
  if (const auto why = misplaced(contents_); !why.empty()) add(Kind::damage, why).file = main;
  sizes_ = loaded_.data_sizes;
  report_.tensors = static_cast<std::int64_t>(contents_.tensors.size());
  // If the bytes of the graph are damaged, that is found where they are read.
  if (loaded_.graph_problem.empty() && !contents_.graph_problem.empty()) {
    add(Kind::damage, contents_.graph_problem).key = object_graph_key;
  }
  for (const auto& tensor : contents_.own) {
    if (tensor.key == bundle::meta_key) look_at_metadata(tensor);
  }
  return true;
}

void Verifier::look_at_metadata(const StoredTensor& tensor) {
  report_.ours = true;
  if (tensor.slices.size() == 1) meta_file_ = tensor.slices.front().file;
  if (!tensor.problem.empty() || loaded_.meta_problem.empty()) return;
  meta_finding_ = report_.findings.size();
  auto& finding = add(Kind::damage, cat("the metadata of the save: ", loaded_.meta_problem));
  finding.key = tensor.key;
  if (meta_file_) finding.file = data_path(contents_, *meta_file_).string();
}

void Verifier::look_at_tensors() {
  const auto look = [&](const StoredTensor& tensor) {
    if (!tensor.problem.empty()) {
      auto& finding = add(Kind::damage, cat(": ", tensor.problem), tensor);
      // A tensor has slices if the index is sound, even if the data file is not.
      for (const auto& slice : tensor.slices) {
        const auto at = sizes_.find(slice.file);
        if (at != sizes_.end() && lies_within(slice, at->second)) continue;
        finding.slice = slice_spec_text(tensor.shape, slice.box);
        finding.file = data_path(contents_, slice.file).string();
        finding.offset = slice.offset;
        break;
      }
      return;
    }
    if (tensor.dtype == DType::variant) {
      add(Kind::unknown, ": variants are not decoded, so that its bytes cannot be checked", tensor);
      return;
    }
    for (const auto& slice : tensor.slices) {
      if (is_known(slice.codec)) continue;
      add(Kind::unknown, cat(": it cannot be decoded, being of ", codec_text(slice.codec)), tensor);
      break;
    }
    try {
      require_stored(tensor, {Box::whole(tensor.shape)});
    } catch (const Error& error) {
      add(report_.ours ? Kind::damage : Kind::note, error.what()).key = tensor.key;
    }
  };
  for (const auto& tensor : contents_.tensors) look(tensor);
  for (const auto& tensor : contents_.own) look(tensor);
}

// In Cairn's checkpoints every data file must be there; in others only those in which tensors lie.
void Verifier::list_data_files() {
  if (!report_.ours) return;
  if (!is_credible(contents_.num_files, slices_of(contents_))) {
    add(Kind::damage, cat("the index speaks of ", contents_.num_files,
                          " data files, which is more than any save makes"));
    return;
  }
  save_id_ = found_save_id(*prefix_.files(), contents_);
  int missing = 0;
  const bool may_lack = contents_.meta && !contents_.meta->thinned.empty();
  for (std::int32_t file = 0; file < contents_.num_files; ++file) {
    if (sizes_.contains(file)) continue;
    const auto path = data_path(contents_, file);
    const auto status = prefix_.at(path).status();
    if (status && !status->is_directory) {
      sizes_[file] = status->size;
      continue;
    }
    if (may_lack) continue;  // the tensors in it report what is missing
    auto& finding =
        add(Kind::damage, cat("data file ", file, " of ", contents_.num_files, " is missing"));
    finding.file = path.string();
    if (++missing == most_missing_files) {
      add(Kind::damage, "more data files may be missing: no more were looked for");
      break;
    }
  }
}

template <class Use>
void Verifier::read(OpenFile& in, std::int64_t begin, std::int64_t end, Use use) {
  for (auto at = begin; at < end;) {
    const auto bytes = std::min(verified_bytes, end - at);
    buffer_.resize(static_cast<std::size_t>(bytes));
    in.file->read_at(at, std::as_writable_bytes(std::span(buffer_)));
    use(at, std::string_view(buffer_));
    at += bytes;
    report_.bytes += bytes;
    if (progress_) progress_(std::min(report_.bytes, total_), total_);
  }
}

std::string_view Verifier::read_whole(OpenFile& in, std::int64_t begin, std::int64_t end) {
  buffer_.resize(static_cast<std::size_t>(end - begin));
  if (end > begin) in.file->read_at(begin, std::as_writable_bytes(std::span(buffer_)));
  report_.bytes += end - begin;
  if (progress_) progress_(std::min(report_.bytes, total_), total_);
  return buffer_;
}

void Verifier::check(OpenFile& in, std::span<const Range> same_bytes) {
  const auto begin = same_bytes.front().begin(), end = same_bytes.front().end();
  if (begin > in.size || end > in.size) return;  // this tensor has been reported already
  const auto blame = [&](const Range& range, const std::string& why) {
    // What is wrong with the metadata was found when they were read. Here its offset is known.
    const bool told = meta_finding_ && range.tensor->key == bundle::meta_key;
    auto& finding =
        told ? report_.findings[*meta_finding_]
             : add(Kind::damage, cat(", ", box_text(range.slice->box), ": ", why), *range.tensor);
    finding.slice = slice_spec_text(range.tensor->shape, range.slice->box);
    finding.file = in.path;
    finding.offset = begin;
  };
  const auto is_decoded = [](const Range& r) { return r.is_string() || r.is_decodable(); };
  std::uint32_t crc = 0;
  std::string_view all;
  if (std::any_of(same_bytes.begin(), same_bytes.end(), is_decoded)) {
    crc = crc32c(all = read_whole(in, begin, end));
  } else {
    read(in, begin, end, [&](std::int64_t, std::string_view bytes) { crc = crc32c(bytes, crc); });
  }
  for (const auto& range : same_bytes) try {
      if (range.is_string()) {
        bundle::decode_strings(all, range.slice->box.count(), range.slice->crc32c,
                               contents_.big_endian);
      } else if (crc != range.slice->crc32c && range.tensor->dtype != DType::variant) {
        blame(range, cat("the checksum of its ", end - begin, " bytes is ", hex(crc),
                         ", stored is ", hex(range.slice->crc32c)));
      } else if (range.is_decodable()) {
        decode_slice(contents_, *range.tensor, *range.slice, all);
      }
    } catch (const Error& error) {
      if (error.code() != Code::data_loss) throw;
      blame(range, range.is_string() ? error.what() : cat("it is not decoded: ", error.reason()));
    }
}

void Verifier::check_gap(OpenFile& in, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  const auto table = loaded_.table_offset;
  const auto used = static_cast<std::int64_t>(loaded_.bytes.size());
  if (loaded_.table_room > 0 && begin <= table && table + used <= end) {
    // The checksum of the table was checked when it was read. The rest of its space must be zero.
    check_gap(in, begin, table);
    report_.bytes += used;
    return loaded_.table_room = 0, check_gap(in, table + used, end);
  }
  read(in, begin, end, [&, found = false](std::int64_t at, std::string_view bytes) mutable {
    const auto first = bytes.find_first_not_of('\0');
    if (found || !report_.ours || first == bytes.npos) return;
    found = true;
    auto& finding = add(Kind::damage, cat("a byte between tensors is not zero (the gap is ", begin,
                                          "..", end - 1, ")"));
    finding.file = in.path;
    finding.offset = at + static_cast<std::int64_t>(first);
  });
  if (!report_.ours) unreferenced_ += end - begin;
}

void Verifier::check_spare_index(OpenFile& in, std::int64_t begin) {
  const auto& index = loaded_.bytes;
  std::optional<std::int64_t> differs;
  read(in, begin, in.size, [&](std::int64_t at, std::string_view bytes) {
    if (differs) return;
    const auto known = std::string_view(index).substr(
        std::min(index.size(), static_cast<std::size_t>(at - begin)), bytes.size());
    const auto [a, b] = std::mismatch(bytes.begin(), bytes.end(), known.begin(), known.end());
    if (a != bytes.end()) differs = at + (a - bytes.begin());
  });
  if (!differs && in.size - begin < std::ssize(index)) differs = in.size;
  if (!differs) return;
  auto& finding = add(Kind::damage, "the spare copy of the index differs from the index");
  finding.file = in.path;
  finding.offset = *differs;
}

void Verifier::check_tail(OpenFile& in, std::int64_t begin) {
  // A table in the file is followed by a seal, which was checked before anything was read.
  if (loaded_.table_offset > 0) return check_gap(in, begin, in.size - hdf5::seal_bytes);
  if (report_.ours && meta_file_ == in.number) return check_spare_index(in, begin);
  if (begin >= in.size) return;
  const bool may_be_id = report_.ours && in.size - begin == save_id_bytes;
  if (may_be_id && read_whole(in, begin, in.size) == save_id_) return;
  if (!may_be_id) read(in, begin, in.size, [](std::int64_t, std::string_view) {});
  if (!report_.ours) return void(unreferenced_ += in.size - begin);
  auto& finding = add(Kind::damage, cat(in.size - begin, " bytes at the end belong to no tensor"));
  finding.file = in.path;
  finding.offset = begin;
}

void Verifier::read_data_file(std::int32_t number, std::vector<Range>& ranges) {
  const auto data = prefix_.at(data_path(contents_, number));
  const auto path = data.string();
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::make_tuple(a.begin(), a.end()) < std::make_tuple(b.begin(), b.end());
  });
  unreferenced_ = 0;
  try {
    OpenFile in{number, path, data.open_read(), 0};
    in.size = in.file->size();
    std::int64_t at = 0;  // all bytes before it have been read
    for (std::size_t i = 0, next = 0; i < ranges.size(); i = next) {
      while (next < ranges.size() && ranges[next].same_bytes(ranges[i])) ++next;
      check_gap(in, at, std::min(ranges[i].begin(), in.size));
      check(in, std::span(ranges).subspan(i, next - i));
      at = std::max(at, std::min(ranges[i].end(), in.size));
    }
    check_tail(in, at);
    ++report_.files;
  } catch (const Error& error) {
    // A file cut or removed during the read is damage, unless the whole checkpoint was removed.
    const bool damage = error.code() == Code::data_loss || error.code() == Code::not_found;
    add(damage ? Kind::damage : Kind::unknown, error.what()).file = path;
  }
  if (unreferenced_ > 0) {
    add(Kind::note, cat(unreferenced_, " bytes belong to no tensor")).file = path;
  }
}

// The other steps that have the same file.
std::string Verifier::steps_that_share(const std::string& path, const commit::NameAndStep& mine) {
  const auto status = prefix_.at(path).status();
  if (!status || status->is_directory || status->names < 2) return "";
  const auto directory = prefix_.directory();
  const commit::Naming naming(mine.name);
  std::string others;
  for (const auto& entry : directory.list()) {
    const auto parsed = commit::parse_name(entry, naming);
    if (parsed.kind != commit::ParsedName::Kind::data || parsed.step == mine.step) continue;
    const auto other = commit::prefix_name(naming, parsed.step);
    const auto data = (directory / entry).status();
    // A file without an index is waiting to be removed.
    if (!data || data->id != status->id) continue;
    if (!(directory / commit::index_name(other)).exists()) continue;
    others += cat(others.empty() ? "" : ", ", other);
  }
  return others;
}

// A file of frozen tensors may belong to several steps. Damage there concerns all of them.
void Verifier::tell_who_shares() {
  const auto mine = commit::split_step(prefix_.name());
  if (!mine) return;
  std::set<std::string> damaged;
  for (const auto& finding : report_.findings) {
    if (finding.kind == Kind::damage && !finding.file.empty()) damaged.insert(finding.file);
  }
  for (const auto& path : damaged) try {
      const auto others = steps_that_share(path, *mine);
      if (others.empty()) continue;
      add(Kind::note, cat("the damaged file is that of other steps too: ", others)).file = path;
    } catch (const Error&) {  // the damage is reported without this
    }
}

Verification Verifier::run() {
  if (!load()) return std::move(report_);
  try {
    if (const auto why = pin_problem(prefix_); !why.empty()) add(Kind::note, why);
    look_at_tensors();
    list_data_files();
  } catch (const Error& error) {
    add(Kind::unknown, error.what()).file = error.path();
  }
  std::map<std::int32_t, std::vector<Range>> ranges;
  for (const auto& [file, size] : sizes_) total_ += size, ranges[file];
  for (const auto* tensors : {&contents_.tensors, &contents_.own}) {
    for (const auto& tensor : *tensors) {
      for (const auto& slice : tensor.slices) {
        const auto at = ranges.find(slice.file);
        if (at != ranges.end()) at->second.push_back({&tensor, &slice});
      }
    }
  }
  for (auto& [file, in_file] : ranges) read_data_file(file, in_file);
  tell_who_shares();
  return std::move(report_);
}

// The formats in which the checkpoint is there. The first is the one that is read.
std::vector<const CheckpointFormat*> formats_of(const Address& prefix) {
  std::vector<const CheckpointFormat*> there;
  for (const auto* format : all_formats()) {
    const auto any = try_recognise(*format, prefix.at(format->main_file(prefix.path())));
    if (any.value_or(true)) there.push_back(format);
  }
  if (there.size() < 2) return there;
  try {
    const auto read = load_index(prefix).format;
    std::stable_partition(there.begin(), there.end(),
                          [&](const auto* format) { return format->id() == read; });
  } catch (const Error&) {  // then none of them can be read
  }
  return there;
}

// A checkpoint is in two formats while a save in one replaces one in the other.
void add_other_format(const Address& prefix, const CheckpointFormat& read,
                      const CheckpointFormat& other, const Progress& progress,
                      Verification& report) {
  const auto file = prefix.at(other.main_file(prefix.path()));
  auto also = Verifier(prefix, progress, other.id()).run();
  if (!try_recognise(other, file).value_or(true)) return;
  Finding two;
  two.what = cat("it is there twice: ", read.main_file(prefix.path()).filename().string(),
                 " is read, and not ", file.name());
  report.findings.push_back(std::move(two));
  report.files += also.files;
  report.bytes += also.bytes;
  report.changed |= also.changed;
  for (auto& finding : also.findings) report.findings.push_back(std::move(finding));
}

Verification verify_formats(const Address& prefix, const Progress& progress) {
  const auto formats = formats_of(prefix);
  if (formats.size() < 2) return Verifier(prefix, progress).run();
  auto report = Verifier(prefix, progress, formats[0]->id()).run();
  add_other_format(prefix, *formats[0], *formats[1], progress, report);
  return report;
}

}  // namespace

Verdict Verification::verdict() const {
  auto verdict = Verdict::whole;
  for (const auto& finding : findings) {
    if (finding.kind == Kind::damage) return Verdict::damaged;
    if (finding.kind == Kind::unknown) verdict = Verdict::unknown;
  }
  return verdict;
}

Verification verify_checkpoint(const Address& prefix, const Progress& progress) {
  const auto before = standing_of(prefix);
  auto report = verify_formats(prefix, progress);
  if (report.changed || report.verdict() == Verdict::whole) return report;
  if (stands_as_before(prefix, before)) return report;
  report.changed = true;
  report.findings.assign(1, {});
  auto& finding = report.findings.front();
  finding.kind = Finding::Kind::unknown;
  finding.what = "it was removed or replaced while it was read";
  finding.file = commit::index_path(prefix.path()).string();
  return report;
}

Verification verify_format(Format format, const Address& prefix) {
  return Verifier(prefix, {}, format).run();
}

}  // namespace cairn
