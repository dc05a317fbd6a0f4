// Cross entropy over a divided vocabulary for float, bf16 and double; with a gradient of bf16
// logits are bf16 or float.
#include <parallel/ops/cuda/sliced_cross_entropy.cuh>

namespace parallel::cuda {

using options = ops::sliced_cross_entropy_options;

template void vocabulary_statistics_impl(stream&, matrix_view<float>, matrix_view<float const>,
                                         vector_view<std::int32_t const>, options);
template void vocabulary_statistics_impl(stream&, matrix_view<float>, matrix_view<bf16 const>,
                                         vector_view<std::int32_t const>, options);
template void vocabulary_statistics_impl(stream&, matrix_view<double>, matrix_view<double const>,
                                         vector_view<std::int32_t const>, options);

template void sliced_cross_entropy_impl(stream&, matrix_view<float>, vector_view<float>,
                                        vector_view<std::uint8_t>, matrix_view<float const>,
                                        vector_view<std::int32_t const>,
                                        tensor_view<float const, 3>, options);
template void sliced_cross_entropy_impl(stream&, matrix_view<bf16>, vector_view<float>,
                                        vector_view<std::uint8_t>, matrix_view<bf16 const>,
                                        vector_view<std::int32_t const>,
                                        tensor_view<float const, 3>, options);
template void sliced_cross_entropy_impl(stream&, matrix_view<bf16>, vector_view<float>,
                                        vector_view<std::uint8_t>, matrix_view<float const>,
                                        vector_view<std::int32_t const>,
                                        tensor_view<float const, 3>, options);
template void sliced_cross_entropy_impl(stream&, matrix_view<double>, vector_view<double>,
                                        vector_view<std::uint8_t>, matrix_view<double const>,
                                        vector_view<std::int32_t const>,
                                        tensor_view<double const, 3>, options);

}  // namespace parallel::cuda
