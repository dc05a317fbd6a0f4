// The mesh of a run as a rank sees it: groups that can exchange in both directions, and the rank's
// part of the data.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <mpt/train/setup/run_mesh.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>

namespace run_mesh_test {

mpt::train_config configuration() {
  mpt::train_config config;
  config.model.d_model = 24;
  config.model.n_heads = 4;
  config.model.n_layers = 2;
  config.model.vocab_size = 32;
  config.data.train_loader.max_seq_len = 8;
  config.data.global_train_batch_size = 4;
  config.execution.parallelism.tensor = 2;
  config.execution.parallelism.context = 2;
  config.execution.parallelism.sequence_parallel = true;
  return config;
}

TEST_CASE(
    "run mesh: groups of 8 ranks exchange in both directions, and each reads its part of the "
    "rows") {
  auto const config = configuration();
  std::mutex lock;
  std::multiset<int> readers;
  std::set<std::pair<int, std::vector<std::int32_t>>> read;
  parallel::threads::run(8, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::any_communicator world(std::move(comm));
    mpt::run_mesh mesh(config.execution, mpt::run_layout(config, world.size()), world, device);
    CHECK(mesh.layout().text() == "replicate 2 x context 2 x tensor 2");
    CHECK(mesh.data_ranks() == 2);
    auto const groups = mesh.groups_of_model();
    CHECK(groups.tensor.divides_rows());
    CHECK(groups.tensor.rank() == world.rank() % 2);
    CHECK(groups.context.group.rank() == world.rank() / 2 % 2);
    parallel::host::stream compute;
    auto const from_neighbour = [&](auto const& group) {
      std::vector<std::int32_t> in(1), out{world.rank()};
      group.shift(compute, std::span(in), std::span<std::int32_t const>(out)).wait_on(compute);
      compute.synchronize();
      return in[0];
    };
    CHECK(from_neighbour(groups.tensor.group) == (world.rank() ^ 1));
    CHECK(from_neighbour(groups.context.group) == (world.rank() ^ 2));
    std::vector<std::int32_t> const ids{0, 1, 2, 3, 4, 5, 6, 7};
    auto const rows = mesh.local_rows(mpt::sequences(ids, 8));
    auto const view = rows.view({0, 1});
    std::scoped_lock const guard(lock);
    readers.insert(mesh.data_rank());
    read.emplace(groups.context.group.rank(),
                 std::vector<std::int32_t>(view.ids.span().begin(), view.ids.span().end()));
  });
  CHECK(readers.count(0) == 4);
  CHECK(readers.count(1) == 4);
  // of 4 quarters of a sequence, context rank 0 has the first and last, rank 1 the middle ones
  CHECK(read ==
        std::set<std::pair<int, std::vector<std::int32_t>>>{{0, {0, 1, 6, 7}}, {1, {2, 3, 4, 5}}});
}

TEST_CASE("run mesh: ranks that share a part of the data read it once") {
  auto config = configuration();
  config.execution.parallelism.pipeline = 2;
  std::atomic<int> reads = 0, ends = 0;
  std::mutex lock;
  std::map<int, std::multiset<std::int32_t>> ids_by_part;
  parallel::threads::run(16, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::any_communicator world(std::move(comm));
    mpt::run_mesh mesh(config.execution, mpt::run_layout(config, world.size()), world, device);
    int const part = mesh.data_rank();
    auto const read = mesh.read_once([&] {
      ++reads;
      return std::optional(mpt::sequences(std::vector<std::int32_t>(8, part), 8));
    });
    CHECK_FALSE(mesh.read_once([&]() -> std::optional<mpt::sequences> {
      ++ends;
      return std::nullopt;
    }));
    std::scoped_lock const guard(lock);
    ids_by_part[part].insert(read.value().view({0, 1}).ids.span()[3]);
  });
  CHECK(reads == 2);
  CHECK(ends == 2);
  using ids = std::multiset<std::int32_t>;
  CHECK(ids_by_part ==
        std::map<int, ids>{{0, {0, 0, 0, 0, 0, 0, 0, 0}}, {1, {1, 1, 1, 1, 1, 1, 1, 1}}});
}

TEST_CASE("run mesh: one rank has no groups and reads everything") {
  auto config = configuration();
  config.execution.parallelism = {};
  parallel::threads::run(1, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::any_communicator world(std::move(comm));
    mpt::run_mesh mesh(config.execution, mpt::run_layout(config, world.size()), world, device);
    auto const groups = mesh.groups_of_model();
    CHECK(groups.tensor.is_single_rank());
    CHECK(groups.context.is_single_rank());
    CHECK(mesh.data_ranks() == 1);
    CHECK(mesh.data_rank() == 0);
    std::vector<std::int32_t> const ids(8, 1);
    CHECK(mesh.local_rows(mpt::sequences(ids, 8)).length() == 8);
  });
}

TEST_CASE("run mesh: every rank refuses a bad layout before it communicates") {
  auto config = configuration();
  config.execution.parallelism.tensor = 3;
  CHECK_THROWS_AS(parallel::threads::run(
                      6,
                      [&](parallel::threads::communicator& comm) {
                        parallel::host::device device;
                        parallel::any_communicator world(std::move(comm));
                        mpt::run_mesh const mesh(
                            config.execution, mpt::run_layout(config, world.size()), world, device);
                      }),
                  parallel::error);
}

TEST_CASE("run mesh: planned groups have the sizes of the configuration") {
  auto const planned = mpt::planned_groups(configuration().execution.parallelism);
  CHECK(planned.tensor.size() == 2);
  CHECK(planned.tensor.divides_rows());
  CHECK(planned.context.group.size() == 2);
}

}  // namespace run_mesh_test
