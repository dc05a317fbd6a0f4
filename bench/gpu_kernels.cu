// The kernels in which a training step in bf16 spends its time, each under its own name, for
// bench/gpu_kernels, which reads their machine code. The numbers of threads are those of the
// launches; where they depend on the width of rows, it is 768.
#include <cstdint>

#include <parallel/comm/cuda/combine.hpp>
#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/pointwise/activation.hpp>
#include <parallel/ops/cuda/kernels/update/element_update.hpp>
#include <parallel/ops/cuda/kernels/attention/attention_parts.hpp>
#include <parallel/ops/cuda/kernels/pointwise/bias.hpp>
#include <parallel/ops/cuda/kernels/loss/cross_entropy.hpp>
#include <parallel/ops/cuda/kernels/pointwise/elementwise.hpp>
#include <parallel/ops/cuda/kernels/embedding.hpp>
#include <parallel/ops/cuda/kernels/embedding_backward.hpp>
#include <parallel/ops/cuda/kernels/norm/norm.hpp>
#include <parallel/ops/cuda/kernels/norm/norm_gradients.hpp>
#include <parallel/ops/cuda/kernels/norm/norm_weight_gradient.hpp>
#include <parallel/ops/cuda/kernels/reduce.hpp>
#include <parallel/ops/cuda/kernels/attention/rope.hpp>
#include <parallel/ops/cuda/kernels/loss/sliced_cross_entropy.hpp>

using namespace parallel;
using namespace parallel::cuda;
using enum ops::activation_kind;

template <class Body>
__device__ void run(Body const& body) {
  cuda::detail::device_block block;
  body(block);
}

extern "C" {

__global__ void __launch_bounds__(256) gelu_forward(kernels::activation<bf16, gelu> body) {
  run(body);
}
__global__ void __launch_bounds__(256)
    gelu_backward(kernels::activation_backward<bf16, gelu> body) {
  run(body);
}
__global__ void __launch_bounds__(512)
    cross_entropy(kernels::cross_entropy<bf16, float, bf16> body) {
  run(body);
}
__global__ void __launch_bounds__(64) layer_norm(kernels::norm<bf16, true> body) { run(body); }
__global__ void __launch_bounds__(64)
    layer_norm_backward_input(kernels::norm_backward_input<bf16, true> body) {
  run(body);
}
__global__ void __launch_bounds__(64)
    norm_gradients(kernels::norm_gradients<bf16, true, false, true> body) {
  run(body);
}
__global__ void __launch_bounds__(64)
    norm_gradients_with_bias(kernels::norm_gradients<bf16, true, true, true> body) {
  run(body);
}
__global__ void __launch_bounds__(256)
    norm_weight_gradient(kernels::weight_gradient_of_chunks<bf16, true> body) {
  run(body);
}
__global__ void __launch_bounds__(256)
    bias_gradient(kernels::weight_gradient_of_chunks<bf16, false> body) {
  run(body);
}
__global__ void __launch_bounds__(256) adamw(kernels::adamw<bf16> body) { run(body); }
__global__ void __launch_bounds__(256) add_bias(kernels::add_bias<bf16> body) { run(body); }
__global__ void __launch_bounds__(256) add(kernels::pointwise<ops::addition, bf16, bf16> body) { run(body); }
__global__ void __launch_bounds__(256) embedding(kernels::embedding<bf16> body) { run(body); }
__global__ void __launch_bounds__(256) embedding_backward(kernels::sum_pieces<bf16> body) {
  run(body);
}
__global__ void __launch_bounds__(256) combine(kernels::combine<bf16> body) { run(body); }
__global__ void __launch_bounds__(64) rms_norm(kernels::norm<bf16, false> body) { run(body); }
__global__ void __launch_bounds__(64)
    rms_norm_backward_input(kernels::norm_backward_input<bf16, false> body) {
  run(body);
}
__global__ void __launch_bounds__(256) rope(kernels::rope<bf16> body) { run(body); }
__global__ void __launch_bounds__(256)
    vocabulary_statistics(kernels::vocabulary_statistics<float, bf16> body) {
  run(body);
}
__global__ void __launch_bounds__(256)
    sliced_cross_entropy(kernels::sliced_cross_entropy<bf16, float, bf16> body) {
  run(body);
}
__global__ void __launch_bounds__(256)
    squared_norm(kernels::sum_of_pieces<float, kernels::squared> body) {
  run(body);
}
__global__ void __launch_bounds__(256) lion(kernels::lion<bf16> body) { run(body); }
__global__ void __launch_bounds__(256)
    merge_attention_part(kernels::merge_attention_part<bf16> body) {
  run(body);
}
__global__ void __launch_bounds__(256) add_attention_part(kernels::add_attention_part<bf16> body) {
  run(body);
}

}  // extern "C"
