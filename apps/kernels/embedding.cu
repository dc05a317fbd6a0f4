// Embeddings and their gradients for float, bf16, double and std::uint64_t.
#include <cstdint>

#include <parallel/ops/cuda/embedding.cuh>

namespace parallel::cuda {

using ops::position_options;
using ops::table_slice;
using token_ids = vector_view<std::int32_t const>;

template void embedding_impl<float>(stream&, matrix_view<float>, token_ids,
                                    matrix_view<float const>, table_slice);
template void embedding_impl<bf16>(stream&, matrix_view<bf16>, token_ids, matrix_view<bf16 const>,
                                   table_slice);
template void embedding_impl<double>(stream&, matrix_view<double>, token_ids,
                                     matrix_view<double const>, table_slice);
template void embedding_impl<std::uint64_t>(stream&, matrix_view<std::uint64_t>, token_ids,
                                            matrix_view<std::uint64_t const>, table_slice);

template void embedding_backward_impl<float>(stream&, matrix_view<float>, matrix_view<float const>,
                                             token_ids, table_slice);
template void embedding_backward_impl<bf16>(stream&, matrix_view<float>, matrix_view<bf16 const>,
                                            token_ids, table_slice);
template void embedding_backward_impl<double>(stream&, matrix_view<double>,
                                              matrix_view<double const>, token_ids, table_slice);
template void embedding_backward_impl<std::uint64_t>(stream&, matrix_view<std::uint64_t>,
                                                     matrix_view<std::uint64_t const>, token_ids,
                                                     table_slice);

template void add_positions_impl<float>(stream&, matrix_view<float>, matrix_view<float const>,
                                        index, position_options);
template void add_positions_impl<bf16>(stream&, matrix_view<bf16>, matrix_view<bf16 const>, index,
                                       position_options);
template void add_positions_impl<double>(stream&, matrix_view<double>, matrix_view<double const>,
                                         index, position_options);
template void add_positions_impl<std::uint64_t>(stream&, matrix_view<std::uint64_t>,
                                                matrix_view<std::uint64_t const>, index,
                                                position_options);

template void add_positions_backward_impl<float>(stream&, matrix_view<float>,
                                                 matrix_view<float const>, index, position_options);
template void add_positions_backward_impl<bf16>(stream&, matrix_view<float>,
                                                matrix_view<bf16 const>, index, position_options);
template void add_positions_backward_impl<double>(stream&, matrix_view<double>,
                                                  matrix_view<double const>, index,
                                                  position_options);
template void add_positions_backward_impl<std::uint64_t>(stream&, matrix_view<std::uint64_t>,
                                                         matrix_view<std::uint64_t const>, index,
                                                         position_options);

}  // namespace parallel::cuda
