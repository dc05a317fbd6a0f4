// The laws that operations of every device obey, on a device whose memory the host cannot access
// but whose operations are the host's. So the laws themselves are tested without a GPU.
#include <cstdint>

#include <doctest/doctest.h>

#include <parallel/ops/host.hpp>

#include "support/devices/guarded_device.hpp"
#include "support/laws/device_laws.hpp"
#include "support/laws/exact_products.hpp"

namespace host_laws_test {

using parallel::bf16;

TEST_CASE_TEMPLATE("laws on the guarded host: operations on elements", T, float, bf16,
                   std::uint64_t) {
  guarded::device device(std::size_t{1} << 30);
  test::check_element_operations<T>(device, 1);
}

TEST_CASE_TEMPLATE("laws on the guarded host: operations on rows, matrices and tables", T, float,
                   bf16, std::uint64_t) {
  guarded::device device(std::size_t{1} << 30);
  test::check_row_operations<T>(device, 2);
}

TEST_CASE_TEMPLATE("laws on the guarded host: attention", T, float, bf16) {
  guarded::device device(std::size_t{1} << 30);
  test::check_attention_operations<T>(device, 3);
}

TEST_CASE_TEMPLATE("laws on the guarded host: products of integers are exact", T, float, bf16) {
  guarded::device device(std::size_t{1} << 30);
  test::both_sides<guarded::device> sides(device, 4, 1);
  test::check_exact_products<T>(sides, 1100);
}

TEST_CASE("laws on the guarded host: attention over a long sequence") {
  guarded::device device(std::size_t{1} << 30);
  test::both_sides<guarded::device> sides(device, 5, 0);
  test::check_attention<bf16>(sides, {test::fused_attention_forms().back()});
}

}  // namespace host_laws_test
