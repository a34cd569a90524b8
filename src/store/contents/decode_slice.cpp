// Decodes stored bytes of slices, after all that can be checked before.
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "layout/codec.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {
namespace {

Error slice_error(const CheckpointContents& contents, const StoredTensor& tensor,
                  const Piece& slice, const char* what, std::string why) {
  return Error(Code::data_loss,
               cat("tensor '", tensor.key, "' ", shape_text(tensor.shape), ", ",
                   box_text(slice.box), ": the bytes in the file ", what),
               std::move(why),
               "Restore an older checkpoint; cairn verify names everything that is damaged.")
      .at(data_path(contents, slice.file).string())
      .of_tensor(tensor.key);
}

}  // namespace

const Encoding* decoder_of(const CheckpointContents& contents, const StoredTensor& tensor,
                           const Piece& slice) {
  const auto* encoding = encoding_of(tensor.key, slice);
  if (encoding && slice.raw_bytes / encoding->most_of_a_byte > slice.stored_bytes) {
    throw slice_error(contents, tensor, slice, "cannot be decoded",
                      cat(slice.stored_bytes, " bytes never become ", slice.raw_bytes, " by ",
                          codec_text(slice.codec)));
  }
  return encoding;
}

std::string decode_slice(const CheckpointContents& contents, const StoredTensor& tensor,
                         const Piece& slice, std::string_view stored) {
  const auto* encoding = decoder_of(contents, tensor, slice);
  const auto item = dtype_size(tensor.dtype);
  std::string raw(static_cast<std::size_t>(slice.raw_bytes), '\0');
  try {
    encoding->decode(std::as_bytes(std::span(stored)), item,
                     std::as_writable_bytes(std::span(raw)));
  } catch (const Error& error) {
    throw slice_error(contents, tensor, slice, "cannot be decoded", error.what());
  }
  // What follows in the last chunks of a dataset is in no box.
  raw.resize(static_cast<std::size_t>(slice.box.count()) * item);
  if (const auto crc = crc32c(raw); crc != slice.raw_crc32c) {
    throw slice_error(contents, tensor, slice, "cannot be decoded",
                      cat("the checksum of the ", raw.size(), " decoded bytes is ", hex(crc),
                          ", stored is ", hex(slice.raw_crc32c)));
  }
  return raw;
}

Error checksum_error(const CheckpointContents& contents, const StoredTensor& tensor,
                     const Piece& slice, std::uint32_t found) {
  return slice_error(contents, tensor, slice, "are not those that were written",
                     cat("checksum of ", slice.stored_bytes, " bytes at ", slice.offset, " is ",
                         hex(found), ", stored is ", hex(slice.crc32c)));
}

}  // namespace cairn
