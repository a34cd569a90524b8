#pragma once
/// The bytes of a checkpoint of torch.distributed.checkpoint, made by hand: what torch writes, and
/// what it would never write.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::test {

/// Opcodes of a pickle, one after the other. Each function adds its own and returns this.
class PickleWriter {
 public:
  explicit PickleWriter(int protocol = 4) : bytes_{'\x80', static_cast<char>(protocol)} {}
  PickleWriter& raw(std::string_view opcodes) { return bytes_ += opcodes, *this; }
  PickleWriter& text(std::string_view);
  PickleWriter& number(std::int64_t);  ///< non-negative, less than 32 bits
  PickleWriter& global(std::string_view module, std::string_view name);
  /// An object of a class of DCP's metadata, without a state; build() sets that.
  PickleWriter& object(std::string_view name) { return dcp(name).raw(")\x81"); }
  PickleWriter& dcp(std::string_view name);
  PickleWriter& size(const std::vector<std::int64_t>&);  ///< torch.Size
  std::string end() const { return bytes_ + '.'; }

 private:
  std::string bytes_;
};

/// An archive in the form of torch.save; `wide`: with 64-bit sizes and end record.
std::string torch_archive(const std::vector<std::pair<std::string, std::string>>& members,
                          bool wide = false);
/// An archive with a tensor of float32 in this storage.
std::string saved_floats(const std::vector<float>& storage, const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& strides, std::int64_t first = 0,
                         bool wide = false);

/// A checkpoint of the tensor "w" of float32 [4 3] in two pieces of two rows, the second one
/// transposed in memory and in a wide archive; and of the number "step", 7.
struct DcpFiles {
  std::string metadata, first, second;  ///< .metadata, __0_0.distcp, __1_0.distcp
  std::vector<float> elements;          ///< of w
};
DcpFiles dcp_files();

}  // namespace cairn::test
