// The reasons why attention ran on the plain kernels.
#include <parallel/ops/cuda.hpp>
#include <parallel/ops/cuda/attention/fused_attention.hpp>

namespace parallel::cuda {

template <class Stream>
std::vector<std::string_view> plain_attention_reasons(Stream& s) {
  auto const& reasons = s.template library<attention_kernels>().plain_reasons;
  return {reasons.begin(), reasons.end()};
}
template std::vector<std::string_view> plain_attention_reasons<stream>(stream&);

}  // namespace parallel::cuda
