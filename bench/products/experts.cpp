// experts: the rate of the products of experts, of unequal numbers of rows, against one product of
// as many rows, in turns; and the time of routing (logits, choices, order, rows to experts and
// back) as a share of a layer's time, forward and backward.
//
// Rates are medians over the turns. The layer has a gate: three products forward and six backward.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/ops/host.hpp>

#include <devices/cores.hpp>
#include <devices/engine.hpp>
#include "../parts/clock.hpp"

namespace {

namespace host = parallel::host;
namespace ops = parallel::ops;
using parallel::bf16;
using parallel::index;
using parallel::matrix_view;
using places = matrix_view<std::int32_t>;

struct sizes {
  index experts, top_k, width, hidden;
};

double median(std::vector<double> x) {
  std::ranges::sort(x);
  return x[x.size() / 2];
}

/// Tensors of a layer, and what is timed of it.
template <class T>
class problem {
 public:
  problem(sizes const& s, index rows, host::stream& stream)
      : stream_(stream), s_(s), rows_(rows), copies_(rows * s.top_k) {
    parallel::philox const random(1, parallel::stream_id("experts"));
    auto const fill = [&](auto& to, index size, double scale) {
      using E = typename std::remove_reference_t<decltype(to)>::value_type;
      for (index i = 0; i < size; ++i)
        to.push_back(E(static_cast<float>(scale) *
                       static_cast<float>(random.normal(static_cast<std::uint64_t>(i) % 65536))));
    };
    fill(x_, rows * s.width, 1.0);
    fill(router_, s.experts * s.width, 0.05);
    fill(weights_, s.experts * s.width * s.hidden, 0.05);
    fill(rows_of_experts_, copies_ * s.width, 1.0);
    fill(hidden_, copies_ * s.hidden, 1.0);
    gradient_.resize(weights_.size());
    for (auto* numbers : {&logits_, &scores_}) numbers->resize(size(rows * s.experts));
    dlogits_.resize(size(rows * s.experts));
    for (auto* numbers : {&row_weights_, &dweights_}) numbers->resize(size(copies_));
    for (auto* numbers : {&experts_, &places_}) numbers->resize(size(copies_));
    ends_.resize(size(s.experts));
    y_.resize(x_.size());
    routing();
  }

  void grouped() {
    ops::grouped_matmul(stream_, view(hidden_, copies_), as_const(view(rows_of_experts_, copies_)),
                        as_const(view(weights_, s_.experts * s_.hidden)), ends(),
                        {.transpose_b = true});
    stream_.synchronize();
  }
  void single() {
    ops::matmul(stream_, view(hidden_, copies_), as_const(view(rows_of_experts_, copies_)),
                matrix_view<T const>(weights_.data(), {s_.hidden, s_.width}),
                {.transpose_b = true});
    stream_.synchronize();
  }
  void grouped_weight() {
    ops::grouped_matmul_weight(stream_, view(gradient_, s_.experts * s_.hidden),
                               as_const(view(hidden_, copies_)),
                               as_const(view(rows_of_experts_, copies_)), ends(), true);
    stream_.synchronize();
  }
  void single_weight() {
    ops::matmul(stream_, matrix_view<float>(gradient_.data(), {s_.hidden, s_.width}),
                as_const(view(hidden_, copies_)), as_const(view(rows_of_experts_, copies_)),
                {.transpose_a = true, .accumulate = true});
    stream_.synchronize();
  }
  /// All that a layer adds to its products, forward and backward, but for activations.
  void routing() {
    auto const x = as_const(view(x_, rows_));
    auto const weights = view(row_weights_, rows_), dweights = view(dweights_, rows_);
    auto const logits = view(logits_, rows_), scores = view(scores_, rows_);
    places const experts = view(experts_, rows_), to = view(places_, rows_);
    auto const copies = view(rows_of_experts_, copies_);
    std::int32_t lost[2];
    ops::router_logits(stream_, logits, x, as_const(view(router_, s_.experts)));
    ops::route(stream_, scores, experts, experts, weights, logits, {}, {.norm = 1.0});
    ops::expert_order(stream_, to, {ends_.data(), {1, s_.experts}}, {lost, {2}}, experts,
                      {.block_rows = copies_});
    ops::scatter_rows(stream_, copies, x, to);
    ops::combine_rows(stream_, view(y_, rows_), as_const(copies), to, weights);
    ops::combine_rows_backward(stream_, copies, dweights, x, as_const(copies), to, weights);
    ops::route_backward(stream_, view(dlogits_, rows_), dweights, logits, scores, experts, {}, 0.0,
                        {.norm = 1.0});
    ops::matmul(stream_, view(y_, rows_), as_const(view(dlogits_, rows_)),
                as_const(view(router_, s_.experts)));
    ops::combine_rows(stream_, view(y_, rows_), as_const(copies), to);
    stream_.synchronize();
  }

  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(copies_ * s_.width * s_.hidden);
  }

