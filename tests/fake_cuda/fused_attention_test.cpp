// Attention in bf16 by cuDNN's graphs, which the fake cuDNN computes: alone, against fp64, and in
// trainings of MPT, which come as close to fp64 as the host's in bf16 do.
//
// The graphs round the weights of keys and the gradients of scores to bf16 before they multiply by
// them, which the host's attention does not. With u = 2^-9 each rounding adds u²/3 of a term's
// square to the variance of a sum: no more than rounding the other factor of each term, a value, a
// query or a gradient of a result, has put there on the host as well. So of a training's gradients
// the root mean square distance from fp64 grows by less than √2; what is wrong passes 2 by far.
// In a ring a part's result is rounded once more, and so are its gradients before they are added:
// by less than 2, where what is wrong passes 2√2.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <parallel/conformance/values.hpp>
#include <parallel/ops/cuda/cudnn/attention_call.hpp>
#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/cuda/document_tables.hpp>
#include <parallel/ops/cuda/fused_attention.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/extend_attention.hpp>
#include <parallel/ops/meta.hpp>
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

/// A problem of bf16 in the memory of a fake GPU; run() brings its results back.
struct on_gpu {
  attention_test::problem<bf16> here;
  device gpu = fake_cuda::current_gpu();
  parallel::buffer<bf16> inputs, gradients, dout, out;
  parallel::buffer<float> log_sums;
  parallel::buffer<std::int32_t> documents;

  index counted = 0;  // documents, or 0

  on_gpu(sizes size, variant what) : on_gpu(attention_test::problem<bf16>(size, what)) {}
  explicit on_gpu(attention_test::problem<bf16> made) : here(std::move(made)) {
    copy(inputs, here.inputs);
    copy(gradients, here.gradients);
    copy(dout, here.dout);
    copy(out, here.out);
    copy(log_sums, here.log_sums);
    copy(documents, here.documents);
  }

  template <class Stream>
  void enqueue(Stream& s) {
    bf16 const* const in = inputs.data();
    auto options = here.options();
    options.document_begins = {documents.span(), counted};
    parallel::tensor_view<float, 3> const lse(log_sums.data(),
                                              {here.n.batch, here.n.heads, here.n.queries});
    ops::attention(s, here.result(out.data()), lse, here.part(in, 0), here.part(in, 1),
                   here.part(in, 2), options);
    bf16* const d = gradients.data();
    bf16 const* const from = dout.data();
    bf16 const* const made = out.data();
    ops::attention_backward(s, here.part(d, 0), here.part(d, 1), here.part(d, 2), here.result(from),
                            here.part(in, 0), here.part(in, 1), here.part(in, 2), here.result(made),
                            lse, options);
  }
  void run(stream& s) {
    enqueue(s);
    s.synchronize();
    gpu.download(std::span(here.out), std::span<bf16 const>(out.span()));
    gpu.download(std::span(here.gradients), std::span<bf16 const>(gradients.span()));
    gpu.download(std::span(here.log_sums), std::span<float const>(log_sums.span()));
  }

