// add_bias and its gradient for float, bf16, double and
// std::uint64_t.
#include <cstdint>

#include <parallel/ops/cuda/bias.cuh>

namespace parallel::cuda {

template void add_bias_impl<float>(stream&, matrix_view<float>, vector_view<float const>,
                                   matrix_view<float const>);
template void add_bias_impl<bf16>(stream&, matrix_view<bf16>, vector_view<bf16 const>,
                                  matrix_view<bf16 const>);
template void add_bias_impl<double>(stream&, matrix_view<double>, vector_view<double const>,
                                    matrix_view<double const>);
template void add_bias_impl<std::uint64_t>(stream&, matrix_view<std::uint64_t>,
                                           vector_view<std::uint64_t const>,
                                           matrix_view<std::uint64_t const>);

template void add_bias_backward_impl<float>(stream&, vector_view<float>, matrix_view<float const>);
template void add_bias_backward_impl<bf16>(stream&, vector_view<float>, matrix_view<bf16 const>);
template void add_bias_backward_impl<double>(stream&, vector_view<double>,
                                             matrix_view<double const>);
template void add_bias_backward_impl<std::uint64_t>(stream&, vector_view<std::uint64_t>,
                                                    matrix_view<std::uint64_t const>);

}  // namespace parallel::cuda
