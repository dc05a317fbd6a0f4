// A training of MPT in bf16 with tuned attention: the saved table decides its bits, also on a
// machine where other plans are the fastest.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>

#include <parallel/ops/cuda/attention/document_tables.hpp>
#include <parallel/ops/cuda/tuning.hpp>

#include "fake_cuda/ranks.hpp"
#include "support/model_comparison.hpp"
#include "support/model_form.hpp"
#include "support/model_run.hpp"

namespace fake_tuned_training_test {

using parallel::bf16;
using parallel::cuda::kernel_tuning;

/// The table that streams begin with, and the table of the last stream when it ends.
struct tables {
  std::string initial, last;
};
inline tables& stream_tables() {
  static tables one;
  return one;
}

/// A stream that uses the initial table, or tunes if there is none.
class tuned_stream : public parallel::cuda::stream {
 public:
  explicit tuned_stream(parallel::cuda::stream_options options) : stream(options) {
    if (stream_tables().initial.empty())
      tune_kernels(base(), true);
    else
      use_kernels(base(), kernel_tuning::parse(stream_tables().initial, "a run's"));
  }
  ~tuned_stream() { stream_tables().last = to_text(tuned_kernels(base())); }

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

/// Trains one step on a machine with these engines; `initial`: a table, or empty.
test::model_outcome train(std::array<fake_cuda::engine, 3> const& engines, std::uint64_t seed,
                          std::string const& initial) {
  mpt::model_config m;
  m.d_model = 128;  // a head's sums have 64 products, so that the engines' bits differ
  m.n_heads = 2;
  m.n_layers = 2;
  m.vocab_size = 18;
  m.max_seq_len = 8;
  m.expansion_ratio = 1;
  fake_cuda::restart({.engines = engines, .seed = seed});
  stream_tables() = {.initial = initial, .last = {}};
  auto out = test::run_model<bf16>(
      test::model_form(m, true), {},
      [] { return tuned_device({.device = 0, .deterministic = true}); }, fake_cuda::ranks_on(1));
  CHECK(fake_cuda::history().failures.empty());
  CHECK(fake_cuda::history().attentions > 0);
  return out;
}

TEST_CASE("tuned training: a resumed run has the bits of the saved plans, whichever is fastest") {
  using fake_cuda::engine;
  engine const fast{}, slow{.microseconds = 1'000'000};
  static_cast<void>(train({slow, fast, slow}, 0, {}));
  auto const text = stream_tables().last;
  auto table = kernel_tuning::parse(text, "the first run's");
  REQUIRE(table.attention.entries().size() > 1);
  for (auto const& [problem, plan] : table.attention.entries()) {
    CHECK(problem.max_documents == 0);  // tuning never takes documents as sequences
    CHECK(plan == 1);
  }

  auto const resumed = train({fast, slow, slow}, 1, text);
  CHECK(stream_tables().last == text);
  auto const repeated = train({slow, slow, fast}, 2, text);
  CHECK(repeated.loss == resumed.loss);
  CHECK(repeated.gradients == resumed.gradients);
  CHECK(repeated.parameters == resumed.parameters);

  auto const entries = table.attention.entries();
  for (auto const& [problem, plan] : entries) table.attention.set(problem, 2);
  auto const other = train({fast, fast, fast}, 1, to_text(table));
  CHECK(other.gradients != resumed.gradients);
}

/// The table, with entries that compute documents as sequences instead of a mask, up to the largest
/// possible number of documents in sequences of `length` tokens.
std::string with_document_sequences(std::string const& text, parallel::index length) {
  auto tables = kernel_tuning::parse(text, "a run's");
  auto const timed = tables.attention.entries();
  for (auto const& entry : timed) {
    auto problem = entry.first;
    problem.max_documents = parallel::cuda::max_documents(problem.batch * length);
    if (problem.documents) tables.attention.set(problem, 0);
  }
  return to_text(tables);
}

TEST_CASE("tuned training: documents as a mask and as sequences are as close to fp64 as the host") {
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
    auto const host_outcome = test::run_model<bf16>(m, {});
    std::string table;
    for (int const run : {1, 2, 3}) {  // 1 tunes; 2 uses the table; 3 uses it in graphs
      CAPTURE(run);
      bool const graphs = run == 3;
      fake_cuda::restart({.seed = 3});
      stream_tables() = {.initial = table, .last = {}};
      auto const got = test::run_model<bf16>(
          m, {}, [&] { return tuned_device({.device = 0, .graphs = graphs}); },
          fake_cuda::ranks_on(1));
      table = sequences ? with_document_sequences(stream_tables().last, 48) : stream_tables().last;
      auto const history = fake_cuda::history();
      CHECK(history.failures.empty());
      if (run > 1) {  // all attention in the same form
        CHECK(history.ragged_attentions == (sequences && !graphs ? history.attentions : 0U));
        // the plan of memory does not know that a gradient's sums have rows as wide as the
        // gradient's
        if (!sequences) CHECK(fake_cuda::peak_scratch(1) == got.scratch);
      }
      CHECK(std::abs(got.loss - exact.loss) <=
            std::abs(host_outcome.loss - exact.loss) + 0x1p-9 * exact.loss);
      for (auto const& entry : exact.gradients) {
        CAPTURE(entry.first);
        double const host_distance =
            test::distance(host_outcome.gradients.at(entry.first), entry.second);
        CHECK(host_distance > 0x1p-12);  // the values truly are in bf16
        CHECK(test::distance(got.gradients.at(entry.first), entry.second) <= 2 * host_distance);
      }
    }
  }
}

}  // namespace fake_tuned_training_test
