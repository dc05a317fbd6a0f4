// A training of MPT in bf16 whose attention was tuned: the kept table decides its bits, on a
// machine where other plans are the fastest as well.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>

#include <parallel/ops/cuda/document_tables.hpp>
#include <parallel/ops/cuda/tuning.hpp>

#include "fake_cuda/ranks.hpp"
#include "support/model_comparison.hpp"
#include "support/model_form.hpp"
#include "support/model_run.hpp"

namespace fake_tuned_training_test {

using parallel::bf16;
using parallel::cuda::kernel_tuning;

/// What streams take at first, and the last one has in the end.
struct tables {
  std::string given, found;
};
inline tables& kept() {
  static tables one;
  return one;
}

/// Tunes, unless there is something to take.
class tuned_stream : public parallel::cuda::stream {
 public:
  explicit tuned_stream(parallel::cuda::stream_options options) : stream(options) {
    if (kept().given.empty())
      tune_kernels(base(), true);
    else
      use_kernels(base(), kernel_tuning::parse(kept().given, "a run's"));
  }
  ~tuned_stream() { kept().found = to_text(tuned_kernels(base())); }

 private:
  [[nodiscard]] parallel::cuda::stream& base() { return *this; }
};

struct tuned_device : parallel::cuda::device {
  using device::device;
  using stream_type = tuned_stream;
};

}  // namespace fake_tuned_training_test

template <>
struct parallel::comm_stream_of<fake_tuned_training_test::tuned_device, parallel::host::stream>
    : comm_stream_of<cuda::device, host::stream> {};

namespace fake_tuned_training_test {

/// A step on a machine with these engines; `given`: a table, or empty.
test::model_outcome train(std::array<fake_cuda::engine, 3> const& engines, std::uint64_t seed,
                          std::string const& given) {
  mpt::model_config m;
  m.d_model = 128;  // sums of a head's 64 products: engines find other bits
  m.n_heads = 2;
  m.n_layers = 2;
  m.vocab_size = 18;
  m.max_seq_len = 8;
  m.expansion_ratio = 1;
  fake_cuda::restart({.engines = engines, .seed = seed});
  kept() = {.given = given, .found = {}};
  auto out = test::run_model<bf16>(
      test::model_form(m, true), {},
      [] { return tuned_device({.device = 0, .deterministic = true}); }, fake_cuda::ranks_on(1));
  CHECK(fake_cuda::happened().failures.empty());
  CHECK(fake_cuda::happened().attentions > 0);
  return out;
}

TEST_CASE("a resumed training has the bits of the plans that were kept, whatever is the fastest") {
  using fake_cuda::engine;
  engine const fast{}, slow{.microseconds = 1'000'000};
  static_cast<void>(train({slow, fast, slow}, 0, {}));
  auto const text = kept().found;
  auto table = kernel_tuning::parse(text, "the first run's");
  REQUIRE(table.attention.entries().size() > 1);
  for (auto const& [problem, plan] : table.attention.entries()) {
    CHECK(problem.max_documents == 0);  // tuning never takes documents as sequences
    CHECK(plan == 1);
  }

  auto const resumed = train({fast, slow, slow}, 1, text);
  CHECK(kept().found == text);
  auto const again = train({slow, slow, fast}, 2, text);
  CHECK(again.loss == resumed.loss);
  CHECK(again.gradients == resumed.gradients);
  CHECK(again.parameters == resumed.parameters);

  auto const entries = table.attention.entries();
  for (auto const& [problem, plan] : entries) table.attention.set(problem, 2);
  auto const other = train({fast, fast, fast}, 1, to_text(table));
  CHECK(other.gradients != resumed.gradients);
}

/// The table, with entries by which documents are sequences of their own wherever they are a mask,
/// for as many as there may be in so many tokens.
std::string taken_apart(std::string const& text, parallel::index length) {
  auto tables = kernel_tuning::parse(text, "a run's");
  auto const timed = tables.attention.entries();
  for (auto const& at : timed) {
    auto problem = at.first;
    problem.max_documents = parallel::cuda::max_documents(problem.batch * length);
    if (problem.documents) tables.attention.set(problem, 0);
  }
  return to_text(tables);
}

TEST_CASE("MPT trains with documents as a mask and as sequences, as close to fp64 as the host") {
  for (bool const sequences : {false, true}) {
    CAPTURE(sequences);
    mpt::model_config m;
    m.d_model = 32;
    m.n_heads = 2;
    m.n_layers = 1;
    m.vocab_size = 18;
    m.max_seq_len = 48;
    m.expansion_ratio = 1;
    m = test::model_form(m, true);
    m.attn.kv_n_heads = 1;
    auto const exact = test::run_model<double>(m, {});
    auto const of_host = test::run_model<bf16>(m, {});
    std::string table;
    for (int const run : {1, 2, 3}) {  // tunes; goes by what was found or asked for; in graphs
      CAPTURE(run);
      bool const graphs = run == 3;
      fake_cuda::restart({.seed = 3});
      kept() = {.given = table, .found = {}};
      auto const got = test::run_model<bf16>(
          m, {}, [&] { return tuned_device({.device = 0, .graphs = graphs}); },
          fake_cuda::ranks_on(1));
      table = sequences ? taken_apart(kept().found, 48) : kept().found;
      auto const happened = fake_cuda::happened();
      CHECK(happened.failures.empty());
      if (run > 1) {  // all of it in one form
        CHECK(happened.ragged_attentions == (sequences && !graphs ? happened.attentions : 0U));
        // the sums of a gradient lie in rows as wide as its own, which no plan of memory knows of
        if (!sequences) CHECK(fake_cuda::scratch_taken(1) == got.scratch);
      }
      CHECK(std::abs(got.loss - exact.loss) <=
            std::abs(of_host.loss - exact.loss) + 0x1p-9 * exact.loss);
      for (auto const& at : exact.gradients) {
        CAPTURE(at.first);
        double const one = test::distance(of_host.gradients.at(at.first), at.second);
        CHECK(one > 0x1p-12);  // bf16 it is
        CHECK(test::distance(got.gradients.at(at.first), at.second) <= 2 * one);
      }
    }
  }
}

}  // namespace fake_tuned_training_test
