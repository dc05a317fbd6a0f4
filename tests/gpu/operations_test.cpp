// Every operation of the CUDA backend compared with the reference in double: fresh random numbers
// in every run, poisoned outputs, guard bytes around every array. documents_test.cpp tests
// documents as separate sequences.
//
// The time goes into the host's reference and into cuDNN, which takes up to a second to compile a
// plan for each form of attention, pass and stream. The cases without "[full]" make 36 plans, and
// weight gradients of 4096 tokens. The "[full]" cases make every form, with deterministic and other
// sums of the gradients of queries (100 plans), and weight gradients of 32768 tokens.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/ops/cuda.hpp>

#include "support/devices/counted_attention.hpp"
#include "support/devices/gpu.hpp"
#include "support/laws/device_laws.hpp"
#include "support/laws/exact_products.hpp"

namespace gpu_operations_test {

using parallel::bf16;

TEST_CASE_TEMPLATE("operations on elements: a GPU equals the reference", T, float, bf16,
                   std::uint64_t) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_element_operations<T>(device, test::fresh_seed());
}

TEST_CASE_TEMPLATE("operations on rows, matrices and tables: a GPU equals the reference", T, float,
                   bf16, std::uint64_t) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_row_operations<T>(device, test::fresh_seed());
}

TEST_CASE("attention<float> on a GPU: every form equals the reference") {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_attention_operations<float>(device, test::fresh_seed());
}

/// The forms that fused kernels support, or all others.
std::vector<test::attention_form> forms_for(bool fused) {
  auto forms = test::attention_forms();
  std::erase_if(forms, [&](auto const& f) {
    return fused != (f.sequence > 1 && f.dropout == 0.0F && f.softcap == 0.0);
  });
  return forms;
}

TEST_CASE(
    "attention<bf16> on a GPU: plain kernels equal the reference, also for unaligned arrays") {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  bool aligned = true;
  test::for_each_alignment(device, test::fresh_seed(), [&](auto& sides) {
    test::check_attention<bf16>(sides, aligned ? forms_for(false) : test::attention_forms());
    test::check_extended_attention<bf16>(sides);
    aligned = false;
  });
}

/// Calls check(sides, forms) for the forms that are not excluded, with each of the `deterministic`
/// options, which select how gradients of queries are added. Fused kernels must make
/// `calls_of_form` calls for each form, and none may fall back to plain kernels.
template <class Excluded, class Check>
void check_fused(std::vector<bool> const& deterministic_options, Excluded const& is_excluded,
                 int calls_of_form, Check const& check) {
  auto const seed = test::fresh_seed();
  MESSAGE("seed ", seed);
  for (bool const deterministic : deterministic_options) {
    CAPTURE(deterministic);
    parallel::cuda::device device({.deterministic = deterministic});
    test::both_sides<parallel::cuda::device> sides(device, seed, 0);
    test::counted_attention::counts const* counts = nullptr;
    sides.run_on_device([&](auto& s) { counts = test::counted_attention::begin(s); });
    auto forms = test::fused_attention_forms();
    bool const is_old = device.properties().major < 9;
    std::erase_if(forms, [&](auto& f) { return (f.documents && is_old) || is_excluded(f); });
    check(sides, forms);
    if (counts == nullptr) {
      MESSAGE("this program is linked with no fused kernels: plain ones did the work");
      continue;
    }
    CHECK(counts->declined == 0);
    CHECK(counts->completed == calls_of_form * static_cast<int>(forms.size()));
  }
}

/// Whether only the "[full]" tests include a form. All tests include three forms: shared key heads
/// with all options, a window alone, and a long sequence.
bool is_for_full_tests(test::attention_form const& form) {
  return form.sequence != 200 && form.sequence != 2048 && !(form.window > 0 && !form.documents);
}

