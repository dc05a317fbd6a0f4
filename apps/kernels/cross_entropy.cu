// cross_entropy for float, bf16 and double; with a gradient of bf16 logits are bf16 or float.
#include <parallel/ops/cuda/cross_entropy.cuh>

namespace parallel::cuda {

using ops::cross_entropy_options;

template void cross_entropy_impl(stream&, matrix_view<float>, vector_view<float>,
                                 vector_view<std::uint8_t>, matrix_view<float const>,
                                 vector_view<std::int32_t const>, cross_entropy_options);
template void cross_entropy_impl(stream&, matrix_view<bf16>, vector_view<float>,
                                 vector_view<std::uint8_t>, matrix_view<bf16 const>,
                                 vector_view<std::int32_t const>, cross_entropy_options);
template void cross_entropy_impl(stream&, matrix_view<bf16>, vector_view<float>,
                                 vector_view<std::uint8_t>, matrix_view<float const>,
                                 vector_view<std::int32_t const>, cross_entropy_options);
template void cross_entropy_impl(stream&, matrix_view<double>, vector_view<double>,
                                 vector_view<std::uint8_t>, matrix_view<double const>,
                                 vector_view<std::int32_t const>, cross_entropy_options);

}  // namespace parallel::cuda
