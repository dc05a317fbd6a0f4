// The tasks of a stream find the operations of the step that they ran, and these calibrate a
// processor.
#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include <parallel/cluster/calibrate.hpp>
#include <parallel/predict/paired_operations.hpp>

namespace paired_operations_test {
namespace {

namespace cluster = parallel::cluster;
namespace host = parallel::host;
namespace predict = parallel::predict;

cluster::operation_work product(double m, double n, double k) {
  return {.name = "matmul",
          .kind = cluster::operation_kind::product,
          .flops = 2 * m * n * k,
          .bytes = 4 * (m * n + m * k + n * k),
          .element_bytes = 4,
          .rows = m,
          .columns = n,
          .depth = k};
}

/// Tasks that follow each other with a gap of a second.
std::vector<host::timed_task> tasks_of(std::vector<std::pair<char const*, int>> const& seconds) {
  std::vector<host::timed_task> out;
  parallel::steady_time time{};
  for (auto const& [name, length] : seconds) {
    out.push_back({{name}, time, time + std::chrono::seconds(length)});
    time = out.back().end + std::chrono::seconds(1);
  }
  return out;
}

TEST_CASE("paired operations: the n-th task of a name is the n-th operation of that name") {
  std::vector const operations{
      product(8, 8, 8),
      cluster::operation_work{.name = "gelu", .flops = 1, .bytes = 64},
      product(16, 8, 8),
  };
  auto const tasks = tasks_of({{"matmul", 1},
                               {"gelu", 5},
                               {"matmul<float>", 4},
                               {"adamw", 7},
                               {"matmul", 3},
                               {"gelu", 5},
                               {"matmul", 6},
                               {"adamw", 9}});
  auto const paired = predict::pair_tasks(operations, tasks, 2);
  REQUIRE(paired.operations.size() == 3);
  CHECK(paired.operations[0].seconds == 2);  // the mean of 1 and 3
  CHECK(paired.operations[1].seconds == 5);
  CHECK(paired.operations[2].work.rows == 16);
  CHECK(paired.operations[2].seconds == 5);  // of 4 and 6
  CHECK(paired.unplanned.at("adamw") == 8);
  CHECK(paired.gap == 1);
}

TEST_CASE("paired operations: a name with more tasks than operations is left out") {
  std::vector const operations{product(8, 8, 8)};
  auto const paired =
      predict::pair_tasks(operations, tasks_of({{"matmul", 1}, {"matmul", 1}, {"fill", 2}}), 1);
  CHECK(paired.operations.empty());
  CHECK(paired.unplanned.size() == 1);
  CHECK(paired.unplanned.at("fill") == 2);
}

TEST_CASE("calibrate: a processor takes for a measured operation what was measured") {
  cluster::processor device{.memory_rate = 1e9};
  cluster::operation_work const attention{
      .name = "attention",
      .kind = cluster::operation_kind::attention_forward,
      .flops = 4 * 32 * 64 * 10,
      .bytes = 1,
      .element_bytes = 4,
      .rows = 32,
      .depth = 64,
  };
  cluster::operation_work const gelu{.name = "gelu", .flops = 1, .bytes = 4096};
  std::vector<cluster::measured_operation> const measured{{product(512, 512, 512), 0.25},
                                                          {product(512, 512, 512), 0.75},
                                                          {product(512, 2048, 512), 2},
                                                          {attention, 3},
                                                          {gelu, 0.5}};
  cluster::calibrate(device, measured);
  CHECK(device.seconds(product(512, 512, 512)) == doctest::Approx(0.5));
  CHECK(device.seconds(product(512, 2048, 512)) == doctest::Approx(2));
  CHECK(device.seconds(attention) == doctest::Approx(3));
  CHECK(device.seconds(gelu) == 0.5);
  // a later measurement of a shape replaces the earlier one, and leaves the others
  std::vector<cluster::measured_operation> const later{{product(512, 512, 512), 1}};
  cluster::calibrate(device, later);
  CHECK(device.seconds(product(512, 512, 512)) == doctest::Approx(1));
  CHECK(device.seconds(product(512, 2048, 512)) == doctest::Approx(2));
}

}  // namespace
}  // namespace paired_operations_test