 private:
  static std::size_t size(index n) { return static_cast<std::size_t>(n); }
  template <class E>
  static matrix_view<E> view(std::vector<E>& x, index rows) {
    return {x.data(), {rows, std::ssize(x) / rows}};
  }
  template <class E>
  static matrix_view<E const> as_const(matrix_view<E> x) {
    return x;
  }
  [[nodiscard]] matrix_view<std::int32_t const> ends() const {
    return {ends_.data(), {1, s_.experts}};
  }

  host::stream& stream_;
  sizes s_;
  index rows_, copies_;
  std::vector<T> x_, router_, weights_, rows_of_experts_, hidden_, dlogits_, y_;
  std::vector<float> gradient_, logits_, scores_, row_weights_, dweights_;
  std::vector<std::int32_t> experts_, places_, ends_;
};

template <class T>
void measure(std::string_view name, sizes const& s, index rows, host::stream& stream, int turns) {
  problem<T> p(s, rows, stream);
  auto const seconds = [&](auto const& work) {
    double const begin = bench::read_clock(bench::clock_kind::wall);
    (p.*work)();
    return bench::read_clock(bench::clock_kind::wall) - begin;
  };
  void (problem<T>::*const works[])() = {&problem<T>::grouped, &problem<T>::single,
                                         &problem<T>::grouped_weight, &problem<T>::single_weight,
                                         &problem<T>::routing};
  std::vector<double> times[5];
  for (int turn = -1; turn < turns; ++turn)  // the first one warms up
    for (int work = 0; work < 5; ++work) {
      double const spent = seconds(works[work]);
      if (turn >= 0) times[work].push_back(spent);
    }
  auto const rate = [&](int work) { return 1e-9 * p.operations() / median(times[work]); };
  double const routing = median(times[4]);
  double const products = 6 * median(times[0]) + 3 * median(times[2]);
  fmt::print(
      "{:5} {:2} experts, top {}: {:6.1f} GF/s, {:3.0f} % of one product; weights {:6.1f} GF/s, "
      "{:3.0f} %; routing {:5.2f} % of the layer\n",
      name, s.experts, s.top_k, rate(0), 100 * rate(0) / rate(1), rate(2), 100 * rate(2) / rate(3),
      100 * routing / (routing + products));
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 1, turns = 5;
  parallel::index rows = 2048;
  CLI::App app{"Measures the products of experts and the cost of routing on the host"};
  app.add_option("--threads", threads);
  app.add_option("--rows", rows, "rows of the layer's input");
  app.add_option("--turns", turns);
  CLI11_PARSE(app, argc, argv);
  auto const library = apps::library_product();
  auto const own = apps::own_product();
  for (auto const* engine : {&own, &library}) {
    fmt::print("{}, {} threads\n", engine->name, threads);
    host::stream stream(
        {.threads = threads, .cores = apps::available_cores(), .engine = engine->products.get()});
    for (sizes const& s : {sizes{8, 2, 1024, 2816}, sizes{64, 8, 1024, 1024}}) {
      measure<float>("float", s, rows, stream, turns);
      measure<bf16>("bf16", s, rows, stream, turns);
    }
  }
}
