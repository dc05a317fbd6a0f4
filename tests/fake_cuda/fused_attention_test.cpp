// Attention in bf16 by cuDNN's graphs, which the fake cuDNN computes: alone, compared with fp64,
// and in trainings of MPT, whose distance from fp64 is compared with that of the host in bf16.
//
// The graphs round the weights of keys and the gradients of scores to bf16 before they multiply by
// them; the host's attention does not. With u = 2^-9 each rounding adds u²/3 of a term's square to
// the variance of a sum. Rounding the other factor of each term (a value, a query or a gradient of
// a result) adds as much, on the host as well. Therefore the root mean square distance of a
// training's gradients from fp64 grows by less than √2; the tests allow 2, which a wrong result
// exceeds by far. In a ring the result of a part is rounded again, and so are its gradients
// before they are added: the distance grows by less than 2, and the tests allow 2√2.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <parallel/conformance/values.hpp>
#include <parallel/ops/attention/extend_attention.hpp>
#include <parallel/ops/cuda/attention/document_tables.hpp>
#include <parallel/ops/cuda/attention/fused_attention.hpp>
#include <parallel/ops/cuda/cudnn/attention_call.hpp>
#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_cuda/trained_model.hpp"
#include "parallel/ops/attention_problem.hpp"
#include "support/model_comparison.hpp"

namespace fake_fused_attention_test {

using parallel::bf16;
using parallel::index;
using parallel::cuda::device;
using parallel::cuda::stream;
namespace ops = parallel::ops;
using attention_test::sizes;
using attention_test::variant;

/// An attention problem in bf16 in the memory of a fake GPU; run() copies the results to the host.
struct gpu_attention {
  attention_test::problem<bf16> host;
  device gpu = fake_cuda::current_gpu();
  parallel::buffer<bf16> inputs, gradients, dout, out;
  parallel::buffer<float> log_sums;
  parallel::buffer<std::int32_t> documents;

  index document_count = 0;  // 0: not known

  gpu_attention(sizes size, variant form)
      : gpu_attention(attention_test::problem<bf16>(size, form)) {}
  explicit gpu_attention(attention_test::problem<bf16> problem) : host(std::move(problem)) {
    copy(inputs, host.inputs);
    copy(gradients, host.gradients);
    copy(dout, host.dout);
    copy(out, host.out);
    copy(log_sums, host.log_sums);
    copy(documents, host.documents);
  }

  template <class Stream>
  void enqueue(Stream& s) {
    bf16 const* const in = inputs.data();
    auto options = host.options();
    options.document_begins = {documents.span(), document_count};
    parallel::tensor_view<float, 3> const lse(log_sums.data(),
                                              {host.n.batch, host.n.heads, host.n.queries});
    ops::attention(s, host.result(out.data()), lse, host.part(in, 0), host.part(in, 1),
                   host.part(in, 2), options);
    bf16* const d = gradients.data();
    bf16 const* const from = dout.data();
    bf16 const* const result = out.data();
    ops::attention_backward(s, ops::attention_backward_arguments<bf16>{.dq = host.part(d, 0),
                                                                       .dk = host.part(d, 1),
                                                                       .dv = host.part(d, 2),
                                                                       .dout = host.result(from),
                                                                       .q = host.part(in, 0),
                                                                       .k = host.part(in, 1),
                                                                       .v = host.part(in, 2),
                                                                       .out = host.result(result),
                                                                       .lse = lse,
                                                                       .options = options});
  }
  void run(stream& s) {
    enqueue(s);
    s.synchronize();
    gpu.download(std::span(host.out), std::span<bf16 const>(out.span()));
    gpu.download(std::span(host.gradients), std::span<bf16 const>(gradients.span()));
    gpu.download(std::span(host.log_sums), std::span<float const>(log_sums.span()));
  }

