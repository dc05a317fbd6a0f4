// The gradient of attention for float, bf16 and double: a file of its own, since the two take
// longest to compile.
#include <parallel/ops/cuda/attention.cuh>

namespace parallel::cuda {

using ops::attention_options;
using ops::heads_view;
template <class T>
using sums = tensor_view<T, 3>;

template void attention_backward_impl<float>(stream&, heads_view<float>, heads_view<float>,
                                             heads_view<float>, heads_view<float const>,
                                             heads_view<float const>, heads_view<float const>,
                                             heads_view<float const>, heads_view<float const>,
                                             sums<float const>, attention_options);
template void attention_backward_impl<double>(stream&, heads_view<double>, heads_view<double>,
                                              heads_view<double>, heads_view<double const>,
                                              heads_view<double const>, heads_view<double const>,
                                              heads_view<double const>, heads_view<double const>,
                                              sums<double const>, attention_options);
template void attention_backward_impl<bf16>(stream&, heads_view<bf16>, heads_view<bf16>,
                                            heads_view<bf16>, heads_view<bf16 const>,
                                            heads_view<bf16 const>, heads_view<bf16 const>,
                                            heads_view<bf16 const>, heads_view<bf16 const>,
                                            sums<float const>, attention_options);

template void extend_attention_backward_impl<float>(
    stream&, heads_view<float>, heads_view<float>, heads_view<float>, heads_view<float const>,
    heads_view<float const>, heads_view<float const>, heads_view<float const>,
    heads_view<float const>, sums<float const>, attention_options);
template void extend_attention_backward_impl<double>(
    stream&, heads_view<double>, heads_view<double>, heads_view<double>, heads_view<double const>,
    heads_view<double const>, heads_view<double const>, heads_view<double const>,
    heads_view<double const>, sums<double const>, attention_options);
template void extend_attention_backward_impl<bf16>(stream&, heads_view<float>, heads_view<float>,
                                                   heads_view<float>, heads_view<bf16 const>,
                                                   heads_view<bf16 const>, heads_view<bf16 const>,
                                                   heads_view<bf16 const>, heads_view<bf16 const>,
                                                   sums<float const>, attention_options);

}  // namespace parallel::cuda
