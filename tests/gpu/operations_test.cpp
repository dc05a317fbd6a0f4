// Every operation of the CUDA backend against the reference in double: new random numbers each
// time, poisoned outputs, marks around every array.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/ops/cuda.hpp>

#include "support/counted_attention.hpp"
#include "support/device_laws.hpp"
#include "support/exact_products.hpp"
#include "support/gpu.hpp"

namespace gpu_operations_test {

using parallel::bf16;

TEST_CASE_TEMPLATE("operations on elements", T, float, bf16, std::uint64_t) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_element_operations<T>(device, test::fresh_seed());
}

TEST_CASE_TEMPLATE("operations on rows, matrices and tables", T, float, bf16, std::uint64_t) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_row_operations<T>(device, test::fresh_seed());
}

TEST_CASE_TEMPLATE("attention", T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_attention_operations<T>(device, test::fresh_seed());
}

/// check(both sides, forms) has fused kernels do so many calls for each form that is not left out,
/// and none gives up; in both ways to add the gradients of queries.
template <class Left, class Check>
void check_fused(Left const& left_out, int calls_of_form, Check const& check) {
  auto const seed = test::fresh_seed();
  MESSAGE("seed ", seed);
  for (bool const deterministic : {false, true}) {
    CAPTURE(deterministic);
    parallel::cuda::device device({.deterministic = deterministic});
    test::both_sides<parallel::cuda::device> both(device, seed, 0);
    test::counted_attention::counts const* counts = nullptr;
    both.run_on_device([&](auto& s) { counts = test::counted_attention::begin(s); });
    auto forms = test::fused_attention_forms();
    bool const is_old = device.properties().major < 9;
    std::erase_if(forms, [&](auto& f) { return (f.documents && is_old) || left_out(f); });
    check(both, forms);
    if (counts == nullptr) {
      MESSAGE("this program is linked with no fused kernels: plain ones did the work");
      continue;
    }
    CHECK(counts->given_up == 0);
    CHECK(counts->done == calls_of_form * static_cast<int>(forms.size()));
  }
}

TEST_CASE("fused kernels of attention do the work that they are for, and right") {
  if (!test::has_gpu()) return;
  check_fused([](auto&) { return false; }, 2,  // forward and backward
              [](auto& both, auto& forms) { test::check_attention<bf16>(both, forms); });
}

TEST_CASE("fused kernels of attention do one part of the keys after another, and right") {
  if (!test::has_gpu()) return;
  check_fused(
      [](auto& form) { return form.sequence % 2 != 0; }, 2 * 3,  // three pairs of halves
      [](auto& both, auto& forms) { test::check_extended_attention<bf16>(both, forms, true); });
}

TEST_CASE("documents as sequences of their own, by fused kernels where they are there, and right") {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  if (device.properties().major < 9) return;
  auto const seed = test::fresh_seed();
  MESSAGE("seed ", seed);
  test::both_sides<parallel::cuda::device> both(device, seed, 0);
  auto forms = test::fused_attention_forms();
  std::erase_if(forms, [](auto& f) { return !f.documents; });
  both.run_on_device([](auto& s) { parallel::cuda::tune_kernels(s, true); });
  test::check_attention<bf16>(both, forms);
  both.run_on_device([&](auto& s) {
    parallel::cuda::tune_kernels(s, false);
    auto tables = parallel::cuda::tuned_kernels(s);
    auto const timed = tables.attention.entries();
    for (auto const& at : timed) {  // whichever form was faster
      if (at.first.most_documents == 0) continue;
      MESSAGE("of at most ", at.first.most_documents, " documents, backward ", at.first.backward,
              ": ", at.second < 0 ? "a mask" : "sequences");
      tables.attention.set(at.first, 0);
    }
    parallel::cuda::use_kernels(s, tables);
  });
  test::check_attention<bf16>(both, forms);
}

TEST_CASE("deterministic attention") {
  if (!test::has_gpu()) return;
  parallel::cuda::device device({.deterministic = true});
  test::check_attention_operations<bf16>(device, test::fresh_seed());
}

TEST_CASE_TEMPLATE("products by the algorithms that tuning takes", T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::for_each_alignment(device, test::fresh_seed(), [](auto& both) {
    both.run_on_device([](auto& s) { parallel::cuda::tune_kernels(s, true); });
    test::check_exact_products<T>(both, 32768);
    test::check_products<T, T>(both);
    test::check_affine<T>(both);
    if constexpr (sizeof(T) == 2) test::check_products<float, T>(both);
    both.run_on_device(
        [](auto& s) { CHECK(parallel::cuda::tuned_kernels(s).products.entries().size() > 8); });
  });
}

TEST_CASE_TEMPLATE("the same operation gives the same bits again", T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  auto const seed = test::fresh_seed();
  MESSAGE("seed ", seed);
  auto const sums = [&] {
    test::both_sides<parallel::cuda::device> both(device, seed, 0);
    auto dy = both.random<T>(4096 * 768), x = both.random<T>(4096 * 768);
    auto gradient = both.of(std::vector<float>(768)), bias = both.of(std::vector<float>(768));
    auto mean = both.random<float>(4096), rstd = both.random<float>(4096);
    auto ids = both.random_ids(4096, 50);
    auto table = both.of(std::vector<float>(50 * 768));
    both.run_on_device([&](auto& s) {
      parallel::ops::layer_norm_backward_weight(
          s, test::as_vector(s, gradient), test::as_vector(s, bias),
          test::as_matrix(s, dy, 4096, 768), test::as_matrix(s, x, 4096, 768),
          test::as_vector(s, mean), test::as_vector(s, rstd));
      parallel::ops::embedding_backward(s, test::as_matrix(s, table, 50, 768),
                                        test::as_matrix(s, dy, 4096, 768), test::as_vector(s, ids));
    });
    auto all = gradient.values();
    for (auto const& more : {bias.values(), table.values()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  auto const first = sums();
  for (int again = 0; again < 5; ++again) CHECK(ops_support::same_bits(sums(), first));
}

}  // namespace gpu_operations_test
