// Attention in bf16 is by cuDNN's fused kernels, where they can.
#include <parallel/ops/cuda/cudnn/fused_attention.hpp>

namespace parallel::cuda {

std::unique_ptr<fused_attention> make_fused_attention(stream& s) {
  return std::make_unique<cudnn::attention_plans>(s);
}

}  // namespace parallel::cuda