  /// The sums of enqueue_by_parts, which stay in float until the end, as in the ring.
  struct sums {
    parallel::buffer<float> out, lse, gradients;
  };
  [[nodiscard]] sums allocate_sums() {
    sums allocated{gpu.allocate<float>(host.out.size()), gpu.allocate<float>(host.log_sums.size()),
                   gpu.allocate_zeroed<float>(host.gradients.size())};
    std::vector<float> const nothing(host.log_sums.size(), -std::numeric_limits<float>::infinity());
    gpu.upload(allocated.lse.span(), std::span(nothing));
    return allocated;
  }
  /// Enqueues the same attention in `parts` equal parts of the queries and of the keys. Even parts
  /// of the queries take the earliest keys first, odd ones the latest; some pairs are fully masked.
  template <class Stream>
  void enqueue_by_parts(Stream& s, sums const& to, index parts) {
    index const length = host.n.queries, count = length / parts;
    index const lse_of_part = host.n.batch * host.n.heads * count;
    bf16 const* const in = inputs.data();
    auto const cut = [&](auto view, index i) { return view.slice(i * count, (i + 1) * count); };
    auto const each_pair = [&](auto const& call) {
      for (index q = parts; q-- > 0;)
        for (index turn = 0; turn <= q; ++turn) {
          index const k = q % 2 == 0 ? turn : q - turn;
          auto options = host.options();
          options.positions = {
              .sequence_length = length, .first_query = q * count, .first_key = k * count};
          options.document_begins = documents.span();
          parallel::tensor_view<float, 3> const lse(to.lse.data() + q * lse_of_part,
                                                    {host.n.batch, host.n.heads, count});
          call(q, k, lse, options);
        }
    };
    each_pair([&](index q, index k, auto lse, auto const& options) {
      ops::extend_attention(s, cut(host.result(to.out.data()), q), lse, cut(host.part(in, 0), q),
                            cut(host.part(in, 1), k), cut(host.part(in, 2), k), options);
    });
    ops::cast(s, out.span(), std::span<float const>(to.out.span()));
    bf16 const* const from = dout.data();
    bf16 const* const result = out.data();
    float* const d = to.gradients.data();
    each_pair([&](index q, index k, auto lse, auto const& options) {
      ops::extend_attention_backward(
          s, ops::extend_attention_backward_arguments<bf16>{.dq = cut(host.part(d, 0), q),
                                                            .dk = cut(host.part(d, 1), k),
                                                            .dv = cut(host.part(d, 2), k),
                                                            .dout = cut(host.result(from), q),
                                                            .q = cut(host.part(in, 0), q),
                                                            .k = cut(host.part(in, 1), k),
                                                            .v = cut(host.part(in, 2), k),
                                                            .out = cut(host.result(result), q),
                                                            .lse = lse,
                                                            .options = options});
    });
    ops::cast(s, gradients.span(), std::span<float const>(to.gradients.span()));
  }
  void run_by_parts(stream& s, index parts) {
    auto const to = allocate_sums();
    enqueue_by_parts(s, to, parts);
    s.synchronize();
    gpu.download(std::span(host.out), std::span<bf16 const>(out.span()));
    gpu.download(std::span(host.gradients), std::span<bf16 const>(gradients.span()));
    std::vector<float> part_log_sums(host.log_sums.size());
    gpu.download(std::span(part_log_sums), std::span<float const>(to.lse.span()));
    index const count = host.n.queries / parts;  // [parts, B x H, count] to [B x H, S]
    for (std::size_t i = 0; i < part_log_sums.size(); ++i) {
      auto const element = static_cast<index>(i);
      index const part = element / (host.n.batch * host.n.heads * count);
      index const row = element / count % (host.n.batch * host.n.heads);
      host.log_sums[static_cast<std::size_t>(row * host.n.queries + part * count +
                                             element % count)] = part_log_sums[i];
    }
  }

  /// The same problem, computed in fp64.
  [[nodiscard]] attention_test::problem<double> exact() const {
    attention_test::problem<double> problem(host);
    problem.documents = host.documents;
    parallel::reference::stream r;
    problem.forward(r);
    problem.backward(r);
    return problem;
  }

