// Operations on a fake GPU take as much scratch as the meta device counts; where the memory for it
// is missing, a training fails before it begins.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

#include <parallel/core/failures.hpp>
#include <parallel/device/reserve_scratch.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/norm/norm.hpp>

#include "fake_cuda/trained_model.hpp"
#include "parallel/support/files.hpp"

namespace fake_scratch_test {

using parallel::index;
using parallel::matrix_view;
using parallel::vector_view;
using parallel::cuda::device;
using parallel::cuda::stream;
namespace ops = parallel::ops;

/// Runs an operation on a GPU and on the meta device, and returns the bytes of scratch, on which
/// both must agree.
template <class Operation>
std::size_t scratch_of(Operation const& operation) {
  stream on_gpu;
  operation(on_gpu);
  on_gpu.synchronize();
  parallel::meta::stream planned;
  operation(planned);
  CHECK(on_gpu.scratch_bytes() == planned.take_scratch());
  CHECK(planned.take_scratch() == 0);
  return on_gpu.scratch_bytes();
}

TEST_CASE("scratch: every operation takes as many bytes as the meta device counts") {
  fake_cuda::restart();
  device const gpu;
  constexpr index rows = 70, columns = 24, length = 50000;
  auto const numbers = gpu.allocate_zeroed<float>(length);
  auto const operands = gpu.allocate_zeroed<float>(length);
  auto const integers = gpu.allocate_zeroed<std::uint64_t>(length);
  auto const ids = gpu.allocate_zeroed<std::int32_t>(rows);
  auto const sums = gpu.allocate_shared<double>(1);
  auto const exact = gpu.allocate_shared<parallel::exact_sum>(1);
  auto const token_count = gpu.allocate_shared<std::int64_t>(1);
  auto const matrix = [&](auto const& memory, index m, index n) {
    return matrix_view<std::remove_reference_t<decltype(*memory.data())>>(memory.data(), {m, n});
  };
  auto const vector = [&](auto const& memory, index n) {
    return vector_view<std::remove_reference_t<decltype(*memory.data())>>(memory.data(), {n});
  };
  auto const heads = [&](auto const& memory, index count) {
    using T = std::remove_reference_t<decltype(*memory.data())>;
    return ops::heads_view<T>{memory.data(), 2, 7, count, 8, 7 * count * 8, count * 8};
  };
  constexpr std::size_t product = std::size_t{32} << 20;

  CHECK(scratch_of([&](auto& s) {
          ops::matmul(s, matrix(numbers, 6, 5), matrix(operands, 6, 7), matrix(operands, 7, 5));
        }) == product);
  CHECK(scratch_of([&](auto& s) {  // an empty inner dimension
          ops::matmul(s, matrix(numbers, 6, 5), matrix(operands, 6, 0), matrix(operands, 0, 5));
        }) == 0);
  CHECK(scratch_of([&](auto& s) {
          ops::matmul(s, matrix(integers, 6, 5), matrix(integers, 6, 7), matrix(integers, 7, 5));
        }) == 0);
  CHECK(scratch_of([&](auto& s) {
          ops::affine(s, matrix(numbers, 6, 5), matrix(operands, 6, 7), matrix(operands, 5, 7),
                      vector(operands, 5));
        }) == product);
  CHECK(scratch_of([&](auto& s) {
          ops::affine_backward_weight(s, matrix(numbers, 5, 7), vector(operands, 5),
                                      matrix(operands, 6, 5), matrix(operands, 6, 7), true);
        }) == product);
  CHECK(scratch_of([&](auto& s) { ops::squared_norm(s, sums.data(), numbers.span()); }) ==
        4 * sizeof(double));  // pieces of 16384
  CHECK(scratch_of([&](auto& s) {
          ops::sum(s, token_count.data(),
                   std::span<std::uint8_t const>(
                       reinterpret_cast<std::uint8_t const*>(numbers.data()), 3 * 16384));
        }) == 3 * sizeof(std::int64_t));
  CHECK(scratch_of([&](auto& s) { ops::exact_squared_norm(s, exact.data(), numbers.span()); }) ==
        4 * 72 * sizeof(std::int64_t));
  auto const x = matrix(numbers, rows, columns);
  CHECK(scratch_of([&](auto& s) {
          ops::layer_norm_backward_weight(s, vector(operands, columns), vector(operands, columns),
                                          x, x, vector(operands, rows), vector(operands, rows));
        }) == 3 * 2 * columns * sizeof(float));  // chunks of at least 32 rows
  CHECK(scratch_of([&](auto& s) {
          ops::layer_norm_backward_weight(s, {}, {}, x, x, vector(operands, rows),
                                          vector(operands, rows));
        }) == 0);
  CHECK(scratch_of([&](auto& s) {
          ops::rms_norm_backward_weight(s, vector(operands, columns), x, x, vector(operands, rows));
        }) == 3 * 2 * columns * sizeof(float));
  auto const sums_of_runs = matrix(operands, ops::norm_gradient_runs(rows), columns);
  CHECK(scratch_of([&](auto& s) {
          ops::norm_gradients(s, matrix(numbers, rows, columns), sums_of_runs, {}, x, x,
                              vector(operands, columns), vector(operands, rows),
                              vector(operands, rows));
        }) == 0);
  CHECK(scratch_of([&](auto& s) { ops::add_bias_backward(s, vector(operands, columns), x); }) ==
        3 * 2 * columns * sizeof(float));
  CHECK(scratch_of([&](auto& s) {  // three pieces of at most 32 tokens
          ops::embedding_backward(s, matrix(operands, 9, columns), x, vector(ids, rows));
        }) == 4 * 512 + 2 * 3 * columns * sizeof(float) / 256 * 256 + 256 + 9 * rows + 65536);
  auto const choices = gpu.allocate_zeroed<std::int32_t>(8 * rows);
  CHECK(scratch_of([&](auto& s) {  // three chunks of at most 32 rows
          ops::expert_order(s, matrix(choices, rows, 8), matrix(choices, 1, 9), vector(choices, 2),
                            matrix(choices, rows, 8), {.block_rows = 8 * rows});
        }) == 2 * 256 + 256);
  CHECK(scratch_of([&](auto& s) {  // two sets of two such chunks
          ops::choice_counts(s, matrix(numbers, 2, 9), matrix(choices, rows, 8));
        }) == 4 * 9 * sizeof(std::int32_t));
  parallel::tensor_view<float, 3> const lse(operands.data(), {2, 4, 7});
  CHECK(scratch_of([&](auto& s) {
          ops::attention(s, heads(numbers, 4), lse, heads(operands, 4), heads(operands, 2),
                         heads(operands, 2), {.scale = 1});
        }) == 0);
  CHECK(scratch_of([&](auto& s) {
          auto const q = heads(operands, 4), k = heads(operands, 2);
          ops::attention_backward(
              s, ops::attention_backward_arguments<float>{.dq = heads(numbers, 4),
                                                          .dk = heads(numbers, 2),
                                                          .dv = heads(numbers, 2),
                                                          .dout = q,
                                                          .q = q,
                                                          .k = k,
                                                          .v = k,
                                                          .out = q,
                                                          .lse = lse,
                                                          .options = {.scale = 1}});
        }) == 2 * 4 * 7 * sizeof(float));
  CHECK(fake_cuda::history().failures.empty());
}

TEST_CASE("scratch: out of memory keeps the old scratch, and the message says the sizes") {
  fake_cuda::restart({.memory = 1000});
  stream s;
  CHECK(s.scratch(300) != nullptr);
  CHECK_THROWS_WITH_AS(static_cast<void>(s.scratch(1001)),
                       "out of memory: GPU 0 could not provide 1001 bytes of scratch for "
                       "operations; it had 300, and 700 of 1000 are free",
                       parallel::out_of_memory);
  CHECK(s.scratch_bytes() == 300);
  CHECK(s.scratch(300) != nullptr);
  CHECK(fake_cuda::history().failures.empty());
}

// Activations take 16 MiB and units take little; a product's 32 MiB of scratch do not fit.
TEST_CASE("scratch: a training without the memory for it fails before its first kernel") {
  std::size_t kernels_before = 0;
  for (bool const reserve : {true, false}) {
    CAPTURE(reserve);
    fake_cuda::restart({.memory = std::size_t{40} << 20});
    auto const message = test::message_of([&] {
      static_cast<void>(test::run_model<float>(
          fake_cuda::small_model(true),
          {.reserve_scratch = reserve,
           .on_created = [&] { kernels_before = fake_cuda::history().kernels; }},
          [] { return fake_cuda::current_gpu(); }, fake_cuda::ranks_on(1)));
    });
    CHECK(test::contains(message, "could not provide 33554432 bytes of scratch for operations"));
    CHECK(fake_cuda::history().kernels == kernels_before);
  }
}

}  // namespace fake_scratch_test