  /// The same by so many equal parts of queries and of keys, for every other part of the queries
  /// with the earliest keys first, of which some see nothing. Sums are of floats until the end, as
  /// in the ring.
  struct sums {
    parallel::buffer<float> out, lse, gradients;
  };
  [[nodiscard]] sums room() {
    sums made{gpu.allocate<float>(here.out.size()), gpu.allocate<float>(here.log_sums.size()),
              gpu.allocate_zeroed<float>(here.gradients.size())};
    std::vector<float> const nothing(here.log_sums.size(), -std::numeric_limits<float>::infinity());
    gpu.upload(made.lse.span(), std::span(nothing));
    return made;
  }
  template <class Stream>
  void enqueue_by_parts(Stream& s, sums const& to, index parts) {
    index const whole = here.n.queries, count = whole / parts;
    index const lse_of_part = here.n.batch * here.n.heads * count;
    bf16 const* const in = inputs.data();
    auto const cut = [&](auto view, index i) { return view.slice(i * count, (i + 1) * count); };
    auto const each_pair = [&](auto const& call) {
      for (index q = parts; q-- > 0;)
        for (index at = 0; at <= q; ++at) {
          index const k = q % 2 == 0 ? at : q - at;
          auto options = here.options();
          options.positions = {
              .sequence_length = whole, .first_query = q * count, .first_key = k * count};
          options.document_begins = documents.span();
          parallel::tensor_view<float, 3> const lse(to.lse.data() + q * lse_of_part,
                                                    {here.n.batch, here.n.heads, count});
          call(q, k, lse, options);
        }
    };
    each_pair([&](index q, index k, auto lse, auto const& options) {
      ops::extend_attention(s, cut(here.result(to.out.data()), q), lse, cut(here.part(in, 0), q),
                            cut(here.part(in, 1), k), cut(here.part(in, 2), k), options);
    });
    ops::cast(s, out.span(), std::span<float const>(to.out.span()));
    bf16 const* const from = dout.data();
    bf16 const* const made = out.data();
    float* const d = to.gradients.data();
    each_pair([&](index q, index k, auto lse, auto const& options) {
      ops::extend_attention_backward(
          s, cut(here.part(d, 0), q), cut(here.part(d, 1), k), cut(here.part(d, 2), k),
          cut(here.result(from), q), cut(here.part(in, 0), q), cut(here.part(in, 1), k),
          cut(here.part(in, 2), k), cut(here.result(made), q), lse, options);
    });
    ops::cast(s, gradients.span(), std::span<float const>(to.gradients.span()));
  }
  void run_by_parts(stream& s, index parts) {
    auto const to = room();
    enqueue_by_parts(s, to, parts);
    s.synchronize();
    gpu.download(std::span(here.out), std::span<bf16 const>(out.span()));
    gpu.download(std::span(here.gradients), std::span<bf16 const>(gradients.span()));
    std::vector<float> by_part(here.log_sums.size());
    gpu.download(std::span(by_part), std::span<float const>(to.lse.span()));
    index const count = here.n.queries / parts;  // [parts, B x H, count] to [B x H, S]
    for (std::size_t i = 0; i < by_part.size(); ++i) {
      auto const at = static_cast<index>(i);
      index const part = at / (here.n.batch * here.n.heads * count);
      index const row = at / count % (here.n.batch * here.n.heads);
      here.log_sums[static_cast<std::size_t>(row * here.n.queries + part * count + at % count)] =
          by_part[i];
    }
  }

  /// The same numbers in fp64.
  [[nodiscard]] attention_test::problem<double> exact(variant what) const {
    attention_test::problem<double> made(here.n, what);
    made.documents = here.documents;
    std::ranges::transform(here.inputs, made.inputs.begin(),
                           [](bf16 x) { return static_cast<double>(static_cast<float>(x)); });
    std::ranges::transform(here.dout, made.dout.begin(),
                           [](bf16 x) { return static_cast<double>(static_cast<float>(x)); });
    parallel::reference::stream r;
    made.forward(r);
    made.backward(r);
    return made;
  }

 private:
  template <class T>
  void copy(parallel::buffer<T>& to, std::vector<T> const& from) {
    to = gpu.allocate<T>(from.size());
    gpu.upload(to.span(), std::span<T const>(from));
  }
};

/// A result is a sum of values by weights that add up to 1: it is off by u for the weights'
/// rounding and by u for its own. Logarithms are of floats. A gradient is a sum of at most 12
/// terms, which are off by u for what is rounded, by u for `out` in the row's own part, and itself
/// by u: for terms of the size of the greatest gradient no more than 3 * 12 u. What is merged of
/// parts is off by u once more, a gradient for each part.
void check_close(on_gpu const& got, attention_test::problem<double> const& exact, index parts = 1) {
  using attention_test::greatest;
  using attention_test::worst_difference;
  CHECK(worst_difference(got.here.out, exact.out) <=
        (parts > 1 ? 3 : 2) * 0x1p-9 * greatest(exact.inputs));
  CHECK(worst_difference(got.here.log_sums, exact.log_sums) <= 0x1p-18 * greatest(exact.log_sums));
  CHECK(worst_difference(got.here.gradients, exact.gradients) <=
        static_cast<double>(35 + parts) * 0x1p-9 * greatest(exact.gradients));
}

