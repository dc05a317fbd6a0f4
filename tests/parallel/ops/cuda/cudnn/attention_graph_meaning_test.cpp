// The meaning of the graphs for cuDNN, independent of the device: their expressions, computed
// operation by operation in double, against the reference.
#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <parallel/ops/attention.hpp>
#include <parallel/ops/cuda/attention/attention_path.hpp>
#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/cuda/kernels/attention/attention_parts.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/attention_by_parts.hpp"
#include "support/devices/graph_meaning.hpp"
#include "support/devices/host_block.hpp"

namespace cudnn_attention_meaning_test {

using namespace parallel::cuda::cudnn;
using parallel::index;
using parallel::cuda::attention_problem;
using parallel::cuda::attention_strides;
namespace uid = attention_uid;

namespace meaning = test::graph_meaning;

/// Has the interface of `graph`, but computes each operation immediately. Memory holds doubles,
/// whatever type the graph states.
class computed {
 public:
  struct tensor {
    double* data = nullptr;
    sizes extents{};
    sizes strides{};

    [[nodiscard]] double get(sizes const& i, sizes const& extent_sizes) const {
      return data[meaning::offset(i, extent_sizes, extents, strides)];
    }
    void set(sizes const& i, double value) const {
      data[meaning::offset(i, extents, extents, strides)] = value;
    }
  };

  explicit computed(std::map<std::int64_t, double*> memory) : memory_(std::move(memory)) {}

  tensor memory(std::int64_t id, cudnnDataType_t, sizes extents, sizes strides, std::int64_t = 16) {
    return {memory_.at(id), extents, strides};
  }
  /// The fake cuDNN computes documents as separate sequences (tests/fake_cuda).
  tensor ragged(tensor, std::int64_t, cudnnDataType_t, sizes, sizes) {
    parallel::fail("ragged tensors are not supported here");
  }
  tensor number(std::int64_t id, cudnnDataType_t) {
    return {memory_.at(id), {1, 1, 1, 1}, {1, 1, 1, 1}};
  }
  tensor virtual_tensor(sizes extents, cudnnDataType_t = CUDNN_DATA_FLOAT) {
    auto& elements = elements_.emplace_back(
        static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * extents[3]));
    return {elements.data(), extents, dense(extents)};
  }

  void apply(cudnnPointwiseMode_t mode, tensor x, tensor y) { meaning::apply(mode, x, x, y); }
  void apply(cudnnPointwiseMode_t mode, tensor a, tensor b, tensor y) {
    meaning::apply(mode, a, b, y);
  }
  tensor map(cudnnPointwiseMode_t mode, tensor x) { return map(mode, x, x); }
  tensor map(cudnnPointwiseMode_t mode, tensor a, tensor b, arithmetic = floats) {
    tensor const y = virtual_tensor(a.extents);
    apply(mode, a, b, y);
    return y;
  }
  tensor select(tensor x, tensor otherwise, tensor mask) {
    tensor const y = virtual_tensor(x.extents);
    meaning::select(x, otherwise, mask, y);
    return y;
  }
  tensor positions(tensor x, std::int64_t axis, cudnnDataType_t) {
    tensor const y = virtual_tensor(x.extents);
    meaning::positions(axis, y);
    return y;
  }
  struct true_extents {
    tensor const* rows;
    tensor const* columns;
    tensor const* depth;
  };
  tensor multiply(tensor a, tensor b, tensor c, true_extents const& = {nullptr, nullptr, nullptr}) {
    meaning::multiply<double>(a, b, c);
    return c;
  }
  tensor reduce(cudnnReduceTensorOp_t operator_kind, tensor x, tensor y) {
    meaning::reduce<double>(operator_kind, x, y);
    return y;
  }
  tensor transpose(tensor x, cudnnDataType_t) {
    std::swap(x.extents[2], x.extents[3]);
    std::swap(x.strides[2], x.strides[3]);
    return x;
  }

 private:
  std::map<std::int64_t, double*> memory_;
  std::vector<std::vector<double>> elements_;
};

/// A stream on which operations run at once: cuDNN's graphs compute the parts of attention, and the
/// library's kernels merge them.
struct graph_stream {
  void synchronize() {}
};

template <class Body>
void run_rows(Body const& body) {
  parallel::testing::host_block::run_grid(3, 64, 0, parallel::testing::thread_order::ascending,
                                          body);
}

