#pragma once
/// Calls of a sharding policy: code of the application's.
#include <exception>
#include <string>

#include "base/text.hpp"
#include "base/unwinding.hpp"
#include "cairn/error.hpp"
#include "cairn/sharding.hpp"

namespace cairn {

/// What `call` returns. What the policy throws that is no Error becomes one that names it, and says
/// for what it was called.
template <class Call>
auto call_policy(const std::string& description, const std::string& for_what, Call&& call) {
  const auto failed = [&](const std::string& why) {
    return Error(Code::sharding, cat("the checkpoint sharding callback '", description, "' failed"),
                 cat("for ", for_what, " it threw: ", why));
  };
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const Unwinding&) {
    throw;
  } catch (const std::exception& exception) {
    throw failed(exception.what());
  } catch (...) {
    throw failed("an exception of unknown type");
  }
}

/// The job's, or the one that it has without.
inline const ShardingCallback& policy_of(const std::shared_ptr<const ShardingCallback>& policy) {
  static const ShardByTaskPolicy by_default;
  return policy ? *policy : by_default;
}

}  // namespace cairn
