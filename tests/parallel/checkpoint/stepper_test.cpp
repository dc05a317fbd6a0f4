// Training that one layout saves and another continues: it must have the bits of an uninterrupted
// run.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <parallel/checkpoint/difference.hpp>
#include <parallel/checkpoint/stepper.hpp>

#include "parallel/support/files.hpp"
#include "support/ring/ring_run.hpp"

namespace checkpoint_stepper_test {
namespace {

namespace fs = std::filesystem;
namespace pc = parallel::checkpoint;
using parallel::index;
using test::layout;
using test::outcome;
using rank_type = test::ring_rank<>;

std::vector<layout> const layouts = {
    {},
    {.ranks = 3, .level = test::zero::level::optimizer, .microbatch = 2},
    {.ranks = 2, .level = test::zero::level::parameters, .microbatch = 3, .replicas = 2},
    {.ranks = 2,
     .level = test::zero::level::gradients,
     .model = {.attention = {.heads = 2}},
     .tensor = 2,
     .divide_rows = true},
    {.level = test::zero::level::optimizer,
     .microbatch = 2,
     .pipeline = 2,
     .schedule = {.schedule = "1f1b"}},
    {.model = {.attention = {.heads = 2}}, .replicas = 2, .context = 3},
    {.ranks = 2,
     .level = test::zero::level::parameters,
     .model = {.attention = {.heads = 2}},
     .context = 3},
    {.ranks = 2, .microbatch = 2},
    {.ranks = 2,
     .level = test::zero::level::gradients,
     .pipeline = 2,
     .schedule = {.schedule = "zb-v", .stages_per_rank = 2}},
    {.ranks = 3,
     .level = test::zero::level::parameters,
     .pipeline = 2,
     .schedule = {.schedule = "gpipe"}},
    {.pipeline = 2, .schedule = {.schedule = "interleaved", .stages_per_rank = 2}},
    {.model = {.attention = {.heads = 2}}, .context = 3, .tensor = 2}};

/// Calls f(rank) on every rank of a layout.
void on_ranks(layout const& run_layout, std::function<void(rank_type&)> const& f) {
  parallel::threads::run(run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    rank_type trainer(parallel::any_communicator(std::move(comm)), run_layout);
    f(trainer);
  });
}

/// The layout with a model that all layouts can divide.
layout with_steps(layout run_layout) {
  run_layout.model.attention.heads = 2;
  run_layout.model.blocks = 4;  // for two pipeline ranks with two chunks each
  run_layout.sizes.vocabulary = 14;
  run_layout.sizes.length = 6;
  run_layout.frozen = {"block.1.up"};
  return run_layout;
}

outcome uninterrupted() { return test::run(with_steps({})); }

/// Saves after two batches of a layout, with the program's own state.
fs::path save_of(layout const& run_layout, fs::path const& root) {
  on_ranks(run_layout, [&](auto& trainer) {
    for (index i = 0; i < 2; ++i) static_cast<void>(trainer.step(i));
    pc::run_state const state{.batches = 2, .program_state = {{"seen", "what I want to remember"}}};
    auto const saved =
        pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), root, state);
    CHECK(saved == root / "ep0-ba2");
  });
  return root / "ep0-ba2";
}

/// A layout loads the checkpoint, saves it again with equal parameters and states, and continues
/// to the bits of an uninterrupted run.
void check_continued(fs::path const& saved, layout const& next, fs::path const& second_folder,
                     outcome const& expected) {
  outcome got;
  std::mutex lock;
  on_ranks(next, [&](auto& trainer) {
    trainer.stepper().initialise(99);
    auto const state =
        pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(), saved.parent_path());
    REQUIRE(state.has_value());
    CHECK(state->batches == 2);
    CHECK(state->program_state == nlohmann::json{{"seen", "what I want to remember"}});
    pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), second_folder, *state);
    auto const result = trainer.step(2);
    std::scoped_lock const guard(lock);
    got.add(0, result);
    test::collect(trainer.stepper(), got);
  });
  CHECK(pc::differences(pc::checkpoint_reader(saved),
                        pc::checkpoint_reader(second_folder / saved.filename()))
            .empty());
  fs::remove_all(second_folder);
  CHECK(got.complete());
  CHECK(got.losses.back() == expected.losses.back());
  CHECK(got.parameters == expected.parameters);
  CHECK(got.gradients == expected.gradients);
}

TEST_CASE("stepper checkpoint: a layout continues another's checkpoint to the same bits") {
  test::temporary_folder const folder;
  auto const expected = uninterrupted();
  for (std::size_t a = 0; a < layouts.size(); ++a) {
    CAPTURE(a);
    auto const saved = save_of(with_steps(layouts[a]), folder / std::to_string(a));
    CHECK(pc::checkpoint_reader(saved).contains("block.0.down.weight#momentum"));
    check_continued(saved, with_steps(layouts[(a + 1) % layouts.size()]), folder / "again",
                    expected);
  }
}

