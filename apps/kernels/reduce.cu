// Reductions for float, bf16 and double, and for the integers of the exact tests and of counts.
#include <parallel/ops/cuda/reduce.cuh>

namespace parallel::cuda {

template void squared_norm_impl<float>(stream&, double*, std::span<float const>);
template void squared_norm_impl<bf16>(stream&, double*, std::span<bf16 const>);
template void squared_norm_impl<double>(stream&, double*, std::span<double const>);
template void squared_norm_impl<std::uint64_t>(stream&, std::uint64_t*,
                                               std::span<std::uint64_t const>);

template void sum_impl<float>(stream&, double*, std::span<float const>);
template void sum_impl<bf16>(stream&, double*, std::span<bf16 const>);
template void sum_impl<double>(stream&, double*, std::span<double const>);
template void sum_impl<std::uint64_t>(stream&, std::uint64_t*, std::span<std::uint64_t const>);
template void sum_impl<std::uint8_t>(stream&, std::int64_t*, std::span<std::uint8_t const>);

template void all_finite_impl<float>(stream&, int*, std::span<float const>);
template void all_finite_impl<bf16>(stream&, int*, std::span<bf16 const>);
template void all_finite_impl<double>(stream&, int*, std::span<double const>);
template void all_finite_impl<std::uint64_t>(stream&, int*, std::span<std::uint64_t const>);

template void exact_squared_norm_impl<float>(stream&, exact_sum*, std::span<float const>);
template void exact_squared_norm_impl<bf16>(stream&, exact_sum*, std::span<bf16 const>);
template void exact_squared_norm_impl<double>(stream&, exact_sum*, std::span<double const>);

}  // namespace parallel::cuda
