#pragma once
/// Every file name of a checkpoint directory, built and parsed in this one place. Both ways are
/// strict: a name that the builders would not produce is foreign, and foreign files are not
/// touched.
///
///   DIRECTORY/checkpoint                         TensorFlow's state file
///   DIRECTORY/checkpoint.tmp-NAME_TOKEN          the next state file, while it is written
///   DIRECTORY/NAME-STEP.index                    NAME-STEP is the checkpoint's prefix (or NAME)
///   DIRECTORY/NAME-STEP.data-00000-of-00002
///   DIRECTORY/NAME-STEP.h5                       a checkpoint that is one file
///   DIRECTORY/NAME.xdmf                          what ParaView opens to show all steps
///   DIRECTORY/NAME.xdmf.tmp_TOKEN                the next such file, while it is written
///   DIRECTORY/ENTRY.aside_TOKEN                  an index, a data file or an .h5 file,
///                                                while it is removed: see removal.hpp
///   DIRECTORY/NAME-STEP_temp_UUID/               a save in progress:
///       part-00000-of-00002                      its data files,
///       record-00000-of-00004                    one part record a writing rank,
///       index                                    the index in preparation
///       saver-00000…                             what a registered saver wrote
///       part.h5                                  the one file of a save that makes one
///       copy.h5                                  a copy of part.h5, which replaces it
///   DIRECTORY/NAME-9223372036854775807_temp_UUID/  what an owner saves from, as long as it saves
///                                                under this name (staging_directory.hpp):
///       UUID.part-00000-of-00002                 data files of a save, by the save's UUID,
///       UUID.index, UUID.state                   its index and state file in preparation
///       UUID.recorded-part-00000-of-00002        data files of a save that leaves records,
///       record-SLOT-00000-of-00004               its records, which later saves of the slot
///                                                overwrite: at most two such saves are pending,
///                                                each in a slot of its own
///       retired-STEP                             the index of a checkpoint that was removed
///   DIRECTORY/NAME-STEP_kept_UUID_TOKEN/         a temp directory that a later owner has
///                                                renamed, so that the job that began the save
///                                                cannot go on with it
///   DIRECTORY/NAME-STEP.part_UUID/               the temp directory of a direct save, which
///                                                relies on no rename: records, savers' files,
///       old-index                                the index that the save replaces
///   DIRECTORY/.cairn/                            Cairn's private directory: lock, owner,
///                                                damaged/NAME-STEP, no-atomic-rename,
///                                                pinned/NAME-STEP, pinned.lock,
///       marked/NAME-STEP                         what a user has marked the step with (marks.hpp),
///       runs.NAME                                how earlier runs ended,
///       thinning.NAME                            which tensors are being removed from which step,
///       ended                                    how cairn-job saw the last job end,
///       status.NAME                              whether saves fail (save_status.hpp),
///       owner.tmp-UUID                           the next owner or runs.NAME, while it is written;
///                                                pinned, damaged and marked have such files too,
///       sequences.NUMBER                         sequences up to this one may be in use,
///       room.0, room.1                           files to overwrite on a full disk (room.hpp),
///       recycled/steps.NAME.00000                data files of removed checkpoints, which the next
///       recycled/single.NAME.00000               save overwrites: one for each data file number
///       saved/NAME-STEP.h5, saved/NAME.index     notes that Cairn saved the file of this name
///       repair/…                                 the files that a repair is about to put in place,
///                                                by name, and those it replaced, as ….aside_TOKEN
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::commit {

/// The checkpoints that belong together: NAME-STEP for each step, or the single one called NAME,
/// whose step counts as 0.
struct Naming {
  std::string name;
  bool numbered = true;
  Naming() = default;
  Naming(std::string name, bool numbered = true) : name(std::move(name)), numbered(numbered) {}
  Naming(std::string_view name) : name(name) {}
  Naming(const char* name) : name(name) {}
};

/// "ckpt-100" as ("ckpt", 100). Nothing for names of another form.
struct NameAndStep {
  std::string name;
  std::int64_t step;
};
std::optional<NameAndStep> split_step(const std::string& prefix);

/// Throws invalid_argument, with the reason, if `name` cannot be the name of checkpoints.
void check_checkpoint_name(std::string_view name);

/// 32 lowercase hexadecimal digits that nobody has used before.
std::string new_uuid();
struct Uuid {
  std::uint64_t high = 0, low = 0;
};
Uuid random_uuid();  ///< the same as numbers
std::string uuid_text(const Uuid&);
Uuid parse_uuid(std::string_view text);  ///< of uuid_text()
bool is_uuid(std::string_view text);

inline constexpr const char* state_file_name = "checkpoint";
/// "checkpoint.tmp-NAME": several names may be saved in one directory at a time, each of which may
/// be writing the next state file. An owner appends 16 of its token's digits.
std::string state_temporary_name(const Naming&, std::string_view token = {});
/// The temporary of earlier versions. No present version uses it.
inline constexpr const char* old_state_temporary_name = "checkpoint.tmp";

// Builders. Steps and numbers are ≥ 0, counts greater than numbers; else internal is thrown.
std::string prefix_name(const Naming&, std::int64_t step);  ///< "NAME-STEP", or "NAME"
std::string index_name(std::string_view prefix);
/// "PREFIX.index.replaced", a name that counts as foreign: a repair keeps under it an index of
/// which there is no other copy.
std::string replaced_index_name(std::string_view prefix);
std::string hdf5_name(std::string_view prefix);
std::string data_name(std::string_view prefix, std::int64_t number, std::int64_t count);
/// The same as paths, by the checkpoint's prefix: a directory and the name.
std::filesystem::path index_path(const std::filesystem::path& prefix);
std::filesystem::path hdf5_path(const std::filesystem::path& prefix);
std::filesystem::path data_path(const std::filesystem::path& prefix, std::int64_t number,
                                std::int64_t count);
std::string xdmf_name(std::string_view name);  ///< "NAME.xdmf"
/// The temporary under which an owner writes the XDMF file; the token's first 16 digits follow the
/// name.
std::string xdmf_temporary_name(std::string_view name, std::string_view token);
/// What an owner calls a file that it removes: 16 of the digits of its token follow the name.
std::string aside_name(std::string_view entry, std::string_view token);
std::string temp_directory_name(std::string_view prefix, std::string_view uuid);
/// The owner's token: 16 of its digits follow.
std::string kept_directory_name(std::string_view prefix, std::string_view uuid,
                                std::string_view token);
std::string part_directory_name(std::string_view prefix, std::string_view uuid);
/// The step in the name of a staging directory, which no save has.
inline constexpr std::int64_t staging_step = std::numeric_limits<std::int64_t>::max();
/// Whether an application may save this step.
constexpr bool may_be_saved(std::int64_t step) { return step >= 0 && step != staging_step; }
std::string staging_directory_name(const Naming&, std::string_view uuid);

inline constexpr const char* prepared_index_name = "index";
inline constexpr const char* old_index_name = "old-index";
inline constexpr const char* hdf5_part_name = "part.h5";
inline constexpr const char* hdf5_copy_name = "copy.h5";  ///< it takes the place of part.h5
std::string part_name(std::int64_t number, std::int64_t count);
std::string record_name(std::int64_t number, std::int64_t count);
/// The name of a save's file in a staging directory, by the save's UUID. Earlier versions do not
/// take such a file for one of theirs.
std::string staged_name(std::string_view uuid, std::string_view name);
std::string staged_part_name(std::string_view uuid, std::int64_t number, std::int64_t count,
                             bool recorded);
std::string staged_record_name(int slot, std::int64_t number, std::int64_t count);
std::string retired_name(std::int64_t step);
inline constexpr const char* staged_state_name = "state";
std::string saver_name(std::int64_t number);  ///< "saver-00000": what a saver writes begins so

inline constexpr const char* private_directory_name = ".cairn";
inline constexpr const char* lock_name = "lock";
inline constexpr const char* owner_name = "owner";
inline constexpr const char* damaged_directory_name = "damaged";
inline constexpr const char* no_rename_name = "no-atomic-rename";
inline constexpr const char* pinned_directory_name = "pinned";
inline constexpr const char* pin_lock_name = "pinned.lock";
inline constexpr const char* marked_directory_name = "marked";
inline constexpr const char* ended_name = "ended";
inline constexpr const char* recycled_directory_name = "recycled";
inline constexpr const char* saved_directory_name = "saved";
inline constexpr const char* repair_directory_name = "repair";
inline constexpr const char* pieces_directory_name = "pieces";  ///< brought home from nodes
/// The folders in the private directory. Cairn may write and remove everything in them.
inline constexpr std::array private_folders = {
    damaged_directory_name, pinned_directory_name, marked_directory_name, recycled_directory_name,
    saved_directory_name,   repair_directory_name, pieces_directory_name};
/// "owner.tmp-UUID", of the owner's record and of other small files that are being replaced.
std::string owner_temporary_name(std::string_view token);
std::string runs_name(const Naming&);           ///< "runs.NAME"
std::string thinning_name(const Naming&);       ///< "thinning.NAME"
std::string status_name(const Naming&);         ///< "status.NAME"
std::string room_name(int number);              ///< "room.0"
std::string sequences_name(std::int64_t last);  ///< "sequences.1048576"
/// The name, in the directory of recycled files, of the file that data file `number` of a save
/// under this name overwrites.
std::string recycled_name(const Naming&, std::int64_t number);

struct ParsedName {
  enum class Kind {
    foreign,
    index,
    hdf5,
    data,
    temp_directory,
    state_file,
    state_temporary,
    xdmf,
    xdmf_temporary,
    private_directory,
    // in a temp directory
    part,
    record,
    prepared_index,
    old_index,
    saver_file,
    hdf5_part,
    file_pointer,  // beside a file that MPI-IO writes
    retired_index,
    // in the private directory
    lock,
    owner,
    owner_temporary,
    damaged_directory,
    no_rename,
    pinned_directory,
    pin_lock,
    marked_directory,
    ended,
    recycled_directory,
    saved_directory,
    repair_directory,
    pieces_directory,
    runs,
    runs_temporary,
    status,
    thinning,
    sequences,
    room,
  };
  Kind kind = Kind::foreign;
  std::int64_t step = -1;    ///< of index, hdf5, data, temp_directory and retired_index
  std::int64_t number = -1;  ///< of data, part, record and room; the last one of sequences
  std::int64_t count = -1;
  std::string uuid;     ///< of temp_directory and owner_temporary, and of what is staged
  bool direct = false;  ///< of temp_directory: NAME-STEP.part_UUID
  std::string keeper;   ///< of temp_directory: the digits of NAME-STEP_kept_UUID_TOKEN
  int slot = -1;        ///< of record, in a staging directory
  bool operator==(const ParsedName&) const = default;
};

/// Whether this is a staging directory, not the temp directory of one save.
inline bool is_staging(const ParsedName& parsed) {
  return parsed.kind == ParsedName::Kind::temp_directory && !parsed.direct &&
         parsed.step == staging_step;
}

/// Whether a file of this kind makes a checkpoint visible.
constexpr bool is_main(ParsedName::Kind kind) {
  return kind == ParsedName::Kind::index || kind == ParsedName::Kind::hdf5;
}
/// Whether such a file holds the whole checkpoint: no data files lie beside it.
constexpr bool is_whole(ParsedName::Kind kind) { return kind == ParsedName::Kind::hdf5; }

/// PREFIX.index and PREFIX.h5 taken apart: the files that make a checkpoint visible. Nothing for
/// other endings. Does not look whether there is such a file.
struct MainFile {
  std::filesystem::path prefix;
  ParsedName::Kind kind = ParsedName::Kind::index;
};
std::optional<MainFile> split_main_file(const std::filesystem::path&);

/// An entry of the directory that holds these checkpoints.
ParsedName parse_name(std::string_view entry, const Naming&);
/// The former name of an entry there that any owner has set aside. Nothing for other entries.
std::optional<std::string> parse_aside_name(std::string_view entry, const Naming&);
/// An entry of a temp directory.
ParsedName parse_temp_name(std::string_view entry);
/// An entry of the private directory.
ParsedName parse_private_name(std::string_view entry);
/// An entry of the directory of recycled files. Nothing for names that are not Cairn's.
struct RecycledName {
  Naming naming;
  std::int64_t number;
};
std::optional<RecycledName> parse_recycled_name(std::string_view entry);
/// The step of "NAME-STEP": a damage mark, a note, or the last part of a path in the state file.
std::optional<std::int64_t> parse_prefix(std::string_view prefix, const Naming&);

}  // namespace cairn::commit
