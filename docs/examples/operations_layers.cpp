// Examples of the operations of layers, losses and optimizers, which the site's reference shows.
// Each names its result, and the program fails if it is another.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include <parallel/ops/affine.hpp>
#include <parallel/ops/attention/extend_attention.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/norm/norm_gradients.hpp>

#include "operations.hpp"

namespace example {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr auto log3 = static_cast<float>(1.0986122886681098);

void products(parallel::host::stream& s) {
  {
    // [example: matmul]
    std::vector<float> a{1, 2, 3, 4}, b{5, 6, 7, 8}, c(4);
    ops::matmul(s, matrix(c, 2), matrix(a, 2), matrix(b, 2));
    expect(s, c, {19, 22, 43, 50});
    ops::matmul(s, matrix(c, 2), matrix(a, 2), matrix(b, 2), {.transpose_b = true});
    expect(s, c, {17, 23, 39, 53});
    // [end]
  }
  {
    // [example: affine affine_backward_weight]
    std::vector<float> x{1, 2}, weight{1, 0, 0, 1, 1, 1}, bias{10, 20, 30}, y(3);
    ops::affine(s, matrix(y, 1), matrix(x, 1), matrix(weight, 3), vector(bias));
    expect(s, y, {11, 22, 33});
    std::vector<float> dy{1, 0, 2}, dweight(6), dbias(3);
    ops::affine_backward_weight(s, matrix(dweight, 3), vector(dbias), matrix(dy, 1), matrix(x, 1),
                                false);  // true: adds to dweight
    expect(s, dweight, {1, 2, 0, 0, 2, 4});
    expect(s, dbias, {1, 0, 2});
    // [end]
  }
}

void attentions(parallel::host::stream& s) {
  {
    // [example: attention attention_backward]
    // two tokens, one head of one element; scores of 0 give the mean of the values
    std::vector<float> q{0, 0}, k{1, 2}, v{2, 4}, out(2), lse(2);
    parallel::tensor_view<float, 3> const lse_view(lse.data(), {1, 1, 2});  // [B, H, S]
    ops::attention(s, heads(out, 2), lse_view, heads(q, 2), heads(k, 2), heads(v, 2));
    expect(s, out, {2, 3});
    expect(s, lse, {0, std::numbers::ln2});
    std::vector<float> dout{1, 1}, dq(2), dk(2), dv(2);
    ops::attention_backward(s, ops::attention_backward_arguments<float>{.dq = heads(dq, 2),
                                                                        .dk = heads(dk, 2),
                                                                        .dv = heads(dv, 2),
                                                                        .dout = heads(dout, 2),
                                                                        .q = heads(q, 2),
                                                                        .k = heads(k, 2),
                                                                        .v = heads(v, 2),
                                                                        .out = heads(out, 2),
                                                                        .lse = lse_view});
    expect(s, dq, {0, 0.5});
    expect(s, dk, {0, 0});
    expect(s, dv, {1.5, 0.5});
    // [end]
  }
  {
    // [example: extend_attention extend_attention_backward]
    // the second of two tokens; the keys arrive one after the other
    std::vector<float> q{0}, k{1, 2}, v{2, 4}, out(1);
    std::vector<float> lse{-std::numeric_limits<float>::infinity()};
    parallel::tensor_view<float, 3> const lse_view(lse.data(), {1, 1, 1});
    for (index part = 0; part < 2; ++part) {
      ops::attention_options options;
      options.positions = {.sequence_length = 2, .first_query = 1, .first_key = part};
      ops::extend_attention(s, heads(out, 1), lse_view, ops::heads_view<float const>(heads(q, 1)),
                            ops::heads_view<float const>(heads(k, 2).slice(part, part + 1)),
                            ops::heads_view<float const>(heads(v, 2).slice(part, part + 1)),
                            options);
    }
    expect(s, out, {3});
    std::vector<float> dout{1}, dq(1), dk(2), dv(2);
    for (index part = 0; part < 2; ++part) {
      ops::attention_options options;
      options.positions = {.sequence_length = 2, .first_query = 1, .first_key = part};
      ops::extend_attention_backward(s, ops::extend_attention_backward_arguments<float>{
                                            .dq = heads(dq, 1),
                                            .dk = heads(dk, 2).slice(part, part + 1),
                                            .dv = heads(dv, 2).slice(part, part + 1),
                                            .dout = heads(dout, 1),
                                            .q = heads(q, 1),
                                            .k = heads(k, 2).slice(part, part + 1),
                                            .v = heads(v, 2).slice(part, part + 1),
                                            .out = heads(out, 1),
                                            .lse = lse_view,
                                            .options = options});
    }
    expect(s, dq, {0.5});
    expect(s, dv, {0.5, 0.5});
    // [end]
  }
  {
    // [example: rope rope_backward]
    // two tokens, one head of one pair, which turns by a right angle a position
    std::vector<double> const frequencies{std::numbers::pi / 2};
    std::vector<float> x{1, 2, 1, 2};
    ops::rope(s, heads(x, 2), {.frequencies = frequencies});
    expect(s, x, {1, 2, -2, 1});
    ops::rope_backward(s, heads(x, 2), {.frequencies = frequencies});
    expect(s, x, {1, 2, 1, 2});
    // [end]
  }
  {
    // [example: temperature]
    std::vector<float> y{1, 1};
    ops::temperature(s, ops::rows_view<float>(matrix(y, 2)),
                     {.scale = 1.0, .floor_scale = 1.0, .sequence = 2});
    expect(s, y, {1 + std::numbers::ln2, 1 + std::log(3.0)});
    // [end]
  }
}

void norms(parallel::host::stream& s) {
  std::vector<float> x{-1, 1, -1, 1}, weight{1, 2, 3, 4}, ones{1, 1, 1, 1}, dy{4, 0, 0, 0};
  {
    // [example: layer_norm layer_norm_backward_input layer_norm_backward_weight]
    // x {-1, 1, -1, 1}, weight {1, 2, 3, 4}, ones {1, 1, 1, 1} and dy {4, 0, 0, 0}
    std::vector<float> bias{0, 0, 0, 10}, y(4), mean(1), rstd(1);
    ops::layer_norm(s, matrix(y, 1), vector(mean), vector(rstd), matrix(x, 1), vector(weight),
                    vector(bias));
    expect(s, y, {-1, 2, -3, 14});
    std::vector<float> dx(4), dweight(4), dbias(4);
    ops::layer_norm_backward_input(s, matrix(dx, 1), matrix(dy, 1), matrix(x, 1), vector(ones),
                                   vector(mean), vector(rstd));
    ops::layer_norm_backward_weight(s, vector(dweight), vector(dbias), matrix(dy, 1), matrix(x, 1),
                                    vector(mean), vector(rstd));
    expect(s, dx, {2, 0, -2, 0});
    expect(s, dweight, {-4, 0, 0, 0});
    expect(s, dbias, {4, 0, 0, 0});
    // [end]
  }
  {
    // [example: rms_norm rms_norm_backward_input rms_norm_backward_weight]
    // x {-1, 1, -1, 1}, weight {1, 2, 3, 4}, ones {1, 1, 1, 1} and dy {4, 0, 0, 0}
    std::vector<float> y(4), rstd(1);
    ops::rms_norm(s, matrix(y, 1), vector(rstd), matrix(x, 1), vector(weight));
    expect(s, y, {-1, 2, -3, 4});
    std::vector<float> dx(4), dweight(4);
    ops::rms_norm_backward_input(s, matrix(dx, 1), matrix(dy, 1), matrix(x, 1), vector(ones),
                                 vector(rstd));
    ops::rms_norm_backward_weight(s, vector(dweight), matrix(dy, 1), matrix(x, 1), vector(rstd));
    expect(s, dx, {3, 1, -1, 1});
    expect(s, dweight, {-4, 0, 0, 0});
    // [end]
  }
  {
    // [example: norm_gradients]
    // x {-1, 1, -1, 1}, ones {1, 1, 1, 1} and dy {4, 0, 0, 0}; no mean: of rms_norm
    index const runs = ops::norm_gradient_runs(1);  // 1
    std::vector<float> rstd{1}, dx(4), weight_sums(4);
    ops::norm_gradients(s, matrix(dx, 1), matrix(weight_sums, runs), {}, matrix(dy, 1),
                        matrix(x, 1), vector(ones), {}, vector(rstd));
    expect(s, dx, {3, 1, -1, 1});
    expect(s, weight_sums, {-4, 0, 0, 0});
    // [end]
  }
}

void losses_of_tokens(parallel::host::stream& s) {
  std::vector<std::int32_t> ids{1};
  parallel::vector_view<std::int32_t const> const labels = vector(ids);
  {
    // [example: cross_entropy]
    // the label is token 1, whose probability is 3/4
    std::vector<float> logits{0, log3}, dlogits(2), losses(1);
    std::vector<std::uint8_t> correct(1);
    ops::cross_entropy(s, matrix(dlogits, 1), vector(losses), vector(correct), matrix(logits, 1),
                       labels);
    expect(s, losses, {std::log(4.0 / 3.0)});
    expect(s, dlogits, {0.25, -0.25});
    expect(s, correct, {1});
    // [end]
  }
  {
    // [example: vocabulary_statistics sliced_cross_entropy]
    // two ranks have one of the two tokens each; the label is token 1, whose probability is 3/4
    std::vector<float> logits{0, log3}, statistics(8), losses(1), dlogits(2);
    std::vector<std::uint8_t> correct(1);
    for (index rank = 0; rank < 2; ++rank)
      ops::vocabulary_statistics(s,
                                 parallel::matrix_view<float>(statistics.data() + 4 * rank, {1, 4}),
                                 parallel::matrix_view<float>(logits.data() + rank, {1, 1}), labels,
                                 {.first = rank, .vocabulary = 2});
    expect(s, statistics, {0, 1, -infinity, 0, double(log3), 1, double(log3), 1});
    for (index rank = 0; rank < 2; ++rank)  // on every rank after an all-gather of the statistics
      ops::sliced_cross_entropy(s, parallel::matrix_view<float>(dlogits.data() + rank, {1, 1}),
                                vector(losses), vector(correct),
                                parallel::matrix_view<float>(logits.data() + rank, {1, 1}), labels,
                                parallel::tensor_view<float const, 3>(statistics.data(), {2, 1, 4}),
                                {.first = rank, .vocabulary = 2});
    expect(s, losses, {std::log(4.0 / 3.0)});
    expect(s, dlogits, {0.25, -0.25});
    // [end]
  }
}

void updates(parallel::host::stream& s) {
  {
    // [example: adamw]
    std::vector<float> values{1}, exp_avg{0}, exp_avg_sq{0}, gradients{0.5F};
    ops::adamw(s, std::span(values), values, exp_avg, exp_avg_sq, gradients,
               {.lr = 0.1, .weight_decay = 0.0, .step = 1});
    expect(s, values, {0.9});
    expect(s, exp_avg, {0.05});
    expect(s, exp_avg_sq, {0.0125});
    // [end]
  }
  {
    // [example: lion]
    std::vector<float> values{1}, exp_avg{0}, gradients{0.5F};
    ops::lion(s, std::span(values), values, exp_avg, gradients, {.lr = 0.1});
    expect(s, values, {0.9});
    expect(s, exp_avg, {0.005});
    // [end]
  }
  {
    // [example: step_totals gradient_scale]
    // loss, tokens and correct predictions of two microbatches; the squared norm of their gradient
    std::vector<parallel::statistics<double>> microbatches{{3, 4, 1}, {5, 6, 2}};
    double const squares = 400;
    ops::step_sums<double> sums;
    ops::step_totals(s, &sums, std::span(microbatches), &squares);
    std::vector<float> factor(1);
    ops::gradient_scale(s, factor.data(), &sums, 1.0);  // clips the norm 20 / 10 to 1
    expect(s, factor, {0.05});
    auto const values = sums.span();
    expect(s, std::vector<double>(values.begin(), values.end()), {8, 10, 3, 400, 0});
    // [end]
  }
}

}  // namespace example

int main() {
  parallel::host::stream s;
  example::products(s);
  example::attentions(s);
  example::norms(s);
  example::losses_of_tokens(s);
  example::updates(s);
  std::puts("the examples of operations of layers have the results that they name");
}
