#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <parallel/comm/agreement.hpp>
#include <parallel/core/error.hpp>

#include "support/call_signature.hpp"

namespace agreement_test {

using namespace parallel;

constexpr auto sample = test::call_signature;

}  // namespace agreement_test

TEST_CASE("agreement: equal signatures agree, and differing ones are grouped by rank") {
  using namespace agreement_test;
  auto const a = sample(operation_kind::all_reduce, 8);
  auto const b = sample(operation_kind::all_reduce, 9);
  CHECK(disagreement(std::vector<signature>{}).empty());
  CHECK(disagreement(std::vector<signature>{a, a, a}).empty());
  auto const text = disagreement(std::vector<signature>{b, a, b, a, a});
  CHECK(text.find("disagree in count (call 4") != std::string::npos);
  CHECK(text.find("ranks 0, 2: all_reduce(sum) of 9") != std::string::npos);
  CHECK(text.find("ranks 1, 3, 4: all_reduce(sum) of 8") != std::string::npos);
}

TEST_CASE("agreement: call sites are compared on request only") {
  using namespace agreement_test;
  auto const a = sample(operation_kind::barrier, 0);
  auto b = a;
  b.line += 1;
  CHECK(disagreement(std::vector<signature>{a, b}).empty());
  CHECK(disagreement(std::vector<signature>{a, b}, call_sites::must_agree)
            .find("disagree in call site") != std::string::npos);
}
