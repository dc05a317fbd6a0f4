// The plain product for float, bf16, bf16 into float, double and std::uint64_t.
#include <cstdint>

#include <parallel/ops/cuda/matmul.cuh>

namespace parallel::cuda {

template void plain_matmul<float, float>(stream&, matrix_view<float>, matrix_view<float const>,
                                         matrix_view<float const>, ops::matmul_options,
                                         matrix_view<float const>);
template void plain_matmul<bf16, bf16>(stream&, matrix_view<bf16>, matrix_view<bf16 const>,
                                       matrix_view<bf16 const>, ops::matmul_options,
                                       matrix_view<bf16 const>);
template void plain_matmul<float, bf16>(stream&, matrix_view<float>, matrix_view<bf16 const>,
                                        matrix_view<bf16 const>, ops::matmul_options,
                                        matrix_view<float const>);
template void plain_matmul<double, double>(stream&, matrix_view<double>, matrix_view<double const>,
                                           matrix_view<double const>, ops::matmul_options,
                                           matrix_view<double const>);
template void plain_matmul<std::uint64_t, std::uint64_t>(stream&, matrix_view<std::uint64_t>,
                                                         matrix_view<std::uint64_t const>,
                                                         matrix_view<std::uint64_t const>,
                                                         ops::matmul_options,
                                                         matrix_view<std::uint64_t const>);

}  // namespace parallel::cuda
