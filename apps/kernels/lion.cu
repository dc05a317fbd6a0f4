// lion for float, bf16 (with float masters) and double.
#include <parallel/ops/cuda/lion.cuh>

namespace parallel::cuda {

using ops::lion_options;

template void lion_impl<float>(stream&, std::span<float>, std::span<float>, std::span<float>,
                               std::span<float const>, lion_options<float>);
template void lion_impl<bf16>(stream&, std::span<bf16>, std::span<float>, std::span<float>,
                              std::span<float const>, lion_options<float>);
template void lion_impl<double>(stream&, std::span<double>, std::span<double>, std::span<double>,
                                std::span<double const>, lion_options<double>);

}  // namespace parallel::cuda
