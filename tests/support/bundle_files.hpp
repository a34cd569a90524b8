#pragma once
/// The simplest possible reader of a bundle's files, to check the codec against real checkpoints.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/contents.hpp"

namespace cairn::test {

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// PREFIX.data-00001-of-00003
std::filesystem::path data_file(const std::filesystem::path& prefix, int file, int num_files);

/// The contents of a checkpoint, whose tensors were checked against the sizes of the data files.
CheckpointContents open_bundle(const std::filesystem::path& prefix);

/// The elements of one slice in the form of golden checkpoints: little-endian, strings each after a
/// u64 length. Throws like a restore: bad tensors, checksums, cut files.
std::string read_slice(const CheckpointContents& contents, const StoredTensor& tensor,
                       const Piece& slice);
/// The same for a whole tensor, joined from its slices. Throws Code::coverage if some are missing.
std::string read_tensor(const CheckpointContents& contents, const StoredTensor& tensor);

/// All contents as text, to compare two checkpoints.
std::string dump(const CheckpointContents& contents);

std::string to_hex(std::string_view bytes);
std::string from_hex(std::string_view hex);  ///< blanks are skipped

}  // namespace cairn::test