/// The problem of attention between a part of the queries and a part of the keys, and the memory
/// that its forward and backward graphs read.
struct pair_of_parts {
  template <class Arguments>
  explicit pair_of_parts(Arguments const& a)
      : problem{.batch = a.q.batch,
                .sequence = a.q.sequence,
                .heads = a.q.heads,
                .key_heads = a.k.heads,
                .head_dim = a.q.head_dim,
                .window = a.options.window,
                .queries_after_keys = parallel::cuda::distance(a.options) != 0,
                .alibi = !a.options.alibi_slopes.empty(),
                .documents = !a.options.document_begins.empty(),
                .full_sequence = a.options.positions.sequence_length,
                .q = {a.q.batch_stride, a.q.row_stride},
                .k = {a.k.batch_stride, a.k.row_stride},
                .v = {a.v.batch_stride, a.v.row_stride}},
        slopes(a.options.alibi_slopes.begin(), a.options.alibi_slopes.end()),
        begins(a.options.document_begins.begin(), a.options.document_begins.end()),
        scale(a.options.scale),
        apart(static_cast<double>(parallel::cuda::distance(a.options))),
        first_key(static_cast<double>(a.options.positions.first_key)),
        reach(static_cast<double>(a.options.window) + 1 - apart),
        memory{{uid::q, const_cast<double*>(a.q.data)},
               {uid::k, const_cast<double*>(a.k.data)},
               {uid::v, const_cast<double*>(a.v.data)},
               {uid::slopes, slopes.data()},
               {uid::scale, &scale},
               {uid::masked, &masked},
               {uid::window, &reach},
               {uid::other, &other},
               {uid::begins,
                begins.empty() ? nullptr : begins.data() + a.options.positions.first_query},
               {uid::first_key, &first_key},
               {uid::distance, &apart}} {}

  attention_problem problem;
  std::vector<double> slopes, begins;
  double scale, apart, first_key, reach, masked = -std::numeric_limits<double>::infinity(),
                                         other = -1e9;
  std::map<std::int64_t, double*> memory;
};

/// A contiguous view that owns its memory.
struct dense_rows {
  explicit dense_rows(parallel::ops::heads_view<double const> const& shape)
      : elements(static_cast<std::size_t>(shape.size())),
        view{elements.data(),
             shape.batch,
             shape.sequence,
             shape.heads,
             shape.head_dim,
             shape.sequence * shape.heads * shape.head_dim,
             shape.heads * shape.head_dim} {}
  [[nodiscard]] attention_strides strides() const { return {view.batch_stride, view.row_stride}; }

  std::vector<double> elements;
  parallel::ops::heads_view<double> view;
};

void run_operation(graph_stream&, parallel::ops::extend_attention_arguments<double> const& a) {
  if (parallel::cuda::distance(a.options) < 0) return;  // keys of the future
  pair_of_parts pair(a);
  dense_rows out(a.q);
  std::vector<double> lse(a.lse.size());
  pair.problem.out = out.strides();
  pair.memory.insert({{uid::out, out.elements.data()}, {uid::lse, lse.data()}});
  computed g(pair.memory);
  build_attention_forward(g, pair.problem);
  run_rows(parallel::cuda::kernels::merge_attention_part<double>{a.out, a.lse.data(), out.view,
                                                                 lse.data()});
}

void run_operation(graph_stream&,
                   parallel::ops::extend_attention_backward_arguments<double> const& a) {
  if (parallel::cuda::distance(a.options) < 0) return;
  pair_of_parts pair(a);
  dense_rows dq(a.q), dk(a.k), dv(a.v), sums(a.q);
  std::vector<double> row_dots(a.lse.size());
  double one = 1.0;
  pair.problem.out = {a.out.batch_stride, a.out.row_stride};
  pair.problem.dout = {a.dout.batch_stride, a.dout.row_stride};
  pair.problem.dq = dq.strides();
  pair.problem.dk = pair.problem.dv = dk.strides();
  pair.memory.insert({{uid::out, const_cast<double*>(a.out.data)},
                      {uid::dout, const_cast<double*>(a.dout.data)},
                      {uid::lse, const_cast<double*>(a.lse.data())},
                      {uid::dq, dq.elements.data()},
                      {uid::dk, dk.elements.data()},
                      {uid::dv, dv.elements.data()},
                      {uid::dq_sum, sums.elements.data()},
                      {uid::row_dots, row_dots.data()},
                      {uid::one, &one}});
  computed g(pair.memory);
  build_attention_backward(g, pair.problem);
  using add = parallel::cuda::kernels::add_attention_part<double>;
  run_rows(add{a.dq, dq.view});
  run_rows(add{a.dk, dk.view});
  run_rows(add{a.dv, dv.view});
}

