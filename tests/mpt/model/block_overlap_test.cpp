// A block's exchanges along the tensor axis overlap with the products at the ends of its regions.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include <mpt/model/build.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

#include "support/trace.hpp"

namespace block_overlap_test {

using parallel::index;
using namespace std::chrono_literals;

/// A host stream that logs the beginning and the end of its products.
struct logging_stream : parallel::host::stream {
  test::trace* log = nullptr;
  int products = 0;
};

void run_operation(logging_stream& s, parallel::ops::matmul_arguments<double, double> const& a) {
  int const k = s.products++;
  s.enqueue([k, log = s.log] { log->add(parallel::concat("product ", k, " begins")); });
  run_operation(static_cast<parallel::host::stream&>(s), a);
  s.enqueue([k, log = s.log] { log->add(parallel::concat("product ", k, " ends")); });
}

constexpr int ranks = 3;
constexpr index length = 6;  // two rows a rank

mpt::model_config configuration() {
  mpt::model_config m;
  m.d_model = 12;
  m.n_heads = 3;
  m.n_layers = 1;
  m.vocab_size = 18;
  m.max_seq_len = length;
  m.ffn_type = mpt::ffn_kind::mptglu;
  check_model(m, "");
  return m;
}

/// One end of a region: n products, of one shard each, and n-1 messages in each direction. Each
/// message is a call of the communicator; sends and receives alternate.
struct end {
  bool entering;
  int first_call;
  int first_product;
};

// The ends in the order in which they run. The products of the gate take all rows.
constexpr std::array<end, 8> ends{{{true, 0, 0},     // Wqkv
                                   {false, 4, 3},    // out_proj
                                   {true, 8, 6},     // up_proj
                                   {false, 12, 10},  // down_proj, after the gate's product
                                   {true, 16, 13},   // backwards: down_proj
                                   {false, 20, 17},  // up_proj, after the gate's
                                   {true, 24, 20},   // out_proj
                                   {false, 28, 23}}};

TEST_CASE("block: exchanges along the tensor axis run while the block multiplies") {
  std::atomic<int> overlapped = 0;
  std::atomic<int> delayed_calls = 0;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& rank_communicator) {
    bool const is_delayed = rank_communicator.rank() == 0;
    test::trace log;
    // Rank 0 delays a receive until the product of the previous shard has ended, and a send until
    // that of the next shard has.
    parallel::any_communicator comm(test::delayed(std::move(rank_communicator), log, [&](int k) {
      if (!is_delayed) return;
      ++delayed_calls;
      for (auto const& e : ends) {
        int const i = (k - e.first_call) / 2;
        if (k < e.first_call || i >= ranks - 1 || (k % 2 == 1) != e.entering) continue;
        int const product = e.first_product + i + (e.entering ? 0 : 1);
        if (log.await(parallel::concat("product ", product, " ends"), 20s)) ++overlapped;
      }
    }));
    logging_stream compute;
    compute.log = &log;
    parallel::host::stream exchanges, overlapped_exchanges;
    auto const config = configuration();
    mpt::model_groups const groups{.tensor = {{comm, exchanges, overlapped_exchanges}, true}};
    auto block = mpt::layer_builder<double>(config, groups).make_block("b.", 0, {});
    std::vector<std::vector<double>> values;
    block.visit_parameters([&](auto& p) {
      values.emplace_back(static_cast<std::size_t>(p.size()), 0.01);
      p.data = values.back().data();
    });
    std::vector<std::byte> space(1U << 20U);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<logging_stream> c{.stream = compute, .memory = memory, .sequence = length};
    std::vector<double> const x(2 * 12, 1.0);
    mpt::block<double>::saved activations;
    static_cast<void>(block.forward(c, {x.data(), {2, 12}}, activations));
    static_cast<void>(block.backward_input(c, {x.data(), {2, 12}}, activations));
    compute.synchronize();
    CHECK(compute.products == 26);
  });
  CHECK(delayed_calls == 8 * 2 * (ranks - 1));
  CHECK(overlapped == 8 * (ranks - 1));
}

}  // namespace block_overlap_test
