// Instantiates the launchers of gelu, as a program that uses them from g++ would.
#include <parallel/ops/cuda/gelu.cuh>

namespace parallel::cuda {

template void gelu_impl<float>(stream&, std::span<float>, std::span<float const>);
template void gelu_impl<bf16>(stream&, std::span<bf16>, std::span<bf16 const>);
template void gelu_backward_impl<float>(stream&, std::span<float>, std::span<float const>,
                                        std::span<float const>);
template void gelu_backward_impl<bf16>(stream&, std::span<bf16>, std::span<bf16 const>,
                                       std::span<bf16 const>);

}  // namespace parallel::cuda
