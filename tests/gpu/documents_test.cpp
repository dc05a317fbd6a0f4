// Packed documents as separate sequences in cuDNN's fused attention, compared with the
// reference in double. Attention takes this form only where a table asks for it, as the table of
// this test does. Until a GPU has run the form without errors it may read memory that it must not,
// which would end the process's context. Therefore this file runs last, in its own process,
// under compute-sanitizer (bench/gpu documents).
#include <vector>

#include <doctest/doctest.h>

#include <parallel/ops/cuda.hpp>
#include <parallel/ops/cuda/attention/document_tables.hpp>

#include "support/devices/gpu.hpp"
#include "support/laws/attention_laws.hpp"

namespace gpu_documents_test {

using parallel::bf16;

/// The tables, with an entry that computes documents as sequences wherever it may replace a mask.
parallel::cuda::kernel_tuning with_document_sequences(parallel::cuda::kernel_tuning tables) {
  auto const masks = tables.attention.entries();
  for (auto const& entry : masks) {
    auto problem = entry.first;
    if (!problem.documents || problem.full_sequence != 0) continue;
    problem.max_documents = parallel::cuda::max_documents(problem.batch * problem.sequence);
    tables.attention.set(problem, 0);
  }
  return tables;
}

/// Compares forms of attention with packed documents, as a mask and as sequences.
void check_documents(std::vector<test::attention_form> const& forms) {
  if (!test::has_gpu()) return;
  parallel::cuda::device device;
  if (device.properties().major < 9) return;
  auto const seed = test::fresh_seed();
  MESSAGE("seed ", seed);
  test::both_sides<parallel::cuda::device> sides(device, seed, 0);
  sides.run_on_device([](auto& s) { parallel::cuda::tune_kernels(s, true); });
  test::check_attention<bf16>(sides, forms);  // documents as a mask
  sides.run_on_device([](auto& s) {
    parallel::cuda::tune_kernels(s, false);
    auto const tables = with_document_sequences(parallel::cuda::tuned_kernels(s));
    MESSAGE(tables.attention.entries().size(), " entries for attention");
    parallel::cuda::use_kernels(s, tables);
  });
  test::check_attention<bf16>(sides, forms);
}

TEST_CASE("attention on a GPU: documents as separate sequences equal the reference, one form") {
  // A small one, which a rehearsal has time for on a fake GPU.
  check_documents({{.sequence = 50, .heads = 2, .key_heads = 1, .alibi = true, .documents = true}});
}

TEST_CASE("attention on a GPU: documents as separate sequences equal the reference, other forms") {
  auto forms = test::fused_attention_forms();
  std::erase_if(forms, [](auto const& f) { return !f.documents; });
  check_documents(forms);
}

}  // namespace gpu_documents_test