TEST_CASE("fused attention and its gradient, of every form the graphs have, with planned scratch") {
  for (sizes const& size :
       {sizes{2, 12, 12, 4, 4, 8}, sizes{1, 9, 9, 6, 2, 16}, sizes{2, 5, 5, 3, 1, 8}})
    for (variant const& what : {variant{}, variant{.alibi = true}, variant{.window = 2},
                                variant{.alibi = true, .window = 3, .document = 4}})
      for (bool const deterministic : {false, true}) {
        CAPTURE(what.alibi);
        CAPTURE(what.window);
        CAPTURE(what.document);
        CAPTURE(deterministic);
        fake_cuda::restart({.seed = 7});
        on_gpu one(size, what);
        stream s({.deterministic = deterministic});
        one.run(s);
        CHECK(fake_cuda::happened().failures.empty());
        CHECK(fake_cuda::happened().attentions == 2);
        CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
        parallel::meta::stream planned({.deterministic = deterministic});
        one.enqueue(planned);
        CHECK(s.scratch_bytes() == planned.take_scratch());
        check_close(one, one.exact(what));
      }
}

TEST_CASE("fused attention to one part of the keys after another, as in a ring") {
  for (sizes const& size : {sizes{2, 12, 12, 4, 4, 8}, sizes{1, 12, 12, 6, 2, 16}})
    for (variant const& what :
         {variant{}, variant{.alibi = true}, variant{.window = 11},
          variant{.alibi = true, .window = 5}, variant{.window = 2}, variant{.document = 5},
          variant{.alibi = true, .window = 3, .document = 7}})
      for (bool const deterministic : {false, true})
        for (index const parts : {1, 2, 3}) {
          CAPTURE(what.alibi);
          CAPTURE(what.window);
          CAPTURE(deterministic);
          CAPTURE(parts);
          fake_cuda::restart({.seed = 7});
          on_gpu one(size, what);
          stream s({.deterministic = deterministic});
          one.run_by_parts(s, parts);
          CHECK(fake_cuda::happened().failures.empty());
          CHECK(fake_cuda::happened().attentions == parts * (parts + 1));
          CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
          parallel::meta::stream planned({.deterministic = deterministic});
          one.enqueue_by_parts(planned, one.room(), parts);
          CHECK(s.scratch_bytes() == planned.take_scratch());
          check_close(one, one.exact(what), parts);
        }
}

/// A problem with documents of these lengths, in each sequence the same.
on_gpu packed(sizes size, variant what, std::vector<index> const& lengths) {
  attention_test::problem<bf16> made(size, what);
  made.documents.clear();
  for (index b = 0; b < size.batch; ++b)
    for (index begin = 0; index const length : lengths) {
      made.documents.insert(made.documents.end(), static_cast<std::size_t>(length),
                            static_cast<std::int32_t>(begin));
      begin += length;
    }
  REQUIRE(std::ssize(made.documents) == size.batch * size.keys);
  on_gpu out(std::move(made));
  out.counted = size.batch * std::ssize(lengths);
  return out;
}

struct documents {
  sizes size;
  std::vector<index> lengths;
  bool taken = true;  // as sequences of their own
};
std::vector<documents> all_documents() {
  return {{{2, 32, 32, 4, 4, 16}, {7, 1, 23, 1}},           // as many as there may be
          {{2, 32, 32, 4, 2, 16}, {31, 1}},                 // key heads are shared
          {{2, 32, 32, 2, 1, 32}, {32}},                    // each sequence is one
          {{1, 33, 33, 2, 2, 16}, {5, 9, 1, 18}},           // odd everything
          {{1, 40, 40, 6, 2, 16}, {1, 1, 38}},              // fewer than there are tables for
          {{2, 32, 32, 2, 2, 16}, {8, 8, 8, 7, 1}, false},  // too many
          {{1, 32, 32, 2, 2, 24}, {20, 12}, false},         // of a head_dim that is not asked for
          {{1, 7, 7, 2, 2, 16}, {7}}};                      // one document in all
}

