// A run that run_training stops and resumes through a checkpoint series has the bits of one that
// was never stopped.
#include <doctest/doctest.h>

#include <filesystem>
#include <mutex>
#include <string>

#include <parallel/checkpoint/series.hpp>
#include <parallel/train/training_run.hpp>

#include "parallel/support/files.hpp"
#include "support/ring/ring_session.hpp"

namespace series_test {
namespace {

namespace train = parallel::train;
using parallel::index;

/// Trains up to `batches` on a layout, with the series of `folder`; adds the results to `out` and
/// returns after how many batches the run went on.
index train_to(index batches, test::layout const& config, std::filesystem::path const& folder,
               test::outcome& out) {
  std::mutex lock;
  index resumed_after = 0;
  test::on_session_ranks(config, [&](test::ring_session& session, auto& groups) {
    parallel::checkpoint::series saves(groups.world(), folder);
    test::ring_batches rank_batches(config, groups);
    train::run_options<test::ring_session> options{.batches = batches, .seed = 42};
    options.data = [&](index number) { return rank_batches.batch(number); };
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
    session.gather_values();
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

TEST_CASE("checkpoint series: a folder that cannot be made ends a run before its first batch") {
  test::temporary_folder const folder;
  test::write_all(folder.path() / "file", "");
  test::outcome out;
  auto const message = test::message_of(
      [&] { static_cast<void>(train_to(2, {.ranks = 2}, folder.path() / "file" / "run", out)); });
  CHECK(test::contains(message, "cannot create this folder"));
  CHECK(out == test::outcome{});
}

}  // namespace
}  // namespace series_test
