#include <doctest/doctest.h>

#include <string>

#include <parallel/comm/signature.hpp>
#include <parallel/core/error.hpp>

#include "support/call_signature.hpp"

namespace signature_test {

using namespace parallel;

constexpr auto sample = test::call_signature;

}  // namespace signature_test

TEST_CASE("signature: the description reads as a call with its call site") {
  using namespace signature_test;
  auto const line = std::to_string(parallel::call_site::current().line());
  CHECK(describe(sample(operation_kind::all_gather, 3)).starts_with("all_gather of 3 bf16 at "));
  CHECK(describe(sample(operation_kind::broadcast, 3)).find("from root 1") != std::string::npos);
  operation op{};
  op.caller = parallel::call_site::current();
  CHECK(describe(op).starts_with("barrier at signature_test.cpp:"));
  CHECK(describe(op).size() == std::string("barrier at signature_test.cpp:").size() + line.size());
}
