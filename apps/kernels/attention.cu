// Attention for float, bf16 and double.
#include <parallel/ops/cuda/attention.cuh>

namespace parallel::cuda {

using ops::attention_options;
using ops::heads_view;
template <class T>
using sums = tensor_view<T, 3>;

template void attention_impl<float>(stream&, heads_view<float>, sums<float>,
                                    heads_view<float const>, heads_view<float const>,
                                    heads_view<float const>, attention_options);
template void attention_impl<double>(stream&, heads_view<double>, sums<double>,
                                     heads_view<double const>, heads_view<double const>,
                                     heads_view<double const>, attention_options);
template void attention_impl<bf16>(stream&, heads_view<bf16>, sums<float>, heads_view<bf16 const>,
                                   heads_view<bf16 const>, heads_view<bf16 const>,
                                   attention_options);

template void extend_attention_impl<float>(stream&, heads_view<float>, sums<float>,
                                           heads_view<float const>, heads_view<float const>,
                                           heads_view<float const>, attention_options);
template void extend_attention_impl<double>(stream&, heads_view<double>, sums<double>,
                                            heads_view<double const>, heads_view<double const>,
                                            heads_view<double const>, attention_options);
template void extend_attention_impl<bf16>(stream&, heads_view<float>, sums<float>,
                                          heads_view<bf16 const>, heads_view<bf16 const>,
                                          heads_view<bf16 const>, attention_options);

}  // namespace parallel::cuda