/// A table by which both passes of `one` take documents as sequences, for as many as there may be.
parallel::cuda::kernel_tuning taken_apart(on_gpu& one, stream& s) {
  namespace cudnn = parallel::cuda::cudnn;
  auto options = one.here.options();
  options.document_begins = one.documents.span();
  bf16 const* const in = one.inputs.data();
  bf16 const* const values = one.out.data();
  auto problem = cudnn::problem_of(one.here.result(values), one.here.part(in, 0),
                                   one.here.part(in, 1), one.here.part(in, 2), options);
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

TEST_CASE("documents as sequences of their own") {
  for (documents const& given : all_documents())
    for (variant const& what : {variant{}, variant{.alibi = true}, variant{.window = 2},
                                variant{.alibi = true, .window = 6}})
      for (bool const deterministic : {false, true}) {
        CAPTURE(given.size.keys);
        CAPTURE(given.lengths.size());
        CAPTURE(what.alibi);
        CAPTURE(what.window);
        CAPTURE(deterministic);
        fake_cuda::restart({.seed = 7});
        auto one = packed(given.size, what, given.lengths);
        stream s({.deterministic = deterministic});
        use_kernels(s, taken_apart(one, s));
        one.run(s);
        auto const happened = fake_cuda::happened();
        CHECK(happened.failures.empty());
        CHECK(happened.attentions == 2);
        // a deterministic gradient would take S x S numbers for each document
        CHECK(happened.ragged_attentions == (!given.taken ? 0U : deterministic ? 1U : 2U));
        CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
        parallel::meta::stream planned({.deterministic = deterministic});
        one.enqueue(planned);
        // the sums of a gradient lie in rows as wide as its own, which no plan of memory knows of
        auto const bytes = planned.take_scratch();
        CHECK((given.taken && !deterministic ? s.scratch_bytes() > bytes
                                             : s.scratch_bytes() == bytes));
        check_close(one, one.exact(what));
      }
}

/// A graph that has tables of offsets of its own for some scratch, in rows one after another.
struct own_tables : parallel::cuda::cudnn::graph {
  std::int64_t owner;

  explicit own_tables(std::int64_t uid) : owner(uid) {}
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
    "fake cuDNN: scratch of documents as sequences has the tables that NVIDIA's graphs give it") {
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
      own_tables g(owner);
      build_attention_backward(g, problem);
      static_cast<void>(g.operations(handle));
    });
  };
  CHECK(refusal(0) == "nothing was thrown");
  char const* const of_shared_keys =
      "every head's ragged gradients of shared keys have not the table";
  for (auto const& [scratch, why] :
       {std::pair{uid::dq_sum, "the sums of a ragged gradient of queries are neither dense"},
        {uid::dk_per_head, of_shared_keys},
        {uid::dv_per_head, of_shared_keys},
        {uid::row_dots,
         "scratch of a ragged graph has a table of offsets that no input or result has"}})
    CHECK(refusal(scratch).find(why) != std::string::npos);
  CHECK(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
}

TEST_CASE(
    "documents as sequences: neither tuning nor a run takes the form that no table asks for") {
  fake_cuda::restart();
  auto one = packed({1, 32, 32, 2, 2, 16}, {.alibi = true}, {7, 1, 24});
  stream s;
  s.reserve_scratch(std::size_t{1} << 20);
  one.run(s);
  tune_kernels(s, true);
  one.run(s);
  tune_kernels(s, false);
  one.run(s);
  CHECK(fake_cuda::happened().attentions > 6);  // plans of the mask were timed
  CHECK(fake_cuda::happened().ragged_attentions == 0);
  auto const tables = tuned_kernels(s);
  for (auto const& at : tables.attention.entries()) CHECK(at.first.max_documents == 0);
  use_kernels(s, taken_apart(one, s));
  one.run(s);
  CHECK(fake_cuda::happened().ragged_attentions == 2);
  check_close(one, one.exact({.alibi = true}));
}

TEST_CASE("documents as sequences: a plan for so many documents serves fewer, not more") {
  sizes const size{1, 32, 32, 2, 1, 16};
  fake_cuda::restart();
  auto four = packed(size, {}, {5, 10, 15, 2});
  stream s;
  use_kernels(s, taken_apart(four, s));
  four.run(s);
  CHECK(fake_cuda::happened().ragged_attentions == 2);
  for (auto const& at :
       {std::pair{std::vector<index>{32}, true}, {{1, 30, 1}, true}, {{4, 4, 4, 4, 16}, false}}) {
    CAPTURE(at.first.size());
    auto one = packed(size, {}, at.first);
    auto const before = fake_cuda::happened();
    one.run(s);
    auto const after = fake_cuda::happened();
    CHECK(after.failures.empty());
    CHECK((after.ragged_attentions > before.ragged_attentions) == at.second);
    check_close(one, one.exact({}));
  }
}