TEST_CASE(
    "[full] stepper checkpoint: any layout continues any other's checkpoint to the same bits") {
  test::temporary_folder const folder;
  auto const expected = uninterrupted();
  index pairs = 0;
  for (std::size_t a = 0; a < layouts.size(); ++a) {
    CAPTURE(a);
    auto const saved = save_of(with_steps(layouts[a]), folder / std::to_string(a));
    for (std::size_t b = 0; b < layouts.size(); ++b, ++pairs) {
      CAPTURE(b);
      check_continued(saved, with_steps(layouts[b]), folder / "again", expected);
    }
  }
  MESSAGE(pairs, " pairs of ", layouts.size(), " layouts");
  CHECK(layouts.size() >= 10);
}

TEST_CASE("stepper checkpoint: experts divided among 4, 1 and 2 ranks continue each other's runs") {
  using enum test::zero::level;
  std::vector<layout> chain{
      {.ranks = 4, .level = gradients, .experts = 4},
      {},
      {.ranks = 4, .level = parameters, .experts = 2},
      {.ranks = 2, .level = optimizer, .replicas = 2, .tensor = 2, .experts = 4},
      {.ranks = 2, .level = parameters, .pipeline = 2, .experts = 2}};
  for (auto& run_layout : chain) {
    run_layout.model = {
        .attention = {.heads = 2}, .experts = 8, .balance_set = parallel::balance_set::sequence};
    run_layout.sizes = {.length = 6, .batch = 8};
  }
  test::temporary_folder const folder;
  auto const expected = test::run(chain[1]);
  for (std::size_t a = 0; a < chain.size(); ++a) {
    CAPTURE(a);
    auto const saved = save_of(chain[a], folder / std::to_string(a));
    CHECK(pc::checkpoint_reader(saved).contains("block.0.experts.up#momentum"));
    check_continued(saved, chain[(a + 1) % chain.size()], folder / "again", expected);
  }
}

TEST_CASE(
    "stepper checkpoint: without a checkpoint nothing is loaded, and the newest ones are kept") {
  test::temporary_folder const folder;
  on_ranks(with_steps({.ranks = 2}), [&](auto& trainer) {
    CHECK_FALSE(pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run")
                    .has_value());
    for (index const batches : {1, 2, 3})
      pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run",
               {.batches = batches}, {.keep = 2});
  });
  CHECK(pc::list_checkpoints(folder / "run").size() == 2);
  CHECK(fs::read_symlink(folder / "run/latest") == "ep0-ba3");
}

TEST_CASE("stepper checkpoint: loading weights only leaves the optimizer at its start") {
  test::temporary_folder const folder;

  on_ranks(with_steps({}), [&](auto& trainer) {
    static_cast<void>(trainer.step(0));
    pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run",
             {.batches = 1});
  });
  on_ranks(with_steps({}), [&](auto& trainer) {
    pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run",
               pc::content::weights);
    for (auto const& unit : trainer.stepper().units())
      for (auto const& segment : unit.memory.segments())
        for (auto const& state : segment.states)
          for (auto const element : state.span()) CHECK(element == 0);
  });
}

/// Changes a byte of a tensor of which tensor ranks read columns, so that no read sees a whole
/// slice.
void damage(fs::path const& checkpoint) {
  auto const slice = pc::checkpoint_reader(checkpoint).at("block.0.down.weight").slices.at(0);
  std::fstream file(checkpoint / slice.file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(slice.offset + slice.bytes / 2));
  file.put('\x7f');
}

TEST_CASE("stepper checkpoint: a damaged file is found before anything is loaded, in any layout") {
  test::temporary_folder const folder;
  on_ranks(with_steps({}), [&](auto& trainer) {
    pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run",
             {.batches = 1});
  });
  damage(folder / "run/ep0-ba1");
  for (auto const& run_layout : {layouts[0], layouts[2], layouts[3]})
    CHECK(test::contains(test::message_of([&] {
                           on_ranks(with_steps(run_layout), [&](auto& trainer) {
                             pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(),
                                        folder / "run");
                           });
                         }),
                         "are damaged: their checksum is"));
}

TEST_CASE("stepper checkpoint: a run continues from the checkpoint before the damaged one") {
  test::temporary_folder const folder;
  on_ranks(with_steps({}), [&](auto& trainer) {
    for (index const batches : {1, 2})
      pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run",
               {.batches = batches});
  });
  damage(folder / "run/ep0-ba2");
  for (auto const& run_layout : {layouts[0], layouts[2]}) {
    fs::remove_all(folder / "copy");
    fs::copy(folder / "run", folder / "copy",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    on_ranks(with_steps(run_layout), [&](auto& trainer) {
      auto const found =
          pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "copy");
      REQUIRE(found.has_value());
      CHECK(found->batches == 1);
      CHECK(test::contains(found->note, "are damaged"));
      CHECK(test::contains(found->note, "went back to " + (folder / "copy/ep0-ba1").native()));
      pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "copy",
               {.batches = 3}, {.keep = 2});
    });
    // The damaged one does not count as a kept checkpoint.
    CHECK(fs::exists(folder / "copy/ep0-ba1"));
    CHECK(fs::exists(folder / "copy/ep0-ba2-damaged"));
    CHECK(!fs::exists(folder / "copy/ep0-ba2"));
    CHECK(fs::exists(folder / "copy/ep0-ba3"));
  }
}

