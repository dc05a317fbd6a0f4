// Models of other families than MPT against transformers (see support/golden/golden_model.hpp).
#include <doctest/doctest.h>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

#include "support/laws/golden_laws.hpp"

namespace model_families_test {

parallel::host::device make_host() { return {}; }

TEST_CASE("families, fp64: logits, loss and gradients are transformers' to 1e-12 of the largest") {
  test::check_against_truth<double>(1e-12, make_host, test::golden_families);
}

TEST_CASE("families, fp32: logits, loss and gradients are transformers' to 4e-6 of the largest") {
  test::check_against_truth<float>(4e-6, make_host, test::golden_families);
}

TEST_CASE("families: tokens read in pieces give the logits of tokens read at once") {
  test::check_cached_logits<float>(1e-5, make_host, test::golden_families);
}

}  // namespace model_families_test
