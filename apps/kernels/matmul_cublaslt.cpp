// matmul for float, bf16 and bf16 into float by cuBLASLt, for double and std::uint64_t by the plain
// kernel.
#include <cstdint>

#include <parallel/ops/cuda/cublaslt.hpp>

namespace parallel::cuda {

template void matmul_impl<float, float>(stream&, matrix_view<float>, matrix_view<float const>,
                                        matrix_view<float const>, ops::matmul_options,
                                        matrix_view<float const>);
template void matmul_impl<bf16, bf16>(stream&, matrix_view<bf16>, matrix_view<bf16 const>,
                                      matrix_view<bf16 const>, ops::matmul_options,
                                      matrix_view<bf16 const>);
template void matmul_impl<float, bf16>(stream&, matrix_view<float>, matrix_view<bf16 const>,
                                       matrix_view<bf16 const>, ops::matmul_options,
                                       matrix_view<float const>);
template void matmul_impl<double, double>(stream&, matrix_view<double>, matrix_view<double const>,
                                          matrix_view<double const>, ops::matmul_options,
                                          matrix_view<double const>);
template void matmul_impl<std::uint64_t, std::uint64_t>(stream&, matrix_view<std::uint64_t>,
                                                        matrix_view<std::uint64_t const>,
                                                        matrix_view<std::uint64_t const>,
                                                        ops::matmul_options,
                                                        matrix_view<std::uint64_t const>);

template void tune_products<stream>(stream&, bool);
template matmul_tuning const& tuned_products<stream>(stream&);
template void use_products<stream>(stream&, matmul_tuning);

}  // namespace parallel::cuda
