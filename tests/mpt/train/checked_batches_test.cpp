// Runs in which ranks check each other: nothing changes by that, a bit that flips leaves no trace,
// and a rank that always computes something else ends the run by its name.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/failures.hpp>

#include "guarded_run.hpp"

namespace checked_batches_test {
namespace {

using namespace tiny_run;
using parallel::bf16;

TEST_CASE("checks raise no alarm and leave every bit as it is") {
  run_files const files;
  for (auto const& layout :
       {grid{.data = 3}, grid{.zero_stage = 2, .data = 2, .parallelism = {.tensor = 2}},
        grid{.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2, .pipeline = 2}},
        grid{.zero_stage = 1, .parallelism = {.context = 2, .pipeline = 2}}}) {
    auto config = with_layout(divisible_config(files, 4), layout);
    CAPTURE(layout.zero_stage);
    CAPTURE(layout.ranks());
    std::vector<std::map<std::string, std::string>> saved;
    for (int const every : {0, 1, 3}) {
      config.corruption_check.interval.count = every;
      config.checkpoint.save_folder = files.folder / parallel::concat("run", layout.zero_stage, '.',
                                                                      layout.ranks(), '.', every);
      saved.push_back(tensors_of(train<bf16>(config, layout.ranks()).checkpoint));
    }
    CHECK(saved[0].size() >= 2);
    CHECK(saved[1] == saved[0]);
    CHECK(saved[2] == saved[0]);
  }
}

TEST_CASE("a bit that flips in a product leaves no trace") {
  run_files const files;
  auto config = files.config(3);
  config.model.resid_pdrop = 0;  // which might drop it
  config.corruption_check.interval.count = 1;
  std::atomic<int> products = 0;
  auto const train_struck = [&](std::string const& name, int struck) {
    products = 0;
    config.checkpoint.save_folder = files.folder / name;
    auto const out = train_guarded<float>(
        config, 3, [&](parallel::host::stream& s, std::string_view operation, auto const& written) {
          if (operation != "matmul" || ++products != struck) return;
          s.enqueue([at = reinterpret_cast<std::uint32_t*>(written.begin) +
                          written.elements * 3 / 4] { *at ^= 1U << 22; });
        });
    return tensors_of(out.checkpoint);
  };
  auto const calm = train_struck("calm", 0);
  int const all = products;
  CHECK(calm.size() >= 2);
  for (int const struck : {all / 5, all / 2, all - all / 7}) {
    CAPTURE(struck);
    CHECK(train_struck(parallel::concat("struck", struck), struck) == calm);
    CHECK(products > all);  // it was noticed, and computed again
  }
  config.corruption_check.on_transient = mpt::transient_policy::stop;
  CHECK_THROWS_AS(train_struck("stopped", all / 2), parallel::corrupted);
  config.corruption_check.interval.count = 0;
  auto const spoilt = train_struck("spoilt", all / 5);
  CHECK(spoilt.size() == calm.size());
  CHECK(spoilt != calm);
}

TEST_CASE("a rank that always computes something else ends the run by its name") {
  run_files const files;
  auto config = files.config(4);
  config.corruption_check.interval.count = 2;
  auto const plan = mpt::plan_run<float>(config, 3);
  auto const parts = tiny_run::parts_of(config);
  std::string message;
  parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
    auto own = config;
    if (comm.rank() == 1) own.model.resid_pdrop = 0.2;  // in place of a faulty processor
    bool const tells = comm.rank() == 2;
    parallel::any_communicator any(std::move(comm));
    parallel::host::device device;
    try {
      static_cast<void>(mpt::run_training<float>(own, any, device, plan, parts));
    } catch (parallel::corrupted const& found) {
      if (tells) message = found.what();
    }
  });
  CHECK(std::regex_match(
      message, std::regex("batch 2: rank 1 \\(.+\\) computes wrong gradients of .+ and [0-9]+ "
                          "more every time; .*go on from a checkpoint")));
}

}  // namespace
}  // namespace checked_batches_test
