// clip and its gradient for float, bf16 and double.
#include <cstdint>

#include <parallel/ops/cuda/clip.cuh>

namespace parallel::cuda {

template void clip_impl<float>(stream&, std::span<float>, std::span<std::uint8_t>, float);
template void clip_impl<bf16>(stream&, std::span<bf16>, std::span<std::uint8_t>, float);
template void clip_impl<double>(stream&, std::span<double>, std::span<std::uint8_t>, float);

template void clip_backward_impl<float>(stream&, std::span<float>, std::span<std::uint8_t const>);
template void clip_backward_impl<bf16>(stream&, std::span<bf16>, std::span<std::uint8_t const>);
template void clip_backward_impl<double>(stream&, std::span<double>, std::span<std::uint8_t const>);

}  // namespace parallel::cuda
