// What the graphs for cuDNN say, whatever device they run on: their expressions computed operation
// by operation in double, against the reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/attention_problem.hpp"

namespace cudnn_attention_meaning_test {

using namespace parallel::cuda::cudnn;
using parallel::index;
namespace uid = attention_uid;

/// Stands in for `graph`: computes each operation at once. Memory holds doubles, of whatever type
/// the graph takes it to be.
class computed {
 public:
  struct tensor {
    double* data = nullptr;
    sizes extents{};
    sizes strides{};

    /// Dimensions in which there are fewer elements repeat each for its neighbours.
    [[nodiscard]] double& at(sizes const& i, sizes const& of) const {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < 4; ++d) offset += i[d] / (of[d] / extents[d]) * strides[d];
      return data[offset];
    }
    [[nodiscard]] double& at(sizes const& i) const { return at(i, extents); }
  };

  explicit computed(std::map<std::int64_t, double*> given) : memory_(std::move(given)) {}

  tensor memory(std::int64_t id, cudnnDataType_t, sizes extents, sizes strides, std::int64_t = 16) {
    return {memory_.at(id), extents, strides};
  }
  tensor number(std::int64_t id, cudnnDataType_t) {
    return {memory_.at(id), {1, 1, 1, 1}, {1, 1, 1, 1}};
  }
  tensor between(sizes extents, cudnnDataType_t = CUDNN_DATA_FLOAT) {
    auto& kept = kept_.emplace_back(
        static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * extents[3]));
    return {kept.data(), extents, dense(extents)};
  }

  void apply(cudnnPointwiseMode_t mode, tensor x, tensor y) { apply(mode, x, x, y); }
  void apply(cudnnPointwiseMode_t mode, tensor a, tensor b, tensor y) {
    each(y.extents,
         [&](sizes const& i) { y.at(i) = value(mode, a.at(i, y.extents), b.at(i, y.extents)); });
  }
  tensor map(cudnnPointwiseMode_t mode, tensor x) { return map(mode, x, x); }
  tensor map(cudnnPointwiseMode_t mode, tensor a, tensor b, arithmetic = floats) {
    tensor const y = between(a.extents);
    apply(mode, a, b, y);
    return y;
  }
  tensor select(tensor kept, tensor otherwise, tensor mask) {
    tensor const y = between(kept.extents);
    each(y.extents, [&](sizes const& i) {
      y.at(i) = mask.at(i) != 0.0 ? kept.at(i) : otherwise.at(i, y.extents);
    });
    return y;
  }
  tensor positions(tensor x, std::int64_t axis, cudnnDataType_t) {
    tensor const y = between(x.extents);
    each(y.extents,
         [&](sizes const& i) { y.at(i) = static_cast<double>(i[static_cast<std::size_t>(axis)]); });
    return y;
  }
  tensor multiply(tensor a, tensor b, tensor c) {
    each(c.extents, [&](sizes const& i) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.extents[3]; ++k)
        sum += a.at({i[0], i[1], i[2], k}) *
               b.at({i[0], i[1] / (a.extents[1] / b.extents[1]), k, i[3]});
      c.at(i) = sum;
    });
    return c;
  }
  tensor reduce(cudnnReduceTensorOp_t how, tensor x, tensor y) {
    bool const greatest = how == CUDNN_REDUCE_TENSOR_MAX;
    each(y.extents, [&](sizes const& i) {
      y.at(i) = greatest ? -std::numeric_limits<double>::infinity() : 0.0;
    });
    each(x.extents, [&](sizes const& i) {
      double& to = y.at(i, x.extents);
      to = greatest ? std::max(to, x.at(i)) : to + x.at(i);
    });
    return y;
  }
  tensor transpose(tensor x, cudnnDataType_t) {
    std::swap(x.extents[2], x.extents[3]);
    std::swap(x.strides[2], x.strides[3]);
    return x;
  }

 private:
  template <class F>
  static void each(sizes const& extents, F const& f) {
    sizes i{};
    for (i[0] = 0; i[0] < extents[0]; ++i[0])
      for (i[1] = 0; i[1] < extents[1]; ++i[1])
        for (i[2] = 0; i[2] < extents[2]; ++i[2])
          for (i[3] = 0; i[3] < extents[3]; ++i[3]) f(i);
  }

  static double value(cudnnPointwiseMode_t mode, double a, double b) {
    switch (mode) {
      case CUDNN_POINTWISE_ADD: return a + b;
      case CUDNN_POINTWISE_SUB: return a - b;
      case CUDNN_POINTWISE_MUL: return a * b;
      case CUDNN_POINTWISE_DIV: return a / b;
      case CUDNN_POINTWISE_EXP: return std::exp(a);
      case CUDNN_POINTWISE_LOG: return std::log(a);
      case CUDNN_POINTWISE_IDENTITY: return a;
      case CUDNN_POINTWISE_CMP_GE: return a >= b ? 1.0 : 0.0;
      case CUDNN_POINTWISE_CMP_GT: return a > b ? 1.0 : 0.0;
      default: break;
    }
    parallel::fail("an operation that the test does not know: ", static_cast<int>(mode));
  }

  std::map<std::int64_t, double*> memory_;
  std::vector<std::vector<double>> kept_;
};

TEST_CASE("the graphs for cuDNN mean causal attention and its gradient") {
  for (auto const& size :
       {attention_test::sizes{2, 7, 7, 4, 4, 8}, attention_test::sizes{1, 9, 9, 6, 2, 5},
        attention_test::sizes{2, 5, 5, 3, 1, 4}})
    for (bool const alibi : {false, true})
      for (index const window : {-1, 1, 3})
        for (auto const& [document, deterministic] :
             {std::pair{index{0}, false}, {0, true}, {1, false}, {4, false}, {4, true}}) {
          CAPTURE(alibi);
          CAPTURE(window);
          CAPTURE(document);
          attention_test::problem<double> expected(
              size, {.alibi = alibi, .window = window, .document = document});
          auto got = expected;
          parallel::reference::stream r;
          expected.forward(r);
          expected.backward(r);

          auto const strides = [](auto const& view) {
            return attention_strides{view.batch_stride, view.row_stride};
          };
          attention_problem said;
          said.batch = size.batch;
          said.sequence = size.keys;
          said.heads = size.heads;
          said.key_heads = size.key_heads;
          said.head_dim = size.width;
          said.alibi = alibi;
          said.documents = document > 0;
          said.window = window;
          said.deterministic = deterministic;
          said.q = said.k = said.v = strides(got.part(got.inputs.data(), 0));
          said.dq = said.dk = said.dv = said.q;
          said.out = said.dout = strides(got.result(got.out.data()));

          double scale = got.options().scale;
          double masked = -std::numeric_limits<double>::infinity();
          double reach = static_cast<double>(window + 1);
          double one = 1.0;
          double other = -1e9;
          std::vector<double> begins(got.documents.begin(), got.documents.end());
          std::vector<double> slopes(got.slopes.begin(), got.slopes.end());
          std::vector<double> sums(got.out.size());
          std::vector<double> own(got.log_sums.size());
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
                      {uid::own, own.data()}});
          build_attention_forward(g, said);
          CHECK(attention_test::worst_difference(got.out, expected.out) < 1e-13);
          CHECK(attention_test::worst_difference(got.log_sums, expected.log_sums) < 1e-13);
          build_attention_backward(g, said);
          CHECK(attention_test::worst_difference(got.gradients, expected.gradients) < 1e-13);
        }
}

}  // namespace cudnn_attention_meaning_test
