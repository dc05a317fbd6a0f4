// Attention in bf16 runs on cuDNN's fused kernels if they support the call.
#include <parallel/ops/cuda/cudnn/fused_attention.hpp>

namespace parallel::cuda {

std::unique_ptr<fused_attention> make_fused_attention(stream& s) {
  return std::make_unique<cudnn::attention_plans>(s);
}

}  // namespace parallel::cuda
