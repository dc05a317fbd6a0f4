// A run that run_training stops and resumes through a checkpoint series has the bits of one that
// was never stopped.
#include <doctest/doctest.h>

#include <filesystem>
#include <optional>
#include <string>

#include <parallel/checkpoint/series.hpp>
#include <parallel/train/training_run.hpp>

#include "parallel/support/files.hpp"
#include "support/ring_run.hpp"

namespace series_test {
namespace {

namespace train = parallel::train;
using parallel::index;
using communicator = parallel::any_communicator;
using model_type = test::basic_ring_model<communicator>;

/// Trains up to `batches` on a layout, with the series of `folder`; adds the results to `out` and
/// returns after how many batches the run went on.
index train_to(index batches, test::layout const& config, std::filesystem::path const& folder,
               test::outcome& out) {
  std::mutex lock;
  index resumed_after = 0;
  parallel::threads::run(config.shape().ranks(), [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    train::process_groups<communicator> groups(communicator(std::move(comm)), config.shape(),
                                               config.level);
    model_type model(config.model.blocks, config.sizes.width, config.sizes.vocabulary,
                     config.model.for_single_rank<communicator>());
    train::session session(model, device, groups, test::groups_of(config), {.level = config.level});
    parallel::checkpoint::series saves(groups.world(), folder);
    std::optional<test::step_data<parallel::host::device>> data;
    train::run_options<decltype(session)> options{.batches = batches, .seed = 42};
    options.data = [&](index batch) -> train::rank_batch<test::ring_microbatch> {
      data.emplace(device, config, groups.world().rank(), batch, test::max_microbatches(config));
      return {.microbatches = data->batches(), .first_sequences = data->first_sequences()};
    };
    options.on_resume = [&](index finished, std::string const& note) {
      std::scoped_lock const guard(lock);
      resumed_after = finished;
      CHECK(note.empty());
    };
    options.on_update = [&](index finished, auto const& result) {
      std::scoped_lock const guard(lock);
      out.add(static_cast<std::size_t>(finished - 1), result);
    };
    train::run_training(session, options, saves);
    if (batches < config.num_steps) return;
    session.stepper().gather_values(session.compute());
    std::scoped_lock const guard(lock);
    test::collect(session.stepper(), out);
  });
  return resumed_after;
}

TEST_CASE(
    "checkpoint series: a resumed run, in another layout, has the bits of one without a stop") {
  test::temporary_folder const folder;
  test::layout const first{.ranks = 3, .level = test::zero::level::parameters};
  test::layout const second{.ranks = 2, .level = test::zero::level::optimizer, .microbatch = 2};
  test::outcome resumed;
  CHECK(train_to(2, first, folder.path() / "run", resumed) == 0);
  CHECK(train_to(second.num_steps, second, folder.path() / "run", resumed) == 2);
  CHECK(resumed == test::run(second));
}

}  // namespace
}  // namespace series_test
