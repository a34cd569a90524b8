#pragma once
/// Calls a sharding policy, which is the application's code.
#include <exception>
#include <string>

#include "base/text.hpp"
#include "base/unwinding.hpp"
#include "cairn/error.hpp"
#include "cairn/sharding.hpp"

namespace cairn {

/// Returns what `call` returns. If the policy throws something other than an Error, throws an Error
/// that names the policy and says for what it was called.
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

/// The given policy; if it is null, ShardByTaskPolicy.
inline const ShardingCallback& policy_of(const std::shared_ptr<const ShardingCallback>& policy) {
  static const ShardByTaskPolicy by_default;
  return policy ? *policy : by_default;
}

}  // namespace cairn