TEST_CASE("what cuDNN proposes and cannot build or run gives way to its next proposal") {
  sizes const size{1, 12, 12, 2, 2, 64};  // sums of 8 products of bf16 are exact in any order
  std::vector<std::vector<float>> found;
  for (char const* const failing : {"", "cudnnBackendFinalize of a plan", "cudnnBackendExecute"}) {
    CAPTURE(failing);
    fake_cuda::restart();
    on_gpu one(size, {});
    stream s;
    fake_cuda::fail_next(failing);
    one.run(s);
    CHECK(fake_cuda::happened().attentions == 2);
    CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
    check_close(one, one.exact({}));
    found.push_back(one.here.log_sums);
  }
  CHECK(found[1] == found[2]);
  CHECK(found[0] != found[1]);  // the second engine adds in another order
}

TEST_CASE("where there is no memory for the fused kernels' scratch the plain ones take over") {
  sizes const size{1, 12, 12, 2, 2, 64};
  std::size_t const rows = 2 * 12 * sizeof(float);  // the plain ones'
  fake_cuda::restart({.memory = std::size_t{1} << 20});
  on_gpu one(size, {});
  auto const rest = one.gpu.allocate<std::byte>(one.gpu.available_bytes() - 1024);
  stream s;
  s.reserve_scratch(rows);
  one.run(s);
  CHECK(fake_cuda::happened().failures.empty());
  CHECK(fake_cuda::happened().attentions == 1);  // the forward pass needs none
  CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons ==
        std::set<std::string_view>{"cuDNN has no kernel that runs it"});
  CHECK(s.scratch_bytes() == rows);
  check_close(one, one.exact({}));
}

/// Engine numbers that a stream has come to take, forward first.
std::vector<int> plans_of(stream& s) {
  std::vector<int> out;
  auto const tables = tuned_kernels(s);
  for (auto const& [problem, plan] : tables.attention.entries()) out.push_back(plan);
  return out;
}

constexpr sizes tuned_size{1, 12, 12, 2, 2, 64};  // engines find other bits

TEST_CASE("tuning takes the fastest plan of those that run in the scratch there is") {
  using fake_cuda::engine;
  struct machine {
    std::array<engine, 3> engines;
    int taken;
  };
  engine const fast{}, slow{.microseconds = 1'000'000}, slower{.microseconds = 2'000'000};
  engine const broken{.runs = false}, greedy{.workspace = std::size_t{1} << 30};
  for (machine const& one : {machine{{slow, fast, slower}, 1}, machine{{slower, slow, fast}, 2},
                             machine{{fast, slow, slow}, 0}, machine{{slow, broken, fast}, 2},
                             machine{{broken, slower, fast}, 2}, machine{{slow, greedy, slower}, 0},
                             machine{{slow, broken, broken}, 0}}) {
    CAPTURE(one.taken);
    fake_cuda::restart({.engines = one.engines});
    on_gpu here(tuned_size, {});
    stream s;
    s.reserve_scratch(std::size_t{1} << 20);
    tune_kernels(s, true);
    here.run(s);
    CHECK(plans_of(s) == std::vector(2, one.taken));
    CHECK(s.scratch_bytes() == std::size_t{1} << 20);
    tune_kernels(s, false);
    auto const before = fake_cuda::happened().attentions;
    here.run(s);
    CHECK(fake_cuda::happened().attentions == before + 2);  // is not timed again
    CHECK(s.library<parallel::cuda::attention_kernels>().plain_reasons.empty());
    check_close(here, here.exact({}));
  }
}

TEST_CASE("inside a graph nothing is timed") {
  fake_cuda::restart({.engines = {fake_cuda::engine{.microseconds = 1'000'000}}});
  on_gpu here(tuned_size, {});
  stream s({.graphs = true});
  s.reserve_scratch(std::size_t{1} << 20);
  tune_kernels(s, true);
  parallel::as_graph(s, {}, [] {});
  parallel::as_graph(s, {}, [&] { here.enqueue(s); });
  CHECK(plans_of(s).empty());
  here.run(s);
  CHECK(plans_of(s).size() == 2);
  CHECK(fake_cuda::happened().failures.empty());
}