 private:
  template <class T>
  void copy(parallel::buffer<T>& to, std::vector<T> const& from) {
    to = gpu.allocate<T>(from.size());
    gpu.upload(to.span(), std::span<T const>(from));
  }
};

/// Checks results against fp64, with u = 2^-9. A result is a sum of values by weights that add up
/// to 1: its error is u for the rounding of the weights and u for its own. Logarithms are floats. A
/// gradient is a sum of at most 12 terms; each has an error of u for its rounded factor, of u for
/// `out` in the row's part, and of u for the term itself: no more than 3 * 12 u for terms of the
/// size of the greatest gradient. Merging parts adds u to a result, and u for each part to a
/// gradient.
void check_close(gpu_attention const& got, attention_test::problem<double> const& exact,
                 index parts = 1) {
  using attention_test::greatest;
  using attention_test::worst_difference;
  CHECK(worst_difference(got.host.out, exact.out) <=
        (parts > 1 ? 3 : 2) * 0x1p-9 * greatest(exact.inputs));
  CHECK(worst_difference(got.host.log_sums, exact.log_sums) <= 0x1p-18 * greatest(exact.log_sums));
  CHECK(worst_difference(got.host.gradients, exact.gradients) <=
        static_cast<double>(35 + parts) * 0x1p-9 * greatest(exact.gradients));
}

TEST_CASE("fused attention: every form and its gradient match fp64 and take the planned scratch") {
  for (sizes const& size :
       {sizes{2, 12, 12, 4, 4, 8}, sizes{1, 9, 9, 6, 2, 16}, sizes{2, 5, 5, 3, 1, 8}})
    for (variant const& form : {variant{}, variant{.alibi = true}, variant{.window = 2},
                                variant{.alibi = true, .window = 3, .document = 4}})
      for (bool const deterministic : {false, true}) {
        CAPTURE(form.alibi);
        CAPTURE(form.window);
        CAPTURE(form.document);
        CAPTURE(deterministic);
        fake_cuda::restart({.seed = 7});
        gpu_attention attention(size, form);
        stream s({.deterministic = deterministic});
        attention.run(s);
        CHECK(fake_cuda::history().failures.empty());
        CHECK(fake_cuda::history().attentions == 2);
        CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
        parallel::meta::stream planned({.deterministic = deterministic});
        attention.enqueue(planned);
        CHECK(s.scratch_bytes() == planned.take_scratch());
        check_close(attention, attention.exact());
      }
}

TEST_CASE("fused attention: part by part of the keys, as in a ring, it matches fp64") {
  for (sizes const& size : {sizes{2, 12, 12, 4, 4, 8}, sizes{1, 12, 12, 6, 2, 16}})
    for (variant const& form :
         {variant{}, variant{.alibi = true}, variant{.window = 11},
          variant{.alibi = true, .window = 5}, variant{.window = 2}, variant{.document = 5},
          variant{.alibi = true, .window = 3, .document = 7}})
      for (bool const deterministic : {false, true})
        for (index const parts : {1, 2, 3}) {
          CAPTURE(form.alibi);
          CAPTURE(form.window);
          CAPTURE(deterministic);
          CAPTURE(parts);
          fake_cuda::restart({.seed = 7});
          gpu_attention attention(size, form);
          stream s({.deterministic = deterministic});
          attention.run_by_parts(s, parts);
          CHECK(fake_cuda::history().failures.empty());
          CHECK(fake_cuda::history().attentions == parts * (parts + 1));
          CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
          parallel::meta::stream planned({.deterministic = deterministic});
          attention.enqueue_by_parts(planned, attention.allocate_sums(), parts);
          CHECK(s.scratch_bytes() == planned.take_scratch());
          check_close(attention, attention.exact(), parts);
        }
}

/// A problem in which every sequence consists of documents of these lengths.
gpu_attention packed(sizes size, variant form, std::vector<index> const& lengths) {
  attention_test::problem<bf16> problem(size, form);
  problem.documents.clear();
  for (index b = 0; b < size.batch; ++b)
    for (index begin = 0; index const length : lengths) {
      problem.documents.insert(problem.documents.end(), static_cast<std::size_t>(length),
                               static_cast<std::int32_t>(begin));
      begin += length;
    }
  REQUIRE(std::ssize(problem.documents) == size.batch * size.keys);
  gpu_attention out(std::move(problem));
  out.document_count = size.batch * std::ssize(lengths);
  return out;
}

struct document_case {
  sizes size;
  std::vector<index> lengths;
  bool as_sequences = true;  // whether the documents are computed as separate sequences
};
std::vector<document_case> document_cases() {
  return {{{2, 32, 32, 4, 4, 16}, {7, 1, 23, 1}},           // the largest possible number
          {{2, 32, 32, 4, 2, 16}, {31, 1}},                 // key heads are shared
          {{2, 32, 32, 2, 1, 32}, {32}},                    // each sequence is one document
          {{1, 33, 33, 2, 2, 16}, {5, 9, 1, 18}},           // odd sizes
          {{1, 40, 40, 6, 2, 16}, {1, 1, 38}},              // fewer than the tables have room for
          {{2, 32, 32, 2, 2, 16}, {8, 8, 8, 7, 1}, false},  // too many
          {{1, 32, 32, 2, 2, 24}, {20, 12}, false},         // a head_dim that is not supported
          {{1, 7, 7, 2, 2, 16}, {7}}};                      // one document in all
}

/// A table by which both passes of `attention` compute documents as sequences, up to the largest
/// possible number of them.
parallel::cuda::kernel_tuning document_sequence_tables(gpu_attention& attention, stream& s) {
  namespace cudnn = parallel::cuda::cudnn;
  auto options = attention.host.options();
  options.document_begins = attention.documents.span();
  bf16 const* const in = attention.inputs.data();
  bf16 const* const values = attention.out.data();
  auto problem = cudnn::problem_of(attention.host.result(values), attention.host.part(in, 0),
                                   attention.host.part(in, 1), attention.host.part(in, 2), options);
  problem.max_documents = parallel::cuda::max_documents(problem.batch * problem.sequence);
  auto tables = tuned_kernels(s);
  tables.attention.set(problem, 0);
  problem.backward = true;
  problem.dq = problem.q;
  problem.dk = problem.k;
  problem.dv = problem.v;
  problem.dout = problem.out;
  tables.attention.set(problem, 0);
  return tables;
}

TEST_CASE("fused attention: documents as separate sequences match fp64") {
  for (document_case const& example : document_cases())
    for (variant const& form : {variant{}, variant{.alibi = true}, variant{.window = 2},
                                variant{.alibi = true, .window = 6}})
      for (bool const deterministic : {false, true}) {
        CAPTURE(example.size.keys);
        CAPTURE(example.lengths.size());
        CAPTURE(form.alibi);
        CAPTURE(form.window);
        CAPTURE(deterministic);
        fake_cuda::restart({.seed = 7});
        auto attention = packed(example.size, form, example.lengths);
        stream s({.deterministic = deterministic});
        use_kernels(s, document_sequence_tables(attention, s));
        attention.run(s);
        auto const history = fake_cuda::history();
        CHECK(history.failures.empty());
        CHECK(history.attentions == 2);
        // a deterministic gradient would need S x S numbers for each document
        CHECK(history.ragged_attentions == (!example.as_sequences ? 0U : deterministic ? 1U : 2U));
        CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
        parallel::meta::stream planned({.deterministic = deterministic});
        attention.enqueue(planned);
        // the plan of memory does not know that a gradient's sums have rows as wide as the
        // gradient's
        auto const bytes = planned.take_scratch();
        CHECK((example.as_sequences && !deterministic ? s.scratch_bytes() > bytes
                                                      : s.scratch_bytes() == bytes));
        check_close(attention, attention.exact());
      }
}

/// A graph in which the scratch tensor number `owner` has a table of offsets of its own, with its
/// rows one after another.
struct graph_with_own_offsets : parallel::cuda::cudnn::graph {
  std::int64_t owner;

