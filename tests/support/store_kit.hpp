#pragma once
/// Stories that every store passes, without ranks and without a state: StoreKit in store_kit.cpp. A
/// new store is done when they pass on a double of its disk. Who links it defines store_disks().
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/store.hpp"

namespace cairn::test {

/// The double of what a store is on.
class StoreDisk {
 public:
  virtual ~StoreDisk() = default;
  /// What options give.
  virtual std::shared_ptr<io::FileSystem> files() = 0;
  /// Called before each operation that changes something; it may throw in its place.
  virtual void observe(std::function<void()>) = 0;
  /// What a power failure may leave at this moment, each as it is found afterwards.
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

  /// The stages of a blocking save.
  void save(std::int64_t step, const std::string& text, bool may_overwrite = false);
  /// Those of a save that begins without a look, if it may be one.
  bool save_quick(std::int64_t step, const std::string& text);
  struct Begun {
    Prepared save;
    std::vector<StoredTensor> entries;
  };
  /// All but the commit.
  Begun begin(std::int64_t step, const std::string& text, bool may_overwrite = false);
  void commit(Begun&);

 private:
  Begun write(Draft, const std::string& text) const;

  std::shared_ptr<io::FileSystem> files_;
  Location place_;
  std::shared_ptr<Group> group_ = serial_group();
  std::unique_ptr<Store> store_;
};

}  // namespace cairn::test
