// Activations and their gradients for float and bf16.
#include <parallel/ops/cuda/activation.cuh>

namespace parallel::cuda {

using ops::activation_kind;

template void activation_impl<float>(stream&, std::span<float>, std::span<float const>,
                                     activation_kind);
template void activation_impl<bf16>(stream&, std::span<bf16>, std::span<bf16 const>,
                                    activation_kind);
template void activation_backward_impl<float>(stream&, std::span<float>, std::span<float const>,
                                              std::span<float const>, activation_kind);
template void activation_backward_impl<bf16>(stream&, std::span<bf16>, std::span<bf16 const>,
                                             std::span<bf16 const>, activation_kind);

}  // namespace parallel::cuda
