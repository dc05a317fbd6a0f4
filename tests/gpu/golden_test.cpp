// MPT on a GPU compared with golden numbers of PyTorch (support/golden/golden_model.hpp): logits,
// loss and gradients of every form, generation with a KV cache, and evaluation.
#include <doctest/doctest.h>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/ops/cuda.hpp>

#include "support/devices/gpu.hpp"
#include "support/laws/golden_laws.hpp"

namespace gpu_golden_test {

parallel::cuda::device make_gpu() { return parallel::cuda::device(); }

TEST_CASE(
    "MPT in fp32 on a GPU: logits, loss and gradients are within 1e-5 of the largest, all forms") {
  // Sums have another order than on the host, where errors stay below 4e-6.
  if (test::has_gpu()) test::check_against_truth<float>(1e-5, make_gpu);
}

TEST_CASE("MPT in bf16 on a GPU: the error is at most twice that of the reference's bf16 run") {
  if (test::has_gpu()) test::check_against_reference_bf16(make_gpu);
}

TEST_CASE("MPT in fp32 on a GPU: a KV cache gives the same logits, and transformers' tokens") {
  if (!test::has_gpu()) return;
  test::check_cached_logits<float>(1e-5, make_gpu);
  test::check_greedy_tokens(make_gpu);
}

TEST_CASE("MPT in fp32 on a GPU: evaluation gives the reference's loss and accuracy, all forms") {
  if (test::has_gpu()) test::check_evaluation<float>(1e-5, make_gpu);
}

}  // namespace gpu_golden_test