TEST_CASE("cuDNN attention graphs: causal attention and its gradient equal the reference") {
  for (auto const& size :
       {attention_test::sizes{2, 7, 7, 4, 4, 8}, attention_test::sizes{1, 9, 9, 6, 2, 5},
        attention_test::sizes{2, 5, 5, 3, 1, 4}})
    for (bool const alibi : {false, true})
      for (index const window : {-1, 1, 3})
        for (auto const& [document, deterministic] :
             {std::pair{index{0}, false}, {0, true}, {1, false}, {4, false}, {4, true}}) {
          attention_test::problem<double> expected(
              size, {.alibi = alibi, .window = window, .document = document});
          CAPTURE(expected.text());
          auto got = expected;
          parallel::reference::stream r;
          expected.forward(r);
          expected.backward(r);

          auto const strides = [](auto const& view) {
            return attention_strides{view.batch_stride, view.row_stride};
          };
          attention_problem graph_problem;
          graph_problem.batch = size.batch;
          graph_problem.sequence = size.keys;
          graph_problem.heads = size.heads;
          graph_problem.key_heads = size.key_heads;
          graph_problem.head_dim = size.width;
          graph_problem.alibi = alibi;
          graph_problem.documents = document > 0;
          graph_problem.window = window;
          graph_problem.deterministic = deterministic;
          graph_problem.q = graph_problem.k = graph_problem.v =
              strides(got.part(got.inputs.data(), 0));
          graph_problem.dq = graph_problem.dk = graph_problem.dv = graph_problem.q;
          graph_problem.out = graph_problem.dout = strides(got.result(got.out.data()));

          double scale = got.options().scale;
          double masked = -std::numeric_limits<double>::infinity();
          double reach = static_cast<double>(window + 1);
          double one = 1.0;
          double other = -1e9;
          std::vector<double> begins(got.documents.begin(), got.documents.end());
          std::vector<double> slopes(got.slopes.begin(), got.slopes.end());
          std::vector<double> sums(got.out.size());
          std::vector<double> row_dots(got.log_sums.size());
          computed g({{uid::q, got.part(got.inputs.data(), 0).data},
                      {uid::k, got.part(got.inputs.data(), 1).data},
                      {uid::v, got.part(got.inputs.data(), 2).data},
                      {uid::out, got.out.data()},
                      {uid::lse, got.log_sums.data()},
                      {uid::dout, got.dout.data()},
                      {uid::dq, got.part(got.gradients.data(), 0).data},
                      {uid::dk, got.part(got.gradients.data(), 1).data},
                      {uid::dv, got.part(got.gradients.data(), 2).data},
                      {uid::slopes, slopes.data()},
                      {uid::scale, &scale},
                      {uid::masked, &masked},
                      {uid::window, &reach},
                      {uid::one, &one},
                      {uid::begins, begins.data()},
                      {uid::other, &other},
                      {uid::dq_sum, sums.data()},
                      {uid::row_dots, row_dots.data()}});
          build_attention_forward(g, graph_problem);
          CHECK(attention_test::worst_difference(got.out, expected.out) < 1e-13);
          CHECK(attention_test::worst_difference(got.log_sums, expected.log_sums) < 1e-13);
          build_attention_backward(g, graph_problem);
          CHECK(attention_test::worst_difference(got.gradients, expected.gradients) < 1e-13);
        }
}

TEST_CASE(
    "cuDNN attention graphs: merged parts of a sequence give the attention over the whole "
    "sequence") {
  namespace parts = extend_attention_test;
  for (parts::sizes const& size :
       {parts::sizes{2, 12, 12, 4, 4, 8}, parts::sizes{1, 6, 6, 6, 2, 5}})
    for (auto const& variation :
         {parts::variant{}, parts::variant{.alibi = true}, parts::variant{.window = 3},
          parts::variant{.alibi = true, .window = 1}, parts::variant{.document = 5},
          parts::variant{.alibi = true, .window = 2, .document = 9}})
      for (std::vector<index> const& cuts :
           {std::vector{size.keys / 2}, {size.keys / 3, size.keys / 3 * 2}}) {
        auto p = parts::problem_of_heads<double>(size, variation);
        CAPTURE(p.text());
        CAPTURE(cuts.size());
        parallel::reference::stream r;
        auto const expected = parts::attend_at_once(p, r);
        graph_stream s;
        auto const got = parts::attend_by_parts(p, s, cuts, 3);
        CHECK(parts::worst_relative_difference(got.out, expected.out) < 1e-13);
        CHECK(parts::worst_relative_difference(got.lse, expected.lse) < 1e-13);
        CHECK(parts::worst_relative_difference(got.gradients, expected.gradients) < 1e-13);
      }
}

}  // namespace cudnn_attention_meaning_test
