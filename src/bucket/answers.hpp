#pragma once
/// What the XML and the headers of S3's answers say.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bucket/bucket.hpp"
#include "cairn/error.hpp"

namespace cairn::bucket {

/// The error that an answer tells, also with a good status; empty: none.
struct ToldError {
  std::string code, message, region;
};
ToldError told_error(const Answer&);
/// Whether the server, or the way to it, may have been at fault: the request is tried again.
bool may_help_to_repeat(const Answer&);
/// Whether the bucket is there, but not the key.
bool is_no_key(const Answer&);
/// Whether something else than an object store has answered, and says that all is well.
bool is_of_another(const Answer&);
/// The error of an answer that is not good, or of another, for the words of a user.
Error error_of(const Answer&, const Endpoint&, const Request&);

/// The tag of a put or of a completed upload.
std::string tag_of(const Answer&);
/// Seconds since 1970 of a date in a header.
std::optional<double> date_of(const std::string& text);

// They throw io if the text is not what S3 answers.
struct ListPage {
  Requests::Listing listing;
  std::string next;  ///< the token of the next page; empty: this is the last
};
ListPage parse_list(std::string_view xml);
std::string parse_upload_id(std::string_view xml);
struct UploadsPage {
  std::vector<Upload> uploads;
  bool more = false;
  std::string next_key, next_id;
};
UploadsPage parse_uploads(std::string_view xml);

}  // namespace cairn::bucket