void check_fused_whole(std::vector<bool> const& deterministic_options, auto const& is_excluded) {
  check_fused(deterministic_options, is_excluded, 2,  // forward and backward
              [](auto& sides, auto& forms) { test::check_attention<bf16>(sides, forms); });
}
void check_fused_parts(std::vector<bool> const& deterministic_options, auto const& is_excluded) {
  check_fused(
      deterministic_options,
      [&](auto& form) { return form.sequence % 2 != 0 || is_excluded(form); },
      2 * 3,  // three pairs of halves
      [](auto& sides, auto& forms) { test::check_extended_attention<bf16>(sides, forms, true); });
}

TEST_CASE("fused attention on a GPU: fused kernels run and equal the reference") {
  if (!test::has_gpu()) return;
  check_fused_whole({false}, [](auto&) { return false; });
  check_fused_whole({true}, is_for_full_tests);
}

TEST_CASE("fused attention on a GPU: part by part of the keys, it equals the reference") {
  if (!test::has_gpu()) return;
  check_fused_parts({false}, is_for_full_tests);
}

TEST_CASE(
    "[full] fused attention on a GPU: every form, whole and by parts, deterministic and not") {
  if (!test::has_gpu()) return;
  check_fused_whole({false, true}, [](auto&) { return false; });
  check_fused_parts({false, true}, [](auto&) { return false; });
}

/// Checks weight gradients over so many tokens, and products of all layouts, with tuned algorithms.
template <class T>
void check_tuned_products(parallel::cuda::device& device, parallel::index tokens) {
  test::for_each_alignment(device, test::fresh_seed(), [&](auto& sides) {
    sides.run_on_device([](auto& s) { parallel::cuda::tune_kernels(s, true); });
    test::check_exact_products<T>(sides, tokens);
    test::check_products<T, T>(sides);
    test::check_affine<T>(sides);
    if constexpr (sizeof(T) == 2) test::check_products<float, T>(sides);
    sides.run_on_device(
        [](auto& s) { CHECK(parallel::cuda::tuned_kernels(s).products.entries().size() > 8); });
  });
}

TEST_CASE_TEMPLATE("products on a GPU: tuned algorithms equal the reference", T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  check_tuned_products<T>(device, 4096);
}

TEST_CASE_TEMPLATE("[full] products on a GPU: tuned algorithms equal the reference, 32768 tokens",
                   T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  check_tuned_products<T>(device, 32768);
}

TEST_CASE_TEMPLATE("reductions on a GPU: repeated operations give the same bits", T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  auto const seed = test::fresh_seed();
  MESSAGE("seed ", seed);
  auto const sums = [&] {
    test::both_sides<parallel::cuda::device> sides(device, seed, 0);
    auto dy = sides.random<T>(4096 * 768), x = sides.random<T>(4096 * 768);
    auto gradient = sides.twin_of(std::vector<float>(768)),
         bias = sides.twin_of(std::vector<float>(768));
    auto mean = sides.random<float>(4096), rstd = sides.random<float>(4096);
    auto ids = sides.random_ids(4096, 50);
    auto table = sides.twin_of(std::vector<float>(50 * 768));
    sides.run_on_device([&](auto& s) {
      parallel::ops::layer_norm_backward_weight(
          s, test::as_vector(s, gradient), test::as_vector(s, bias),
          test::as_matrix(s, dy, 4096, 768), test::as_matrix(s, x, 4096, 768),
          test::as_vector(s, mean), test::as_vector(s, rstd));
      parallel::ops::embedding_backward(s, test::as_matrix(s, table, 50, 768),
                                        test::as_matrix(s, dy, 4096, 768), test::as_vector(s, ids));
    });
    auto values = gradient.values();
    for (auto const& array_values : {bias.values(), table.values()})
      values.insert(values.end(), array_values.begin(), array_values.end());
    return values;
  };
  auto const first = sums();
  for (int repetition = 0; repetition < 5; ++repetition)
    CHECK(ops_support::same_bits(sums(), first));
}

}  // namespace gpu_operations_test
