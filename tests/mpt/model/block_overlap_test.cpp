// A block's own exchanges along the tensor axis run behind the products at the ends of its regions.
#include <doctest/doctest.h>

#include <algorithm>
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
using parallel::matrix_view;
using namespace std::chrono_literals;

/// A host stream that logs the beginning and the end of its products.
struct telling_stream : parallel::host::stream {
  test::trace* log = nullptr;
  int products = 0;
};

void run_operation(telling_stream& s, parallel::ops::matmul_arguments<double, double> const& a) {
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

/// One of a region's ends: n products, of a shard each, and n-1 messages either way, which are
/// calls of the communicator, a send and a receive in turn.
struct end {
  bool entering;
  int first_call;
  int first_product;
};

// In order; the products of the gate are of all rows.
constexpr std::array<end, 8> ends{{{true, 0, 0},     // Wqkv
                                   {false, 4, 3},    // out_proj
                                   {true, 8, 6},     // up_proj
                                   {false, 12, 10},  // down_proj, after the gate's product
                                   {true, 16, 13},   // backwards: down_proj
                                   {false, 20, 17},  // up_proj, after the gate's
                                   {true, 24, 20},   // out_proj
                                   {false, 28, 23}}};

TEST_CASE("what is exchanged is exchanged while the block multiplies") {
  std::atomic<int> in_time = 0;
  std::atomic<int> calls = 0;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& own) {
    bool const slow = own.rank() == 0;
    test::trace log;
    // On rank 0 what comes in is held up until the product of the shard before has ended, and what
    // leaves until that of the shard after it.
    parallel::any_communicator comm(test::delayed(std::move(own), log, [&](int k) {
      if (!slow) return;
      ++calls;
      for (auto const& e : ends) {
        int const i = (k - e.first_call) / 2;
        if (k < e.first_call || i >= ranks - 1 || (k % 2 == 1) != e.entering) continue;
        int const product = e.first_product + i + (e.entering ? 0 : 1);
        if (log.await(parallel::concat("product ", product, " ends"), 20s)) ++in_time;
      }
    }));
    telling_stream compute;
    compute.log = &log;
    parallel::host::stream exchanges, back;
    auto const config = configuration();
    mpt::model_groups const groups{.tensor = {{comm, exchanges, back}, true}};
    auto block = mpt::layer_builder<double>(config, groups).make_block("b.", 0, {});
    std::vector<std::vector<double>> values;
    block.visit_parameters([&](auto& p) {
      values.emplace_back(static_cast<std::size_t>(p.size()), 0.01);
      p.data = values.back().data();
    });
    std::vector<std::byte> space(1U << 20U);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<telling_stream> c{.stream = compute, .memory = memory, .sequence = length};
    std::vector<double> const x(2 * 12, 1.0);
    mpt::block<double>::saved kept;
    static_cast<void>(block.forward(c, {x.data(), {2, 12}}, kept));
    static_cast<void>(block.backward_input(c, {x.data(), {2, 12}}, kept));
    compute.synchronize();
    CHECK(compute.products == 26);
  });
  CHECK(calls == 8 * 2 * (ranks - 1));
  CHECK(in_time == 8 * (ranks - 1));
}

}  // namespace block_overlap_test
