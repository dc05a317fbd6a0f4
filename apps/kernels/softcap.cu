// softcap and its gradient for float, bf16 (the gradient alone) and double.
#include <parallel/ops/cuda/softcap.cuh>

namespace parallel::cuda {

template void softcap_impl<float>(stream&, std::span<float>, std::span<float const>,
                                  ops::softcap_options);
template void softcap_impl<double>(stream&, std::span<double>, std::span<double const>,
                                   ops::softcap_options);

template void softcap_backward_impl<float>(stream&, std::span<float>, std::span<float const>,
                                           std::span<float const>, ops::softcap_options);
template void softcap_backward_impl<bf16>(stream&, std::span<bf16>, std::span<float const>,
                                          std::span<bf16 const>, ops::softcap_options);
template void softcap_backward_impl<double>(stream&, std::span<double>, std::span<double const>,
                                            std::span<double const>, ops::softcap_options);

}  // namespace parallel::cuda
