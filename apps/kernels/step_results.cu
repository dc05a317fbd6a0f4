// step_totals for double and std::uint64_t, gradient_scale for float and double.
#include <cstdint>

#include <parallel/ops/cuda/step_results.cuh>

namespace parallel::cuda {

template void step_totals_impl<double>(stream&, ops::step_sums<double>*,
                                       std::span<statistics<double> const>, double const*);
template void step_totals_impl<std::uint64_t>(stream&, ops::step_sums<std::uint64_t>*,
                                              std::span<statistics<std::uint64_t> const>,
                                              std::uint64_t const*);

template void gradient_scale_impl<float>(stream&, float*, ops::step_sums<double> const*, double);
template void gradient_scale_impl<double>(stream&, double*, ops::step_sums<double> const*, double);

}  // namespace parallel::cuda