  explicit graph_with_own_offsets(std::int64_t uid) : owner(uid) {}
  tensor ragged(tensor offsets, std::int64_t uid, cudnnDataType_t type,
                parallel::cuda::cudnn::sizes extents, parallel::cuda::cudnn::sizes strides) {
    namespace cudnn = parallel::cuda::cudnn;
    if (uid == owner) {
      offsets = memory(cudnn::attention_uid::offsets_of(uid), CUDNN_DATA_INT64,
                       {extents[0] + 1, 1, 1, 1}, {1, 1, 1, 1});
      strides = {extents[2] * extents[1] * extents[3], extents[3], extents[1] * extents[3], 1};
    }
    return graph::ragged(offsets, uid, type, extents, strides);
  }
};

TEST_CASE(
    "fake cuDNN: scratch of documents as sequences must have the offsets of NVIDIA's graphs") {
  namespace cudnn = parallel::cuda::cudnn;
  namespace uid = cudnn::attention_uid;
  fake_cuda::restart();
  cudnnHandle_t handle = nullptr;
  REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  parallel::cuda::attention_problem problem;
  problem.batch = 2;
  problem.sequence = 32;
  problem.heads = 4;
  problem.key_heads = 2;
  problem.head_dim = 16;
  problem.documents = problem.backward = true;
  problem.q = problem.k = problem.v = {32 * 128, 128};
  problem.dq = problem.dk = problem.dv = problem.q;
  problem.out = problem.dout = {32 * 64, 64};
  problem.max_documents = 8;
  auto const refusal = [&](std::int64_t owner) {
    return parallel::conformance::message_of([&] {
      graph_with_own_offsets g(owner);
      build_attention_backward(g, problem);
      static_cast<void>(g.operations(handle));
    });
  };
  CHECK(refusal(0) == "nothing was thrown");
  char const* const shared_keys_message =
      "every head's ragged gradients of shared keys have not the table";
  for (auto const& [scratch, reason] :
       {std::pair{uid::dq_sum, "the sums of a ragged gradient of queries are neither dense"},
        {uid::dk_per_head, shared_keys_message},
        {uid::dv_per_head, shared_keys_message},
        {uid::row_dots,
         "scratch of a ragged graph has a table of offsets that no input or result has"}})
    CHECK(refusal(scratch).find(reason) != std::string::npos);
  CHECK(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
}

TEST_CASE("fused attention: documents are sequences only where a table says so, never by tuning") {
  fake_cuda::restart();
  auto one = packed({1, 32, 32, 2, 2, 16}, {.alibi = true}, {7, 1, 24});
  stream s;
  s.reserve_scratch(std::size_t{1} << 20);
  one.run(s);
  tune_kernels(s, true);
  one.run(s);
  tune_kernels(s, false);
  one.run(s);
  CHECK(fake_cuda::history().attentions > 6);  // tuning timed the plans with a mask
  CHECK(fake_cuda::history().ragged_attentions == 0);
  auto const tables = tuned_kernels(s);
  for (auto const& entry : tables.attention.entries()) CHECK(entry.first.max_documents == 0);
  use_kernels(s, document_sequence_tables(one, s));
  one.run(s);
  CHECK(fake_cuda::history().ragged_attentions == 2);
  check_close(one, one.exact());
}

TEST_CASE("fused attention: a plan for n documents as sequences serves up to n documents") {
  sizes const size{1, 32, 32, 2, 1, 16};
  fake_cuda::restart();
  auto four = packed(size, {}, {5, 10, 15, 2});
  stream s;
  use_kernels(s, document_sequence_tables(four, s));
  four.run(s);
  CHECK(fake_cuda::history().ragged_attentions == 2);
  for (auto const& example :
       {std::pair{std::vector<index>{32}, true}, {{1, 30, 1}, true}, {{4, 4, 4, 4, 16}, false}}) {
    CAPTURE(example.first.size());
    auto one = packed(size, {}, example.first);
    auto const before_run = fake_cuda::history();
    one.run(s);
    auto const after_run = fake_cuda::history();
    CHECK(after_run.failures.empty());
    CHECK((after_run.ragged_attentions > before_run.ragged_attentions) == example.second);
    check_close(one, one.exact());
  }
}

TEST_CASE("fused attention: an engine that cannot be built or run gives way to cuDNN's next one") {
  sizes const size{1, 12, 12, 2, 2, 64};  // sums of 8 products of bf16 are exact in any order
  std::vector<std::vector<float>> found;
  for (char const* const failing : {"", "cudnnBackendFinalize of a plan", "cudnnBackendExecute"}) {
    CAPTURE(failing);
    fake_cuda::restart();
    gpu_attention one(size, {});
    stream s;
    fake_cuda::fail_next(failing);
    one.run(s);
    CHECK(fake_cuda::history().attentions == 2);
    CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
    check_close(one, one.exact());
    found.push_back(one.host.log_sums);
  }
  CHECK(found[1] == found[2]);
  CHECK(found[0] != found[1]);  // the second engine adds in another order
}

TEST_CASE("fused attention: without memory for its scratch the plain kernels take over") {
  sizes const size{1, 12, 12, 2, 2, 64};
  std::size_t const rows = 2 * 12 * sizeof(float);  // scratch of the plain kernels
  fake_cuda::restart({.memory = std::size_t{1} << 20});
  gpu_attention one(size, {});
  auto const rest = one.gpu.allocate<std::byte>(one.gpu.available_bytes() - 1024);
  stream s;
  s.reserve_scratch(rows);
  one.run(s);
  CHECK(fake_cuda::history().failures.empty());
  CHECK(fake_cuda::history().attentions == 1);  // the forward pass needs no scratch
  CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons ==
        std::set<std::string_view>{"cuDNN has no kernel that runs it"});
  CHECK(s.scratch_bytes() == rows);
  check_close(one, one.exact());
}

/// The engine numbers in the stream's table, forward first.
std::vector<int> plans_of(stream& s) {
  std::vector<int> out;
  auto const tables = tuned_kernels(s);
  for (auto const& [problem, plan] : tables.attention.entries()) out.push_back(plan);
  return out;
}

constexpr sizes tuned_size{1, 12, 12, 2, 2, 64};  // large enough that the engines' bits differ

TEST_CASE("attention tuning: the fastest plan that fits the reserved scratch is chosen") {
  using fake_cuda::engine;
  struct machine {
    std::array<engine, 3> engines;
    int chosen;
  };
  engine const fast{}, slow{.microseconds = 1'000'000}, slower{.microseconds = 2'000'000};
  engine const broken{.runs = false}, greedy{.workspace = std::size_t{1} << 30};
  for (machine const& one : {machine{{slow, fast, slower}, 1}, machine{{slower, slow, fast}, 2},
                             machine{{fast, slow, slow}, 0}, machine{{slow, broken, fast}, 2},
                             machine{{broken, slower, fast}, 2}, machine{{slow, greedy, slower}, 0},
                             machine{{slow, broken, broken}, 0}}) {
    CAPTURE(one.chosen);
    fake_cuda::restart({.engines = one.engines});
    gpu_attention attention(tuned_size, {});
    stream s;
    s.reserve_scratch(std::size_t{1} << 20);
    tune_kernels(s, true);
    attention.run(s);
    CHECK(plans_of(s) == std::vector(2, one.chosen));
    CHECK(s.scratch_bytes() == std::size_t{1} << 20);
    tune_kernels(s, false);
    auto const attentions_before = fake_cuda::history().attentions;
    attention.run(s);
    CHECK(fake_cuda::history().attentions == attentions_before + 2);  // nothing is timed again
    CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
    check_close(attention, attention.exact());
  }
}

TEST_CASE("attention tuning: nothing is timed inside a graph") {
  fake_cuda::restart({.engines = {fake_cuda::engine{.microseconds = 1'000'000}}});
  gpu_attention attention(tuned_size, {});
  stream s({.graphs = true});
  s.reserve_scratch(std::size_t{1} << 20);
  tune_kernels(s, true);
  parallel::as_graph(s, {}, [] {});
  parallel::as_graph(s, {}, [&] { attention.enqueue(s); });
  CHECK(plans_of(s).empty());
  attention.run(s);
  CHECK(plans_of(s).size() == 2);
  CHECK(fake_cuda::history().failures.empty());
}

TEST_CASE("attention tuning: a saved table decides from the first call on, also on a slower plan") {
  std::vector<float> sums[3];
  for (int plan = 0; plan < 3; ++plan) {
    CAPTURE(plan);
    std::array<fake_cuda::engine, 3> engines;
    engines[static_cast<std::size_t>((plan + 1) % 3)].microseconds = 1'000'000;
    engines[static_cast<std::size_t>((plan + 2) % 3)].microseconds = 1'000'000;
    fake_cuda::restart({.engines = engines});
    std::string saved;
    {
      gpu_attention attention(tuned_size, {});
      stream s;
      tune_kernels(s, true);
      attention.run(s);
      tune_kernels(s, false);
      attention.run(s);
      CHECK(plans_of(s) == std::vector(2, plan));
      sums[plan] = attention.host.log_sums;
      saved = to_text(tuned_kernels(s));
      use_kernels(s, parallel::cuda::kernel_tuning::parse(saved, "itself"));
      attention.run(s);
      CHECK(attention.host.log_sums == sums[plan]);
    }
    fake_cuda::restart();
    gpu_attention attention(tuned_size, {});
    stream s;
    attention.run(s);  // the first guess, which `use_kernels` forgets
    use_kernels(s, parallel::cuda::kernel_tuning::parse(saved, "a run's"));
    tune_kernels(s, true);  // nothing is left to time
    auto const attentions_before = fake_cuda::history().attentions;
    attention.run(s);
    CHECK(fake_cuda::history().attentions == attentions_before + 2);
    CHECK(attention.host.log_sums == sums[plan]);
  }
  CHECK(sums[0] != sums[1]);
  CHECK(sums[1] != sums[2]);
}

TEST_CASE("attention tuning: a saved plan that does not run or is of another library is refused") {
  fake_cuda::restart({.engines = {fake_cuda::engine{}, fake_cuda::engine{.runs = false}}});
  gpu_attention attention(tuned_size, {});
  stream first;
  tune_kernels(first, true);
  attention.run(first);
  for (int const plan : {1, 7}) {
    auto tables = tuned_kernels(first);
    auto const problem = tables.attention.entries().begin()->first;
    tables.attention.set(problem, plan);
    stream s;
    use_kernels(s, tables);
    CHECK_THROWS_WITH_AS(attention.run(s),
                         doctest::Contains(parallel::concat("cuDNN does not run its plan ", plan,
                                                            " of attention over 12 positions by 2 "
                                                            "heads; tune again")
                                               .c_str()),
                         parallel::error);
  }
  auto tables = tuned_kernels(first);
  tables.attention = parallel::cuda::attention_tuning("cuDNN 1 on something");
  stream s;
  CHECK_THROWS_WITH_AS(use_kernels(s, tables),
                       doctest::Contains("attention tuning: made for 'cuDNN 1 on something', but "),
                       parallel::error);
}

mpt::model_config model(bool with_alibi) {
  mpt::model_config m;
  m.d_model = 32;
  m.n_heads = 4;
  m.n_layers = 2;
  m.vocab_size = 18;
  m.max_seq_len = 12;
  m.expansion_ratio = 2;
  m = test::model_form(m, with_alibi);
  return m;
}

/// Checks a training against fp64 and the host; returns its number of calls of fused attention.
std::int64_t check_training(mpt::model_config const& m, test::model_layout const& layout,
                            parallel::cuda::stream_options const& streams, int gpus) {
  std::int64_t calls = 0;
  auto const exact = test::run_model<double>(m, layout);
  auto const host_outcome = test::run_model<bf16>(m, layout);
  std::vector<test::model_outcome> outcomes;
  for (std::uint64_t const seed : {1, 2}) {
    CAPTURE(seed);
    fake_cuda::restart({.devices = gpus, .seed = seed});
    auto options = streams;
    outcomes.push_back(test::run_model<bf16>(
        m, layout, [&] { return fake_cuda::current_gpu(options); }, fake_cuda::ranks_on(gpus)));
    auto const history = fake_cuda::history();
    CHECK(history.failures.empty());
    calls = history.attentions;
    CHECK(calls > 0);
    CHECK(fake_cuda::peak_scratch(gpus) == outcomes.back().scratch);
  }
  auto const& got = outcomes.front();
  CHECK(got.gradients == outcomes.back().gradients);
  CHECK(got.parameters == outcomes.back().parameters);
  CHECK(got.tokens == exact.tokens);
  CHECK(std::abs(got.loss - exact.loss) <=
        std::abs(host_outcome.loss - exact.loss) + 0x1p-9 * exact.loss);
  for (auto const& entry : exact.gradients) {
    auto const& [name, gradient] = entry;
    CAPTURE(entry.first);
    double const host_distance = test::distance(host_outcome.gradients.at(name), gradient);
    CHECK(host_distance > 0x1p-12);  // the values truly are in bf16
    CHECK(test::distance(got.gradients.at(name), gradient) <=
          (layout.context > 1 ? 2 * std::sqrt(2.0) : 2.0) * host_distance);
  }
  return calls;
}

TEST_CASE("fused attention: MPT trains as close to fp64 as on the host in bf16") {
  auto const calls = check_training(model(false), {}, {}, 1);
  CHECK(check_training(model(true), {}, {.deterministic = true}, 1) == calls);
  // Each chunk of queries meets the keys of its own chunk (4 pairs) and of all earlier ones (6
  // pairs).
  for (bool const with_alibi : {false, true})
    CHECK(check_training(model(with_alibi), {.context = 2}, {}, 2) == 10 * calls);
  auto m = model(true);
  m.attn.sliding_window_size = 4;  // the window begins one or two parts earlier
  CHECK(check_training(m, {.context = 2}, {}, 2) > 4 * calls);
  check_training(
      model(true),
      {.replicate = 2, .level = parallel::zero::level::parameters, .shard = 2, .microbatch = 1},
      {.graphs = true}, 2);
}

}  // namespace fake_fused_attention_test
