// The body of the temperature kernel on the host, against the reference loop, bit for bit.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/ops/cuda/kernels/attention/temperature.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_temperature_test {

using namespace parallel;
using parallel::index;

struct shape {
  index rows, columns, stride;
};

TEST_CASE_TEMPLATE(
    "temperature kernel: factors grow with the position in the sequence, or in the document", T,
    float, bf16, double) {
  for (auto const [rows, columns, stride] : {shape{0, 8, 8}, shape{10, 1, 1}, shape{10, 16, 48},
                                             shape{10, 16, 19}, shape{10, 1040, 1040}})
    for (bool const documents : {false, true}) {
      std::vector<std::int32_t> begins;
      for (index r = 0; documents && r < rows; ++r)
        begins.push_back(static_cast<std::int32_t>(r % 5 < 3 ? 0 : 7));
      ops::temperature_options const options{
          .scale = 0.3, .floor_scale = 2.0, .sequence = 5, .first = 4, .document_begins = begins};
      auto const initial = ops_support::random<T>(rows * stride, 1);
      auto expected = initial;
      reference::stream ref_stream;
      ops::temperature(ref_stream, ops::rows_view<T>(expected.data(), rows, columns, stride),
                       options);
      testing::run_on_copies(
          initial, 2, 64, 0,
          [&, rows = rows, columns = columns, stride = stride](T* y) {
            return cuda::kernels::temperature<T>{
                {y, rows, columns, stride}, options, begins.empty() ? nullptr : begins.data()};
          },
          [&](auto const& y) { CHECK(ops_support::same_bits(y, expected)); });
    }
}

}  // namespace cuda_temperature_test
