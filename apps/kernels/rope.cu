// rope for float, bf16 and double.
#include <parallel/ops/cuda/rope.cuh>

namespace parallel::cuda {

template void rope_impl<float>(stream&, ops::heads_view<float>, ops::rope_options, double);
template void rope_impl<bf16>(stream&, ops::heads_view<bf16>, ops::rope_options, double);
template void rope_impl<double>(stream&, ops::heads_view<double>, ops::rope_options, double);

}  // namespace parallel::cuda
