// adamw for float, bf16 (with float masters) and double.
#include <parallel/ops/cuda/adamw.cuh>

namespace parallel::cuda {

using ops::adamw_options;

template void adamw_impl<float>(stream&, std::span<float>, std::span<float>, std::span<float>,
                                std::span<float>, std::span<float const>, adamw_options<float>);
template void adamw_impl<bf16>(stream&, std::span<bf16>, std::span<float>, std::span<float>,
                               std::span<float>, std::span<float const>, adamw_options<float>);
template void adamw_impl<double>(stream&, std::span<double>, std::span<double>, std::span<double>,
                                 std::span<double>, std::span<double const>, adamw_options<double>);

}  // namespace parallel::cuda
