// Runs with corruption_check, in which ranks check each other's work: the checks change no result,
// a flipped bit leaves no trace, and a rank that always computes wrong values ends the run.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/failures.hpp>

#include "mpt/train/guarded_run.hpp"

namespace checked_batches_test {
namespace {

using namespace tiny_run;
using parallel::bf16;

TEST_CASE("corruption_check: without faults no bit of a run changes") {
  run_files const files;
  for (auto const& layout :
       {grid{.data = 3}, grid{.zero_stage = 2, .data = 2, .parallelism = {.tensor = 2}},
        grid{.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2, .pipeline = 2}},
        grid{.zero_stage = 1, .parallelism = {.context = 2, .pipeline = 2}}}) {
    auto config = with_layout(divisible_config(files, 4), layout);
    CAPTURE(layout.zero_stage);
    CAPTURE(layout.ranks());
    std::vector<std::map<std::string, std::string>> saved;
    for (int const interval : {0, 1, 3}) {
      config.run.corruption_check.interval.count = interval;
      config.checkpoint.save_folder =
          files.folder /
          parallel::concat("run", layout.zero_stage, '.', layout.ranks(), '.', interval);
      saved.push_back(tensors_of(train<bf16>(config, layout.ranks()).checkpoint));
    }
    CHECK(saved[0].size() >= 2);
    CHECK(saved[1] == saved[0]);
    CHECK(saved[2] == saved[0]);
  }
}

TEST_CASE("corruption_check: a bit that flips in a matrix product leaves no trace") {
  run_files const files;
  auto config = files.config(3);
  config.model.resid_pdrop = 0;  // dropout might drop the flipped element
  config.run.corruption_check.interval.count = 1;
  std::atomic<int> product_number = 0;
  auto const train_with_flip = [&](std::string const& name, int flipped_product) {
    product_number = 0;
    config.checkpoint.save_folder = files.folder / name;
    auto const out = train_guarded<float>(
        config, 3, [&](parallel::host::stream& s, std::string_view operation, auto const& written) {
          if (operation != "matmul" || ++product_number != flipped_product) return;
          s.enqueue([element = reinterpret_cast<std::uint32_t*>(written.begin) +
                               written.elements * 3 / 4] { *element ^= 1U << 22; });
        });
    return tensors_of(out.checkpoint);
  };
  auto const undisturbed = train_with_flip("calm", 0);
  int const product_count = product_number;
  CHECK(undisturbed.size() >= 2);
  for (int const flipped_product :
       {product_count / 5, product_count / 2, product_count - product_count / 7}) {
    CAPTURE(flipped_product);
    CHECK(train_with_flip(parallel::concat("struck", flipped_product), flipped_product) ==
          undisturbed);
    CHECK(product_number > product_count);  // the wrong product was found and recomputed
  }
  config.run.corruption_check.on_transient = mpt::transient_policy::stop;
  CHECK_THROWS_AS(train_with_flip("stopped", product_count / 2), parallel::corrupted);
  config.run.corruption_check.interval.count = 0;
  auto const unchecked = train_with_flip("spoilt", product_count / 5);
  CHECK(unchecked.size() == undisturbed.size());
  CHECK(unchecked != undisturbed);
}

TEST_CASE("corruption_check: a rank that always computes wrong values is named and ends the run") {
  run_files const files;
  auto config = files.config(4);
  config.run.corruption_check.interval.count = 2;
  auto const plan = mpt::plan_run<float>(config, 3);
  auto const parts = tiny_run::parts_of(config);
  std::string message;
  parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
    auto rank_config = config;
    if (comm.rank() == 1) rank_config.model.resid_pdrop = 0.2;  // simulates a faulty processor
    bool const tells = comm.rank() == 2;
    parallel::any_communicator any(std::move(comm));
    parallel::host::device device;
    try {
      static_cast<void>(mpt::run_training<float>(rank_config, any, device, plan, parts));
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
