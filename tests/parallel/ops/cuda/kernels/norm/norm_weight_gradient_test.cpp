// The two kernels of a norm's weight and bias gradients on the host, against the reference loops.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/norm/norm_weight_gradient.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/host_block.hpp"
#include "support/row_data.hpp"

namespace cuda_norm_weight_gradient_test {

using namespace parallel;
using parallel::index;

/// Runs both kernels as the launcher does, with blocks of `threads` threads.
template <class T, class A>
void run_kernels(unsigned threads, testing::thread_order order, A* dweight, A* dbias,
                 ops::rows_view<T const> dy, ops::rows_view<T const> x, A const* mean,
                 A const* rstd) {
  auto const parts = cuda::kernels::weight_gradient_division::for_rows(x);
  auto const chunks = static_cast<unsigned>(parts.chunks);
  auto const tiles = static_cast<unsigned>(parts.tiles);
  std::vector<A> sums(parts.sums(x.columns), std::numeric_limits<A>::quiet_NaN());
  auto const add_chunks = [&]<bool with_weight>(std::bool_constant<with_weight>) {
    testing::host_block::run_grid(
        tiles * chunks, threads, threads * cuda::pack_size<T> * sizeof(A), order,
        cuda::kernels::weight_gradient_of_chunks<T, with_weight>{sums.data(), dy, x, mean, rstd,
                                                                 dbias != nullptr, tiles, chunks});
  };
  if (dweight != nullptr)
    add_chunks(std::true_type{});
  else
    add_chunks(std::false_type{});
  auto const columns = static_cast<unsigned>(x.columns);
  testing::host_block::run_grid(
      (2 * columns + 31) / 32, threads, threads * sizeof(double), order,
      cuda::kernels::weight_gradient_of_all<A>{dweight, dbias, sums.data(), columns, chunks});
}

TEST_CASE_TEMPLATE(
    "norm weight gradient kernels: gradients of weight and bias are added and equal the reference",
    T, float, bf16, double) {
  using A = accumulate_t<T>;
  struct shape {
    index rows, columns, gap;
  };
  for (auto const [rows, columns, gap] :
       {shape{1, 1, 0}, {5, 37, 0}, {100, 24, 8}, {131, 300, 1}, {70, 1030, 0}}) {
    auto const count = static_cast<std::size_t>(rows * (columns + gap));
    auto const x = testing::normal_numbers<T>(count, 1, 2.0F, 1.0F);
    auto const dy = testing::normal_numbers<T>(count, 2);
    auto mean = testing::normal_numbers<A>(static_cast<std::size_t>(rows), 3);
    auto rstd = testing::normal_numbers<A>(static_cast<std::size_t>(rows), 4);
    auto const initial = testing::normal_numbers<A>(static_cast<std::size_t>(columns), 5);
    ops::rows_view<T const> const gradients(dy.data(), rows, columns, columns + gap);
    ops::rows_view<T const> const values(x.data(), rows, columns, columns + gap);
    double const close = std::is_same_v<T, double> ? 1e-12 : 1e-5;

    reference::stream ref_stream;
    auto expected = initial, expected_bias = initial, without_center = initial;
    ops::layer_norm_backward_weight(ref_stream, testing::view_of(expected),
                                    testing::view_of(expected_bias), gradients, values,
                                    testing::view_of(mean), testing::view_of(rstd));
    ops::rms_norm_backward_weight(ref_stream, testing::view_of(without_center), gradients, values,
                                  testing::view_of(rstd));

    using enum testing::thread_order;
    std::vector<A> first;
    for (auto const order : {ascending, descending, shuffled}) {
      auto weight = initial, bias = initial, only_bias = initial, rms = initial;
      run_kernels<T, A>(64, order, weight.data(), bias.data(), gradients, values, mean.data(),
                        rstd.data());
      testing::check_close(weight, expected, close);
      testing::check_close(bias, expected_bias, close);
      if (first.empty()) first = weight;
      CHECK(weight == first);
      run_kernels<T, A>(64, order, nullptr, only_bias.data(), gradients, values, mean.data(),
                        rstd.data());
      CHECK(only_bias == bias);
      run_kernels<T, A>(64, order, rms.data(), nullptr, gradients, values, nullptr, rstd.data());
      testing::check_close(rms, without_center, close);
    }
  }
}

TEST_CASE(
    "norm weight gradient kernels: the division covers rows and columns and keeps blocks busy") {
  using cuda::kernels::weight_gradient_division;
  auto const division = [](index rows, index columns) {
    return weight_gradient_division::for_rows(
        ops::rows_view<bf16 const>(nullptr, rows, columns, columns));
  };
  CHECK(division(0, 768).chunks == 0);
  CHECK(division(32768, 0).tiles == 0);
  CHECK(division(32768, 768).tiles == 3);
  CHECK(division(32768, 768).chunks == 170);
  CHECK(division(33, 768).chunks == 2);
  CHECK(division(32768, 16384).chunks == 8);
  CHECK(division(32768, 1 << 20).chunks == 1);
}

}  // namespace cuda_norm_weight_gradient_test
