// The combination of ranks' values in the memory of one GPU, for every type that is exchanged.
#include <cstdint>

#include <parallel/comm/cuda/combine.cuh>

namespace parallel::cuda {

using outs = std::span<void* const>;
using sources = std::span<void const* const>;

template void combine_on<std::uint8_t>(stream&, reduction, outs, sources, std::size_t);
template void combine_on<std::int32_t>(stream&, reduction, outs, sources, std::size_t);
template void combine_on<std::int64_t>(stream&, reduction, outs, sources, std::size_t);
template void combine_on<std::uint64_t>(stream&, reduction, outs, sources, std::size_t);
template void combine_on<bf16>(stream&, reduction, outs, sources, std::size_t);
template void combine_on<float>(stream&, reduction, outs, sources, std::size_t);
template void combine_on<double>(stream&, reduction, outs, sources, std::size_t);

}  // namespace parallel::cuda
