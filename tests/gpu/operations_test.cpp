// Every operation of the CUDA backend against the reference in double: new random numbers each
// time, poisoned outputs, marks around every array. Documents as sequences of their own have a file
// of their own.
//
// What takes long here is the host and cuDNN, which compiles a plan in up to a second for each form
// of attention, pass and stream: cases that are not "[full]" make 36, and multiply by weight
// gradients of 4096 tokens. The "[full]" ones have every form in both ways to add gradients of
// queries (100 plans), and weight gradients of 32768 tokens.
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

TEST_CASE("attention<float>") {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  test::check_attention_operations<float>(device, test::fresh_seed());
}

/// The forms that fused kernels are for, or the others.
std::vector<test::attention_form> forms_for(bool fused) {
  auto forms = test::attention_forms();
  std::erase_if(forms, [&](auto const& f) {
    return fused != (f.sequence > 1 && f.dropout == 0.0F && f.softcap == 0.0);
  });
  return forms;
}

TEST_CASE(
    "attention<bf16>, what is for plain kernels: some forms, and arrays that are not aligned") {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  bool aligned = true;
  test::for_each_alignment(device, test::fresh_seed(), [&](auto& both) {
    test::check_attention<bf16>(both, aligned ? forms_for(false) : test::attention_forms());
    test::check_extended_attention<bf16>(both);
    aligned = false;
  });
}

/// check(both sides, forms) has fused kernels do so many calls for each form that is not left out,
/// and none gives up, for each of these ways to add the gradients of queries.
template <class Left, class Check>
void check_fused(std::vector<bool> const& ways, Left const& left_out, int calls_of_form,
                 Check const& check) {
  auto const seed = test::fresh_seed();
  MESSAGE("seed ", seed);
  for (bool const deterministic : ways) {
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
    CHECK(counts->declined == 0);
    CHECK(counts->completed == calls_of_form * static_cast<int>(forms.size()));
  }
}

/// All forms but three: shared key heads with all options, a window alone, and a long sequence.
bool is_for_full_tests(test::attention_form const& form) {
  return form.sequence != 200 && form.sequence != 2048 && !(form.window > 0 && !form.documents);
}

void check_fused_whole(std::vector<bool> const& ways, auto const& left_out) {
  check_fused(ways, left_out, 2,  // forward and backward
              [](auto& both, auto& forms) { test::check_attention<bf16>(both, forms); });
}
void check_fused_parts(std::vector<bool> const& ways, auto const& left_out) {
  check_fused(
      ways, [&](auto& form) { return form.sequence % 2 != 0 || left_out(form); },
      2 * 3,  // three pairs of halves
      [](auto& both, auto& forms) { test::check_extended_attention<bf16>(both, forms, true); });
}

TEST_CASE("fused kernels of attention do the work that they are for, and right") {
  if (!test::has_gpu()) return;
  check_fused_whole({false}, [](auto&) { return false; });
  check_fused_whole({true}, is_for_full_tests);
}

TEST_CASE("fused kernels of attention do one part of the keys after another, and right") {
  if (!test::has_gpu()) return;
  check_fused_parts({false}, is_for_full_tests);
}

TEST_CASE(
    "[full] fused kernels of attention: every form, whole and by parts, in both ways to add") {
  if (!test::has_gpu()) return;
  check_fused_whole({false, true}, [](auto&) { return false; });
  check_fused_parts({false, true}, [](auto&) { return false; });
}

/// Weight gradients over so many tokens, and products of all layouts, by tuned algorithms.
template <class T>
void check_tuned_products(parallel::cuda::device& device, parallel::index tokens) {
  test::for_each_alignment(device, test::fresh_seed(), [&](auto& both) {
    both.run_on_device([](auto& s) { parallel::cuda::tune_kernels(s, true); });
    test::check_exact_products<T>(both, tokens);
    test::check_products<T, T>(both);
    test::check_affine<T>(both);
    if constexpr (sizeof(T) == 2) test::check_products<float, T>(both);
    both.run_on_device(
        [](auto& s) { CHECK(parallel::cuda::tuned_kernels(s).products.entries().size() > 8); });
  });
}

TEST_CASE_TEMPLATE("products by the algorithms that tuning takes", T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  check_tuned_products<T>(device, 4096);
}

TEST_CASE_TEMPLATE("[full] products by the algorithms that tuning takes, of 32768 tokens", T, float,
                   bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  check_tuned_products<T>(device, 32768);
}

TEST_CASE_TEMPLATE("the same operation gives the same bits again", T, float, bf16) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  auto const seed = test::fresh_seed();
  MESSAGE("seed ", seed);
  auto const sums = [&] {
    test::both_sides<parallel::cuda::device> both(device, seed, 0);
    auto dy = both.random<T>(4096 * 768), x = both.random<T>(4096 * 768);
    auto gradient = both.twin_of(std::vector<float>(768)),
         bias = both.twin_of(std::vector<float>(768));
    auto mean = both.random<float>(4096), rstd = both.random<float>(4096);
    auto ids = both.random_ids(4096, 50);
    auto table = both.twin_of(std::vector<float>(50 * 768));
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
