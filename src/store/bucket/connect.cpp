// Connections to the buckets of the environment.
#include <map>

#include "base/text.hpp"
#include "bucket/bucket.hpp"
#include "cairn/error.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn {

std::shared_ptr<BucketFiles> BucketFiles::of(const io::Path& path) {
  std::string_view rest = path.native();
  rest.remove_prefix(std::min(rest.size(), rest.find("//") + 2));
  const std::string bucket(rest.substr(0, rest.find('/')));
  if (bucket.empty()) {
    throw Error(Code::invalid_argument, cat("'", path.string(), "' names no bucket"), "",
                "Write s3://BUCKET/DIRECTORY.");
  }
  static Mutex mutex;
  static std::map<std::string, std::shared_ptr<BucketFiles>> known;
  const MutexLock guard(mutex);
  auto& files = known[bucket];
  if (!files) {
    const auto surroundings = bucket::Surroundings::real();
    auto credentials = std::make_shared<bucket::CredentialSource>(surroundings);
    // The environment may differ from rank to rank. Its errors come with the first request, where
    // ranks agree on errors.
    files =
        std::make_shared<BucketFiles>([bucket, surroundings, credentials = std::move(credentials),
                                       complaints = std::make_shared<bucket::Complaints>()] {
          return std::make_unique<bucket::Bucket>(bucket::find_endpoint(surroundings, bucket),
                                                  credentials, bucket::HttpSettings{},
                                                  bucket::Patience{}, complaints);
        });
  }
  return files;
}

}  // namespace cairn