TEST_CASE(
    "stepper checkpoint: a folder with only damaged checkpoints is an error, not a fresh start") {
  test::temporary_folder const folder;
  fs::create_directories(folder / "run/ep0-ba7");
  CHECK(test::contains(test::message_of([&] {
                         on_ranks(with_steps({.ranks = 2}), [&](auto& trainer) {
                           pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(),
                                      folder / "run");
                         });
                       }),
                       "there is no valid checkpoint"));
}

TEST_CASE(
    "stepper checkpoint: another model's checkpoint is refused with the name of the difference") {
  test::temporary_folder const folder;
  auto const save_as = [&](layout const& run_layout, std::string const& name) {
    on_ranks(run_layout, [&](auto& trainer) {
      pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / name,
               {.batches = 1});
    });
  };
  auto wider = with_steps({});
  wider.model.hidden = 20;
  save_as(wider, "wider");
  auto untied = with_steps({});
  auto const load_from = [&](layout const& run_layout, std::string const& name) {
    return test::message_of([&] {
      on_ranks(run_layout, [&](auto& trainer) {
        pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / name);
      });
    });
  };
  CHECK(test::contains(load_from(with_steps({}), "wider"),
                       "up.weight is [20, 4], the model's is [12, 4]; use the configuration it was "
                       "trained with"));
  untied.model.tied = false;
  save_as(with_steps({}), "tied");
  CHECK(test::contains(load_from(untied, "tied"), "has no tensor \"head\""));
}

TEST_CASE(
    "stepper checkpoint: with more blocks than the model it can give weights, but not be resumed") {
  test::temporary_folder const folder;
  auto const full_layout = with_steps({.ranks = 2, .level = test::zero::level::parameters});
  auto fewer = full_layout;
  --fewer.model.blocks;
  on_ranks(full_layout, [&](auto& trainer) {
    pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run",
             {.batches = 1});
  });
  auto const load = [&](pc::content content) {
    return test::message_of([&] {
      on_ranks(fewer, [&](auto& trainer) {
        pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run",
                   content);
      });
    });
  };
  auto const load_message = load(pc::content::everything);
  CAPTURE(load_message);
  CHECK(test::contains(load_message,
                       "ep0-ba1: has the tensor \"block.3.down.bias\", which the model has "
                       "not: it is another model's; give the one that was saved, or load "
                       "content::weights"));
  CHECK(load(pc::content::weights).empty());
}

TEST_CASE(
    "stepper checkpoint: ranks that do not resume together, or save other content, get an error") {
  test::temporary_folder const folder;
  auto const two = with_steps({.ranks = 2});
  auto const load_message = [&](auto const& act) {
    return test::message_of(
        [&] { on_ranks(two, [&](auto& trainer) { act(trainer, trainer.rank()); }); });
  };
  auto const save = [&](auto& trainer, std::string const& name, pc::content content,
                        index batches = 1) {
    pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / name,
             {.batches = batches}, {.saved = content});
  };
  CHECK(test::contains(load_message([&](auto& trainer, int rank) {
                         if (rank == 1) return void(trainer.step(0));
                         pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(),
                                    folder / "run");
                       }),
                       "rank 0 begins to resume from a checkpoint; rank 1 begins step 0 of"));
  CHECK(test::contains(load_message([&](auto& trainer, int rank) {
                         save(trainer, "run",
                              rank == 0 ? pc::content::everything : pc::content::weights);
                       }),
                       "run/ep0-ba1, weights alone; all ranks must make the same calls"));
  CHECK(test::contains(load_message([&](auto& trainer, int rank) {
                         save(trainer, rank == 0 ? "run" : "other", pc::content::everything);
                       }),
                       "other/ep0-ba1; all ranks must make the same calls"));
  CHECK(test::contains(
      load_message([&](auto& trainer, int) { save(trainer, "run", pc::content::everything, -1); }),
      "a run's state says -1 batches and epoch 0; both must be 0 or more"));
}

TEST_CASE("stepper checkpoint: a checkpoint of weights only cannot be resumed") {
  test::temporary_folder const folder;
  on_ranks(with_steps({}), [&](auto& trainer) {
    pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run",
             {.batches = 1}, {.saved = pc::content::weights});
  });
  CHECK(test::contains(
      test::message_of([&] {
        on_ranks(with_steps({}), [&](auto& trainer) {
          pc::resume(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run");
        });
      }),
      "#momentum\", a state of the optimizer: it was saved by another one, or holds weights alone; "
      "give the same optimizer, or load content::weights"));
}

TEST_CASE(
    "stepper checkpoint: names of the library's own values are refused for the program's state") {
  test::temporary_folder const folder;
  CHECK(test::contains(
      test::message_of([&] {
        on_ranks(with_steps({}), [&](auto& trainer) {
          pc::save(trainer.stepper(), trainer.world(), trainer.exchanges(), folder / "run",
                   {.program_state = {{"batches", 3}}});
        });
      }),
      "run_state::program_state must be a JSON object without \"batches\" and \"epoch\""));
}

}  // namespace
}  // namespace checkpoint_stepper_test
