// The choices that a stream's libraries make by timing, as one value.
#include <parallel/ops/cuda/tuning.hpp>

#include <parallel/ops/cuda/attention/fused_attention.hpp>
#include <parallel/ops/cuda/matmul/cublaslt.hpp>

namespace parallel::cuda {

template <class Stream>
void tune_kernels(Stream& s, bool enabled) {
  s.template library<cublaslt>().tune(enabled);
  s.template library<attention_kernels>().tune(enabled);
}
template <class Stream>
kernel_tuning tuned_kernels(Stream& s) {
  return {s.template library<cublaslt>().tuning(),
          s.template library<attention_kernels>().tuning()};
}
template <class Stream>
void use_kernels(Stream& s, kernel_tuning tables) {
  s.template library<cublaslt>().use(std::move(tables.products));
  s.template library<attention_kernels>().use(std::move(tables.attention));
}

template void tune_kernels<stream>(stream&, bool);
template kernel_tuning tuned_kernels<stream>(stream&);
template void use_kernels<stream>(stream&, kernel_tuning);

}  // namespace parallel::cuda
