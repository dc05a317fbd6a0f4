// The closed forms that check large shapes on a GPU, at small shapes on the host.
#include <doctest/doctest.h>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

#include "support/laws/closed_forms.hpp"

namespace host_closed_forms_test {

TEST_CASE("closed forms: the host's products, losses and attention equal them") {
  parallel::host::device const device;
  parallel::host::stream s(device.compute_options());
  test::check_large_product(s, device, 37, 50, 256);
  test::check_large_cross_entropy(s, device, 9, 500);
  test::check_long_attention(s, device, 70, 3, 8);
}

}  // namespace host_closed_forms_test
