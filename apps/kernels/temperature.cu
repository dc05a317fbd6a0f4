// temperature for float, bf16 and double.
#include <parallel/ops/cuda/temperature.cuh>

namespace parallel::cuda {

template void temperature_impl<float>(stream&, ops::rows_view<float>, ops::temperature_options);
template void temperature_impl<bf16>(stream&, ops::rows_view<bf16>, ops::temperature_options);
template void temperature_impl<double>(stream&, ops::rows_view<double>, ops::temperature_options);

}  // namespace parallel::cuda
