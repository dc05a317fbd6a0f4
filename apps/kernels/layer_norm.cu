// layer_norm and its gradients for float, bf16 and double.
#include <parallel/ops/cuda/layer_norm.cuh>

namespace parallel::cuda {

using ops::layer_norm_options;
using ops::rows_view;

template void layer_norm_impl<float>(stream&, rows_view<float>, vector_view<float>,
                                     vector_view<float>, rows_view<float const>,
                                     vector_view<float const>, vector_view<float const>,
                                     layer_norm_options);
template void layer_norm_impl<bf16>(stream&, rows_view<bf16>, vector_view<float>,
                                    vector_view<float>, rows_view<bf16 const>,
                                    vector_view<bf16 const>, vector_view<bf16 const>,
                                    layer_norm_options);
template void layer_norm_impl<double>(stream&, rows_view<double>, vector_view<double>,
                                      vector_view<double>, rows_view<double const>,
                                      vector_view<double const>, vector_view<double const>,
                                      layer_norm_options);

template void layer_norm_backward_input_impl<float>(stream&, rows_view<float>,
                                                    rows_view<float const>, rows_view<float const>,
                                                    vector_view<float const>,
                                                    vector_view<float const>,
                                                    vector_view<float const>,
                                                    rows_view<float const>);
template void layer_norm_backward_input_impl<bf16>(stream&, rows_view<bf16>, rows_view<bf16 const>,
                                                   rows_view<bf16 const>, vector_view<bf16 const>,
                                                   vector_view<float const>,
                                                   vector_view<float const>, rows_view<bf16 const>);
template void layer_norm_backward_input_impl<double>(
    stream&, rows_view<double>, rows_view<double const>, rows_view<double const>,
    vector_view<double const>, vector_view<double const>, vector_view<double const>,
    rows_view<double const>);

template void layer_norm_backward_weight_impl<float>(stream&, vector_view<float>,
                                                     vector_view<float>, rows_view<float const>,
                                                     rows_view<float const>,
                                                     vector_view<float const>,
                                                     vector_view<float const>);
template void layer_norm_backward_weight_impl<bf16>(stream&, vector_view<float>, vector_view<float>,
                                                    rows_view<bf16 const>, rows_view<bf16 const>,
                                                    vector_view<float const>,
                                                    vector_view<float const>);
template void layer_norm_backward_weight_impl<double>(stream&, vector_view<double>,
                                                      vector_view<double>, rows_view<double const>,
                                                      rows_view<double const>,
                                                      vector_view<double const>,
                                                      vector_view<double const>);

}  // namespace parallel::cuda
