// The shapes of large models on a GPU: a vocabulary of 50432 by a width of 4096, more than 2^31
// logits, and sequences of 32768.
#include <doctest/doctest.h>

#include <parallel/ops/cuda.hpp>

#include "support/devices/gpu.hpp"
#include "support/laws/closed_forms.hpp"

namespace gpu_big_shapes_test {

struct gpu_stream {
  parallel::cuda::device device;
  parallel::cuda::stream stream{device.compute_options()};
};

TEST_CASE("matmul on a GPU: logits over 50432 tokens from a width of 4096 equal the reference") {
  if (!test::has_gpu()) return;
  gpu_stream gpu;
  test::check_large_product(gpu.stream, gpu.device, 4096, 50432, 4096);
}

TEST_CASE(
    "cross_entropy on a GPU: 43000 rows of 50432 logits, with indices above 2^31, give the exact "
    "loss") {
  if (!test::has_gpu()) return;
  gpu_stream gpu;
  test::check_large_cross_entropy(gpu.stream, gpu.device, 43000, 50432);
}

TEST_CASE("attention on a GPU: a sequence of 32768 tokens equals the reference") {
  if (!test::has_gpu()) return;
  gpu_stream gpu;
  test::check_long_attention(gpu.stream, gpu.device, 32768, 12, 64);
}

}  // namespace gpu_big_shapes_test
