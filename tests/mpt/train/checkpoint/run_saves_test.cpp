// Runs that also save onto their nodes' local disks, and resume from these with the same bits.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/checkpoint/run_saves.hpp>
#include <parallel/checkpoint/checkpoints.hpp>

#include "mpt/train/tiny_run.hpp"

namespace run_saves_test {
namespace {

using namespace tiny_run;
using test::contains;
namespace pc = parallel::checkpoint;

std::vector<std::string> const two_nodes{"a", "a", "b", "b"};

/// A run that saves into save_folder every four batches and onto two nodes' disks every batch.
train_config locally_saving_config(run_files const& files, std::string const& name) {
  auto config = files.config(8);
  config.execution.zero_stage = 1;
  config.checkpoint.save_folder = files.folder / name;
  config.checkpoint.local_save_folder = files.folder / (name + "-{node_rank}");
  config.checkpoint.save_interval = {4, time_unit::batch};
  config.checkpoint.local_save_interval = {1, time_unit::batch};
  config.checkpoint.autoresume = true;
  return config;
}

/// Trains and fails just before the `times`th save into save_folder.
void fail_at_shared_save(train_config const& config, int times = 1) {
  auto const message = test::message_of([&] {
    (void)train<float>(config, 4,
                       {false,
                        [&](int, std::string_view step) {
                          if (step == "create root" && --times == 0) parallel::fail("stopped");
                        },
                        two_nodes});
  });
  CHECK(message == "stopped");
}

TEST_CASE("local saves: they change neither the run nor its checkpoints in save_folder") {
  run_files const files;
  auto plain = locally_saving_config(files, "plain");
  plain.checkpoint.local_save_folder.clear();
  auto const expected = train<float>(plain, 4);
  for (bool const in_background : {true, false}) {
    auto const config = locally_saving_config(files, in_background ? "behind" : "stopping");
    auto const got = train<float>(config, 4, {in_background, {}, two_nodes});
    CHECK(got.saves.saves == 2);
    CHECK(got.local_saves.saves <= 6);
    CHECK(got.local_saves.saves >= (in_background ? 1 : 6));
    CHECK(expected.local_saves.saves == 0);
    CHECK(got.loss == expected.loss);
    CHECK(tensors_of(got.checkpoint) == tensors_of(expected.checkpoint));
    for (std::string const node : {"-0", "-1"})
      CHECK(pc::list_folders(config.checkpoint.save_folder + node).size() == 1);
  }
}

TEST_CASE(
    "local saves: a run resumes from its nodes' disks with the same bits, if one is lost too") {
  run_files const files;
  auto undisturbed = locally_saving_config(files, "undisturbed");
  undisturbed.checkpoint.local_save_folder.clear();
  auto const expected = tensors_of(train<float>(undisturbed, 4).checkpoint);
  for (std::string const lost : {"-0", "-1", "none"}) {
    auto config = locally_saving_config(files, "lost" + lost);
    config.output.metrics_file = files.folder / ("metrics" + lost);
    fail_at_shared_save(config);
    CHECK_FALSE(pc::latest(config.checkpoint.save_folder).folder);
    fs::remove_all(config.checkpoint.save_folder + lost);
    fs::remove(config.output.metrics_file);
    auto const got = train<float>(config, 4, {.nodes = two_nodes});
    CHECK(got.batches == 8);
    CHECK(records(config.output.metrics_file).front().at("time/batch") == 4);
    CHECK(tensors_of(got.checkpoint) == expected);
  }
}

TEST_CASE("local saves: fewer ranks on fewer nodes resume from them in the canonical order") {
  // train_on is used, since ranks with few nodes of the reduction tree need less than the plan
  auto const trained = [](train_config const& config, int ranks) {
    return train_on<float>(
        config, ranks, [] { return parallel::host::device(); }, [](auto const&, auto const&) {});
  };
  run_files const files;
  auto undisturbed = locally_saving_config(files, "undisturbed");
  undisturbed.execution.reduction_order = parallel::zero::reduction_order::canonical_tree;
  undisturbed.checkpoint.local_save_folder.clear();
  auto const expected = content_of(trained(undisturbed, 4).checkpoint);
  auto config = locally_saving_config(files, "run");
  config.execution.reduction_order = undisturbed.execution.reduction_order;
  fail_at_shared_save(config, 2);  // the first save into save_folder succeeds
  CHECK(pc::latest(config.checkpoint.save_folder).folder->filename() == "ep1-ba4");
  fs::remove_all(config.checkpoint.save_folder + "-1");
  config.execution.zero_stage = 3;
  auto const got = trained(config, 3);  // one node of three ranks
  CHECK(fs::exists(config.checkpoint.save_folder + "/ep2-ba7"));
  CHECK(content_of(got.checkpoint) == expected);
}

TEST_CASE(
    "local saves: checkpoints left on nodes' disks are not overwritten without save_overwrite") {
  run_files const files;
  auto config = locally_saving_config(files, "run");
  fail_at_shared_save(config);
  config.checkpoint.autoresume = false;
  CHECK(contains(test::message_of([&] { (void)train<float>(config, 4, {.nodes = two_nodes}); }),
                 ": holds checkpoints of an earlier run; continue it with autoresume=true"));
  CHECK(contains(pc::note_on_local_checkpoint(config.checkpoint.save_folder),
                 "a newer checkpoint, ep1-ba3, is on the nodes' own disks"));
  config.checkpoint.save_overwrite = true;
  CHECK(train<float>(config, 4, {.nodes = two_nodes}).batches == 8);
  CHECK(pc::note_on_local_checkpoint(config.checkpoint.save_folder).empty());
}

}  // namespace
}  // namespace run_saves_test