TEST_CASE("what was kept decides from the first call on, whatever is the fastest now") {
  std::vector<float> sums[3];
  for (int plan = 0; plan < 3; ++plan) {
    CAPTURE(plan);
    std::array<fake_cuda::engine, 3> engines;
    engines[static_cast<std::size_t>((plan + 1) % 3)].microseconds = 1'000'000;
    engines[static_cast<std::size_t>((plan + 2) % 3)].microseconds = 1'000'000;
    fake_cuda::restart({.engines = engines});
    std::string kept;
    {
      on_gpu here(tuned_size, {});
      stream s;
      tune_kernels(s, true);
      here.run(s);
      tune_kernels(s, false);
      here.run(s);
      CHECK(plans_of(s) == std::vector(2, plan));
      sums[plan] = here.here.log_sums;
      kept = to_text(tuned_kernels(s));
      use_kernels(s, parallel::cuda::kernel_tuning::parse(kept, "itself"));
      here.run(s);
      CHECK(here.here.log_sums == sums[plan]);
    }
    fake_cuda::restart();
    on_gpu here(tuned_size, {});
    stream s;
    here.run(s);  // the first guess, which `use_kernels` forgets
    use_kernels(s, parallel::cuda::kernel_tuning::parse(kept, "a run's"));
    tune_kernels(s, true);  // nothing is left to time
    auto const before = fake_cuda::happened().attentions;
    here.run(s);
    CHECK(fake_cuda::happened().attentions == before + 2);
    CHECK(here.here.log_sums == sums[plan]);
  }
  CHECK(sums[0] != sums[1]);
  CHECK(sums[1] != sums[2]);
}

TEST_CASE("a plan that was kept and does not run, or is of another library, is refused") {
  fake_cuda::restart({.engines = {fake_cuda::engine{}, fake_cuda::engine{.runs = false}}});
  on_gpu here(tuned_size, {});
  stream first;
  tune_kernels(first, true);
  here.run(first);
  for (int const plan : {1, 7}) {
    auto tables = tuned_kernels(first);
    auto const problem = tables.attention.entries().begin()->first;
    tables.attention.set(problem, plan);
    stream s;
    use_kernels(s, tables);
    CHECK_THROWS_WITH_AS(here.run(s),
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

/// How many calls of fused attention a training took.
std::int64_t check_training(mpt::model_config const& m, test::model_layout const& how,
                            parallel::cuda::stream_options const& streams, int gpus) {
  std::int64_t calls = 0;
  auto const exact = test::run_model<double>(m, how);
  auto const of_host = test::run_model<bf16>(m, how);
  std::vector<test::model_outcome> all;
  for (std::uint64_t const seed : {1, 2}) {
    CAPTURE(seed);
    fake_cuda::restart({.devices = gpus, .seed = seed});
    auto options = streams;
    all.push_back(test::run_model<bf16>(
        m, how, [&] { return fake_cuda::current_gpu(options); }, fake_cuda::ranks_on(gpus)));
    auto const happened = fake_cuda::happened();
    CHECK(happened.failures.empty());
    calls = happened.attentions;
    CHECK(calls > 0);
    CHECK(fake_cuda::scratch_taken(gpus) == all.back().scratch);
  }
  auto const& got = all.front();
  CHECK(got.gradients == all.back().gradients);
  CHECK(got.parameters == all.back().parameters);
  CHECK(got.tokens == exact.tokens);
  CHECK(std::abs(got.loss - exact.loss) <=
        std::abs(of_host.loss - exact.loss) + 0x1p-9 * exact.loss);
  for (auto const& at : exact.gradients) {
    auto const& [name, gradient] = at;
    CAPTURE(at.first);
    double const one = test::distance(of_host.gradients.at(name), gradient);
    CHECK(one > 0x1p-12);  // bf16 it is
    CHECK(test::distance(got.gradients.at(name), gradient) <=
          (how.context > 1 ? 2 * std::sqrt(2.0) : 2.0) * one);
  }
  return calls;
}

TEST_CASE("MPT trains through them, as close to fp64 as the host's bf16") {
  auto const whole = check_training(model(false), {}, {}, 1);
  CHECK(check_training(model(true), {}, {.deterministic = true}, 1) == whole);
  for (bool const with_alibi : {false, true})  // ten pairs of four chunks, of which six stand apart
    CHECK(check_training(model(with_alibi), {.context = 2}, {}, 2) == 10 * whole);
  auto m = model(true);
  m.attn.sliding_window_size = 4;  // begins in the part before, or in the one before that
  CHECK(check_training(m, {.context = 2}, {}, 2) > 4 * whole);
  check_training(
      model(true),
      {.replicate = 2, .level = parallel::zero::level::parameters, .shard = 2, .microbatch = 1},
      {.graphs = true}, 2);
}

}  // namespace fake_fused_attention_test
