// Element-wise operations for float, bf16, double and std::uint64_t, and casts between the first
// three.
#include <cstdint>

#include <parallel/ops/cuda/elementwise.cuh>

namespace parallel::cuda {

using ops::rows_view;

template void fill_impl<float>(stream&, std::span<float>, float);
template void fill_impl<bf16>(stream&, std::span<bf16>, bf16);
template void fill_impl<double>(stream&, std::span<double>, double);
template void fill_impl<std::uint64_t>(stream&, std::span<std::uint64_t>, std::uint64_t);

template void copy_impl<float>(stream&, std::span<float>, std::span<float const>);
template void copy_impl<bf16>(stream&, std::span<bf16>, std::span<bf16 const>);
template void copy_impl<double>(stream&, std::span<double>, std::span<double const>);
template void copy_impl<std::uint64_t>(stream&, std::span<std::uint64_t>,
                                       std::span<std::uint64_t const>);
template void copy_impl<float>(stream&, rows_view<float>, rows_view<float const>);
template void copy_impl<bf16>(stream&, rows_view<bf16>, rows_view<bf16 const>);
template void copy_impl<double>(stream&, rows_view<double>, rows_view<double const>);
template void copy_impl<std::uint64_t>(stream&, rows_view<std::uint64_t>,
                                       rows_view<std::uint64_t const>);

template void add_impl<float>(stream&, std::span<float>, std::span<float const>);
template void add_impl<bf16>(stream&, std::span<bf16>, std::span<bf16 const>);
template void add_impl<double>(stream&, std::span<double>, std::span<double const>);
template void add_impl<std::uint64_t>(stream&, std::span<std::uint64_t>,
                                      std::span<std::uint64_t const>);

template void multiply_impl<float>(stream&, std::span<float>, std::span<float const>);
template void multiply_impl<bf16>(stream&, std::span<bf16>, std::span<bf16 const>);
template void multiply_impl<double>(stream&, std::span<double>, std::span<double const>);
template void multiply_impl<std::uint64_t>(stream&, std::span<std::uint64_t>,
                                           std::span<std::uint64_t const>);

template void scale_impl<float>(stream&, std::span<float>, accumulate_t<float>);
template void scale_impl<bf16>(stream&, std::span<bf16>, accumulate_t<bf16>);
template void scale_impl<double>(stream&, std::span<double>, accumulate_t<double>);
template void scale_impl<std::uint64_t>(stream&, std::span<std::uint64_t>,
                                        accumulate_t<std::uint64_t>);

template void cast_impl<float, float>(stream&, std::span<float>, std::span<float const>);
template void cast_impl<float, bf16>(stream&, std::span<float>, std::span<bf16 const>);
template void cast_impl<float, double>(stream&, std::span<float>, std::span<double const>);
template void cast_impl<bf16, float>(stream&, std::span<bf16>, std::span<float const>);
template void cast_impl<bf16, bf16>(stream&, std::span<bf16>, std::span<bf16 const>);
template void cast_impl<bf16, double>(stream&, std::span<bf16>, std::span<double const>);
template void cast_impl<double, float>(stream&, std::span<double>, std::span<float const>);
template void cast_impl<double, bf16>(stream&, std::span<double>, std::span<bf16 const>);
template void cast_impl<double, double>(stream&, std::span<double>, std::span<double const>);

}  // namespace parallel::cuda
