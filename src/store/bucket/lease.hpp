#pragma once
/// Who may commit in a bucket's directory: the owner's record is an object that its owner puts anew
/// every few seconds, on the condition that it is still the one that the owner put last.
///
/// A lease alone does not keep out an owner that was stopped and goes on: each commit is a
/// conditional put as well (bucket_store.cpp).
#include <memory>
#include <string>

#include "store/bucket/bucket_files.hpp"

namespace cairn {

class Lease {
 public:
  static io::Path path_of(const Location&);
  /// Who owns the place, or owned it when it died; empty: nobody.
  static std::string owner_of(BucketFiles&, const Location&);
  /// Takes the record at this key. If another owner's is there, waits until it has not changed for
  /// `wait_seconds`, by this machine's clock, and takes it over; throws busy if it is renewed
  /// meanwhile, or taken by somebody else.
  static std::unique_ptr<Lease> take(BucketFiles&, const io::Path& record, double wait_seconds);
  /// Ends the renewals. The record says that the owner has left, unless it is another's by now.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// Throws busy if another owner is known to have taken over. Any thread.
  void check() const;

 private:
  struct Impl;
  explicit Lease(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
