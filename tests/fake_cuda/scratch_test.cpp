// What operations take of a fake GPU for their scratch is what the meta device says, and where that
// is missing, a training says so before it begins.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include <parallel/core/failures.hpp>
#include <parallel/device/reserve_scratch.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/rms_norm.hpp>

#include "fake_cuda/trained_model.hpp"
#include "parallel/support/files.hpp"

namespace fake_scratch_test {

using parallel::bf16;
using parallel::index;
using parallel::matrix_view;
using parallel::vector_view;
using parallel::cuda::device;
using parallel::cuda::stream;
namespace ops = parallel::ops;

/// Runs it on a GPU and on the meta device; returns the scratch that both say it takes.
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

TEST_CASE("every operation takes the scratch that the meta device counts") {
  fake_cuda::restart();
  device const gpu;
  constexpr index rows = 70, columns = 24, length = 50000;
  auto const numbers = gpu.allocate_zeroed<float>(length);
  auto const more = gpu.allocate_zeroed<float>(length);
  auto const whole = gpu.allocate_zeroed<std::uint64_t>(length);
  auto const ids = gpu.allocate_zeroed<std::int32_t>(rows);
  auto const sums = gpu.allocate_shared<double>(1);
  auto const exact = gpu.allocate_shared<parallel::exact_sum>(1);
  auto const counted = gpu.allocate_shared<std::int64_t>(1);
  auto const matrix = [&](auto const& of, index m, index n) {
    return matrix_view<std::remove_reference_t<decltype(*of.data())>>(of.data(), {m, n});
  };
  auto const vector = [&](auto const& of, index n) {
    return vector_view<std::remove_reference_t<decltype(*of.data())>>(of.data(), {n});
  };
  auto const heads = [&](auto const& of, index count) {
    using T = std::remove_reference_t<decltype(*of.data())>;
    return ops::heads_view<T>{of.data(), 2, 7, count, 8, 7 * count * 8, count * 8};
  };
  constexpr std::size_t product = std::size_t{32} << 20;

  CHECK(scratch_of([&](auto& s) {
          ops::matmul(s, matrix(numbers, 6, 5), matrix(more, 6, 7), matrix(more, 7, 5));
        }) == product);
  CHECK(scratch_of([&](auto& s) {  // of nothing
          ops::matmul(s, matrix(numbers, 6, 5), matrix(more, 6, 0), matrix(more, 0, 5));
        }) == 0);
  CHECK(scratch_of([&](auto& s) {
          ops::matmul(s, matrix(whole, 6, 5), matrix(whole, 6, 7), matrix(whole, 7, 5));
        }) == 0);
  CHECK(scratch_of([&](auto& s) {
          ops::affine(s, matrix(numbers, 6, 5), matrix(more, 6, 7), matrix(more, 5, 7),
                      vector(more, 5));
        }) == product);
  CHECK(scratch_of([&](auto& s) {
          ops::affine_backward_weight(s, matrix(numbers, 5, 7), vector(more, 5), matrix(more, 6, 5),
                                      matrix(more, 6, 7), true);
        }) == product);
  CHECK(scratch_of([&](auto& s) { ops::squared_norm(s, sums.data(), numbers.span()); }) ==
        4 * sizeof(double));  // pieces of 16384
  CHECK(scratch_of([&](auto& s) {
          ops::sum(s, counted.data(),
                   std::span<std::uint8_t const>(
                       reinterpret_cast<std::uint8_t const*>(numbers.data()), 3 * 16384));
        }) == 3 * sizeof(std::int64_t));
  CHECK(scratch_of([&](auto& s) { ops::exact_squared_norm(s, exact.data(), numbers.span()); }) ==
        4 * 72 * sizeof(std::int64_t));
  auto const x = matrix(numbers, rows, columns);
  CHECK(scratch_of([&](auto& s) {
          ops::layer_norm_backward_weight(s, vector(more, columns), vector(more, columns), x, x,
                                          vector(more, rows), vector(more, rows));
        }) == 3 * 2 * columns * sizeof(float));  // chunks of at least 32 rows
  CHECK(scratch_of([&](auto& s) {
          ops::layer_norm_backward_weight(s, {}, {}, x, x, vector(more, rows), vector(more, rows));
        }) == 0);
  CHECK(scratch_of([&](auto& s) {
          ops::rms_norm_backward_weight(s, vector(more, columns), x, x, vector(more, rows));
        }) == 3 * 2 * columns * sizeof(float));
  auto const sums_of_runs = matrix(more, ops::norm_gradient_runs(rows), columns);
  CHECK(scratch_of([&](auto& s) {
          ops::norm_gradients(s, matrix(numbers, rows, columns), sums_of_runs, {}, x, x,
                              vector(more, columns), vector(more, rows), vector(more, rows));
        }) == 0);
  CHECK(scratch_of([&](auto& s) { ops::add_bias_backward(s, vector(more, columns), x); }) ==
        3 * 2 * columns * sizeof(float));
  CHECK(scratch_of([&](auto& s) {  // three pieces of at most 32 tokens
          ops::embedding_backward(s, matrix(more, 9, columns), x, vector(ids, rows));
        }) == 4 * 512 + 2 * 3 * columns * sizeof(float) / 256 * 256 + 256 + 9 * rows + 65536);
  parallel::tensor_view<float, 3> const lse(more.data(), {2, 4, 7});
  CHECK(scratch_of([&](auto& s) {
          ops::attention(s, heads(numbers, 4), lse, heads(more, 4), heads(more, 2), heads(more, 2),
                         {.scale = 1});
        }) == 0);
  CHECK(scratch_of([&](auto& s) {
          auto const q = heads(more, 4), k = heads(more, 2);
          ops::attention_backward(s, heads(numbers, 4), heads(numbers, 2), heads(numbers, 2), q, q,
                                  k, k, q, lse, {.scale = 1});
        }) == 2 * 4 * 7 * sizeof(float));
  CHECK(fake_cuda::happened().failures.empty());
}

TEST_CASE("where scratch is missing what there was stays, and the sentence says how much") {
  fake_cuda::restart({.memory = 1000});
  stream s;
  CHECK(s.scratch(300) != nullptr);
  CHECK_THROWS_WITH_AS(static_cast<void>(s.scratch(1001)),
                       "out of memory: GPU 0 could not provide 1001 bytes of scratch for "
                       "operations; beside the 300 that there were 700 of 1000 are free",
                       parallel::out_of_memory);
  CHECK(s.scratch_bytes() == 300);
  CHECK(s.scratch(300) != nullptr);
  CHECK(fake_cuda::happened().failures.empty());
}

// 16 MiB are for activations; units take little; a product's 32 MiB of scratch do not fit.
TEST_CASE("a training without the memory for scratch ends before it begins") {
  std::size_t kernels_before = 0;
  for (bool const reserve : {true, false}) {
    CAPTURE(reserve);
    fake_cuda::restart({.memory = std::size_t{40} << 20});
    auto const message = test::message_of([&] {
      static_cast<void>(test::run_model<float>(
          fake_cuda::small_model(true),
          {.reserve_scratch = reserve,
           .on_created = [&] { kernels_before = fake_cuda::happened().kernels; }},
          [] { return fake_cuda::current_gpu(); }, fake_cuda::ranks_on(1)));
    });
    CHECK(test::contains(message, "could not provide 33554432 bytes of scratch for operations"));
    CHECK(fake_cuda::happened().kernels == kernels_before);
  }
}

}  // namespace fake_scratch_test
