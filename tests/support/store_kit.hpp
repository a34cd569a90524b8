#pragma once
/// Tests that every store passes, without ranks and without a state: StoreKit in store_kit.cpp. A
/// new store is done when they pass on a double of its disk. The program that links them defines
/// store_disks().
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/store.hpp"

namespace cairn::test {

/// A double of the storage that a store uses.
class StoreDisk {
 public:
  virtual ~StoreDisk() = default;
  /// The file system, as options give it.
  virtual std::shared_ptr<io::FileSystem> files() = 0;
  /// `call` runs before each operation that changes something; if it throws, the operation is not
  /// carried out.
  virtual void observe(std::function<void()>) = 0;
  /// The disks that a power failure may leave at this moment, each as it is found afterwards.
  virtual std::vector<std::unique_ptr<StoreDisk>> after_crash() = 0;
};

struct StoreDiskKind {
  const char* name;
  std::function<std::unique_ptr<StoreDisk>()> make;
};
std::vector<StoreDiskKind> store_disks();

/// A process that owns the store, or reads it.
class StoreUser {
 public:
  static Policy reader();

  /// Throws as Store::take does.
  explicit StoreUser(StoreDisk&, Policy = {});

  Store& store() { return *store_; }
  std::vector<std::int64_t> steps() const;  ///< that can be restored, newest first
  /// The text of a step, every byte of it checked.
  std::string read(std::int64_t step) const;

  /// Makes a blocking save, stage by stage.
  void save(std::int64_t step, const std::string& text, bool may_overwrite = false);
  /// The same without a look at the directory, if the save may be made so.
  bool save_quick(std::int64_t step, const std::string& text);
  struct Begun {
    Prepared save;
    std::vector<StoredTensor> entries;
  };
  /// All stages but the commit.
  Begun begin(std::int64_t step, const std::string& text, bool may_overwrite = false,
              bool records = true);
  void commit(Begun&);

 private:
  Begun write(Draft, const std::string& text) const;

  std::shared_ptr<io::FileSystem> files_;
  Location place_;
  std::shared_ptr<Group> group_ = serial_group();
  std::unique_ptr<Store> store_;
};

}  // namespace cairn::test
