// A program of one's own that computes by Kokkos: a product and an activation.
#include <cstdio>
#include <vector>

#include <parallel/ops/kokkos.hpp>
#include <parallel/ops/pointwise/activation.hpp>

int main(int argc, char** argv) {
  parallel::kokkos::scope const initialised(argc, argv);
  parallel::kokkos::device const device;
  auto const memory = device.allocate<float>(12);
  auto const [a, b, c] = [&] {
    auto const elements = memory.span();
    return std::tuple(elements.first(4), elements.subspan(4, 4), elements.last(4));
  }();
  device.upload(a, std::vector<float>{1, 2, 3, 4});
  device.upload(b, std::vector<float>{-1, 0, 0, 1});

  parallel::kokkos::stream s(device.compute_options());
  parallel::shape<2> const square{2, 2};
  parallel::ops::matmul(s, parallel::matrix_view<float>(c.data(), square),
                        parallel::matrix_view<float>(a.data(), square),
                        parallel::matrix_view<float>(b.data(), square));
  parallel::ops::activation(s, c, std::span<float const>(c), parallel::ops::activation_kind::relu);
  s.synchronize();

  std::vector<float> result(4);
  device.download(std::span(result), c);
  std::printf("%s: %g %g %g %g\n", parallel::kokkos::execution_space::name(), double(result[0]),
              double(result[1]), double(result[2]), double(result[3]));
  return result == std::vector<float>{0, 2, 0, 4} ? 0 : 1;
}
