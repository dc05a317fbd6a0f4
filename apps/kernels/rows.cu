// Sums of squares by row, and scaling by row, for float, bf16 and double.
#include <parallel/ops/cuda/rows.cuh>

namespace parallel::cuda {

template void row_squared_norms_impl<float>(stream&, std::span<double>, std::span<float const>,
                                            ops::rows_place);
template void row_squared_norms_impl<bf16>(stream&, std::span<double>, std::span<bf16 const>,
                                           ops::rows_place);
template void row_squared_norms_impl<double>(stream&, std::span<double>, std::span<double const>,
                                             ops::rows_place);

template void scale_rows_impl<float>(stream&, std::span<float>, std::span<float const>,
                                     ops::rows_place);
template void scale_rows_impl<bf16>(stream&, std::span<bf16>, std::span<float const>,
                                    ops::rows_place);
template void scale_rows_impl<double>(stream&, std::span<double>, std::span<double const>,
                                      ops::rows_place);

}  // namespace parallel::cuda
