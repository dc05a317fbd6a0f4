// dropout for float, bf16 and double.
#include <parallel/ops/cuda/dropout.cuh>

namespace parallel::cuda {

template void dropout_impl<float>(stream&, std::span<float>, std::span<float const>,
                                  ops::dropout_options);
template void dropout_impl<bf16>(stream&, std::span<bf16>, std::span<bf16 const>,
                                 ops::dropout_options);
template void dropout_impl<double>(stream&, std::span<double>, std::span<double const>,
                                   ops::dropout_options);

}  // namespace parallel::cuda
