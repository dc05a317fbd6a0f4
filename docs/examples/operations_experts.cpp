// Examples of the operations of experts, which the site's reference shows. Each names its result,
// and the program fails if it is another.
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <parallel/ops/experts/choice_counts.hpp>
#include <parallel/ops/experts/expert_order.hpp>
#include <parallel/ops/experts/expert_rows.hpp>
#include <parallel/ops/experts/grouped_matmul.hpp>
#include <parallel/ops/experts/jitter.hpp>
#include <parallel/ops/experts/load_shares.hpp>
#include <parallel/ops/experts/record_routing.hpp>
#include <parallel/ops/experts/route.hpp>
#include <parallel/ops/experts/router_logits.hpp>
#include <parallel/ops/host.hpp>

#include "operations.hpp"

namespace example {

constexpr auto log3 = static_cast<float>(1.0986122886681098);

void routing(parallel::host::stream& s) {
  {
    // [example: router_logits route route_backward record_routing]
    // two rows and three experts, of which each row uses two; of equal logits the first counts
    std::vector<float> x{1, 0, 0, 1}, weight{0, 0, log3, 0, 0, log3}, logits(6);
    ops::router_logits(s, matrix(logits, 2), matrix(x, 2), matrix(weight, 3));
    std::vector<float> scores(6), weights(4);
    std::vector<std::int32_t> experts(4);
    ops::route(s, matrix(scores, 2), matrix(experts, 2), matrix(experts, 2), matrix(weights, 2),
               matrix(logits, 2), {}, {.norm = 1.0});
    expect(s, scores, {0.2, 0.6, 0.2, 0.2, 0.2, 0.6});
    expect(s, experts, {0, 1, 0, 2});
    expect(s, weights, {0.25, 0.75, 0.25, 0.75});
    std::vector<float> dweights{1, 0, 0, 0}, dlogits(6);
    ops::route_backward(s, matrix(dlogits, 2), matrix(dweights, 2), matrix(logits, 2),
                        matrix(scores, 2), matrix(experts, 2), {}, {}, {.norm = 1.0});
    expect(s, dlogits, {0.1875, -0.1875, 0, 0, 0, 0});
    // choices of each expert, two losses, the sum of entropies, choices without room, rows
    std::vector<double> record(static_cast<std::size_t>(ops::routing_record_size(3)));
    std::vector<std::int32_t> lost(2);
    ops::record_routing(s, std::span(record), matrix(logits, 2), matrix(scores, 2),
                        matrix(experts, 2), {}, {}, vector(lost));
    expect(s, record, {2, 1, 1, 0, 0, 1.900542, 0, 0, 2});
    // [end]
  }
  {
    // [example: choice_counts]
    std::vector<std::int32_t> experts{0, 1, 0, 2};
    std::vector<float> counts(6);
    ops::choice_counts(s, matrix(counts, 2), matrix(experts, 2));  // of two sequences of a row
    expect(s, counts, {1, 1, 0, 1, 0, 1});
    // [end]
  }
  {
    // [example: load_shares]
    std::vector<float> const loads{3, 1, 0};
    std::vector<float> shares(3);
    ops::load_shares(s, std::span(shares), std::span(loads), 2.0F);
    expect(s, shares, {1.5F, 0.5F, 0});
    // [end]
  }
  {
    // [example: jitter]
    std::vector<float> x{8, -8}, y(2);
    parallel::philox const random(17, parallel::stream_id("router"), 0);
    ops::jitter(s, std::span(y), x, {.eps = 0.25F, .random = random});
    s.synchronize();
    expect(s, std::vector<int>{y[0] >= 6 && y[0]<10, y[1]> - 10 && y[1] <= -6}, {1, 1});
    // [end]
  }
}

void rows_of_experts(parallel::host::stream& s) {
  {
    // [example: expert_order scatter_rows grouped_matmul combine_rows]
    // row 0 uses experts 0 and 1, row 1 experts 0 and 2; all are on one rank
    std::vector<std::int32_t> experts{0, 1, 0, 2}, places(4), ends(3), lost(2);
    ops::expert_order(s, matrix(places, 2), matrix(ends, 1), vector(lost), matrix(experts, 2),
                      {.block_rows = 4, .sequence = 2});
    expect(s, places, {0, 2, 1, 3});
    expect(s, ends, {2, 3, 4});
    std::vector<float> x{1, 2}, copies(4), results(4), y(2);
    ops::scatter_rows(s, matrix(copies, 4), matrix(x, 2), matrix(places, 2));
    expect(s, copies, {1, 2, 1, 2});
    std::vector<float> expert_weights{10, 100, 1000}, weights{0.25, 0.75, 0.25, 0.75};
    ops::grouped_matmul(s, matrix(results, 4), matrix(copies, 4), matrix(expert_weights, 3),
                        matrix(ends, 1));
    expect(s, results, {10, 20, 100, 2000});
    ops::combine_rows(s, matrix(y, 2), matrix(results, 4), matrix(places, 2), matrix(weights, 2),
                      {});
    expect(s, y, {77.5, 1505});
    // [end]
  }
  {
    // [example: combine_rows_backward grouped_matmul_weight]
    // the same rows and experts
    std::vector<std::int32_t> places{0, 2, 1, 3}, ends{2, 3, 4};
    std::vector<float> copies{1, 2, 1, 2}, results{10, 20, 100, 2000};
    std::vector<float> weights{0.25, 0.75, 0.25, 0.75}, dy{1, 2};
    std::vector<float> dresults(4), dweights(4), dexpert_weights(3);
    ops::combine_rows_backward(s, matrix(dresults, 4), matrix(dweights, 2), matrix(dy, 2),
                               matrix(results, 4), matrix(places, 2), matrix(weights, 2));
    expect(s, dresults, {0.25, 0.5, 0.75, 1.5});
    expect(s, dweights, {10, 100, 40, 4000});
    ops::grouped_matmul_weight(s, matrix(dexpert_weights, 3), matrix(copies, 4),
                               matrix(dresults, 4), matrix(ends, 1), false);
    expect(s, dexpert_weights, {1.25, 0.75, 3});
    // [end]
  }
}

}  // namespace example

int main() {
  parallel::host::stream s;
  example::routing(s);
  example::rows_of_experts(s);
  std::puts("the examples of operations of experts have the results that they name");
}
