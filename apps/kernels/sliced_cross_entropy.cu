// Cross entropy over a divided vocabulary for float, bf16 and double.
#include <parallel/ops/cuda/sliced_cross_entropy.cuh>

namespace parallel::cuda {

using options = ops::sliced_cross_entropy_options;

template void vocabulary_statistics_impl<float>(stream&, matrix_view<float>,
                                                matrix_view<float const>,
                                                vector_view<std::int32_t const>, options);
template void vocabulary_statistics_impl<double>(stream&, matrix_view<double>,
                                                 matrix_view<double const>,
                                                 vector_view<std::int32_t const>, options);

template void sliced_cross_entropy_impl<float, float>(stream&, matrix_view<float>,
                                                      vector_view<float>, vector_view<std::uint8_t>,
                                                      matrix_view<float const>,
                                                      vector_view<std::int32_t const>,
                                                      tensor_view<float const, 3>, options);
template void sliced_cross_entropy_impl<bf16, float>(stream&, matrix_view<bf16>, vector_view<float>,
                                                     vector_view<std::uint8_t>,
                                                     matrix_view<float const>,
                                                     vector_view<std::int32_t const>,
                                                     tensor_view<float const, 3>, options);
template void sliced_cross_entropy_impl<double, double>(stream&, matrix_view<double>,
                                                        vector_view<double>,
                                                        vector_view<std::uint8_t>,
                                                        matrix_view<double const>,
                                                        vector_view<std::int32_t const>,
                                                        tensor_view<double const, 3>, options);

}  // namespace parallel::cuda
