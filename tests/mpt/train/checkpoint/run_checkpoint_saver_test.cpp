// Background saves, written while training goes on: their checkpoints equal those of blocking
// saves; no rank waits or hangs, and no save is lost.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/log/run_journal.hpp>
#include <mpt/model/model.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/setup/checkpoint_bytes.hpp>
#include <mpt/train/setup/parameter_groups.hpp>
#include <mpt/train/setup/run_mesh.hpp>
#include <parallel/checkpoint/stepper_saver.hpp>
#include <support/file_size_limit.hpp>

#include "mpt/train/guarded_run.hpp"

namespace run_checkpoint_saver_test {
namespace {

using namespace tiny_run;
using parallel::bf16;
using test::contains;
namespace pc = parallel::checkpoint;

/// Calls f(stepper, communicator, exchange stream) on every rank, with initial parameters.
template <class F>
void with_steppers(train_config const& config, int ranks, F const& f) {
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::any_communicator any(std::move(comm));
    parallel::host::device device;
    parallel::host::stream exchanges;
    mpt::run_mesh mesh(config.execution, mpt::run_layout(config, any.size()), any, device);
    mpt::model<float> net(config.model, mesh.groups_of_model());
    parallel::train::stepper step(net, device, mesh.ranks(), groups_of(config.optimizer, net),
                                  {.level = mpt::level_of(config.execution)});
    step.initialise(config.run.seed);
    f(step, any, exchanges);
  });
}

/// The state that a checkpoint holds for a run after this many batches.
pc::run_state state_of(train_config const& config, std::int64_t batches) {
  return mpt::saved_state(config, {.batches = batches, .data = {.samples = 20}});
}

/// The contents of a folder of checkpoints: file contents and targets of links, by path. The
/// journal of the run, which has times, is left out.
std::map<std::string, std::string> content_of(fs::path const& root) {
  std::map<std::string, std::string> out;
  for (auto const& entry : fs::recursive_directory_iterator(root)) {
    auto const name = entry.path().lexically_relative(root).string();
    if (entry.is_symlink())
      out[name] = fs::read_symlink(entry.path());
    else if (entry.is_regular_file() && name != mpt::journal_name)
      out[name] = test::read_all(entry.path());
  }
  return out;
}

std::size_t lines_of(fs::path const& file) {
  if (!fs::exists(file)) return 0;
  auto const text = test::read_all(file);
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

/// Waits until is_done() or for `at_most`; returns whether is_done() became true.
template <class IsDone>
bool wait_for(IsDone const& is_done, std::chrono::milliseconds at_most = std::chrono::seconds(20)) {
  auto const deadline = std::chrono::steady_clock::now() + at_most;
  while (!is_done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST_CASE("saver: a save holds the state at its start and appears when every rank has written") {
  run_files const files;
  auto config = files.config(8);
  config.execution.zero_stage = 1;
  auto const config_for = [&](std::string const& name) {
    auto out = config;
    out.checkpoint.save_folder = files.folder / name;
    return out;
  };
  auto const expected = config_for("expected"), changed = config_for("later"),
             written = config_for("got");
  std::latch gate(1);
  with_steppers(config, 2, [&](auto& step, auto& comm, auto& exchanges) {
    auto const state = state_of(config, 2);
    (void)pc::save(step, comm, exchanges, expected.checkpoint.save_folder, state);
    auto const hold_second_rank = [&, rank = comm.rank()](std::string_view action) {
      if (rank == 1 && action == "write slice") gate.wait();  // the second rank's thread is held
    };
    pc::stepper_saver saver(step, comm, exchanges, written.checkpoint.save_folder, true,
                            {.on_action = hold_second_rank});
    CHECK_FALSE(saver.pending());
    saver.advance();
    saver.complete();  // nothing to do
    saver.save(state);
    step.initialise(99);  // "training" changes everything
    auto const target = pc::target_of(written.checkpoint.save_folder, state);
    auto const records_of_first = target.temporary() / "rank-00000-F32-000.safetensors";
    for (int batch = 0; batch < 5; ++batch) {
      saver.advance();
      CHECK(saver.pending());
      CHECK(saver.last().empty());
      CHECK_FALSE(fs::exists(target.folder()));
      // the first rank's file becomes complete meanwhile
      if (comm.rank() == 0)
        CHECK(wait_for([&] {
          return fs::exists(records_of_first) &&
                 fs::file_size(records_of_first) ==
                     fs::file_size(pc::target_of(expected.checkpoint.save_folder, state).folder() /
                                   records_of_first.filename());
        }));
    }
    CHECK_FALSE(fs::exists(written.checkpoint.save_folder / fs::path("latest")));
    comm.barrier(exchanges).wait();
    if (comm.rank() == 1) gate.count_down();
    while (saver.pending()) saver.advance();
    CHECK(saver.last() == target.folder());
    CHECK(saver.costs().saves == 1);
    CHECK(saver.costs().held_up_seconds > 0);
    CHECK(saver.costs().seconds > saver.costs().held_up_seconds);
    (void)pc::save(step, comm, exchanges, changed.checkpoint.save_folder, state);
  });
  auto const whole = content_of(files.folder / "expected");
  CHECK(whole.size() == 4);  // two ranks, manifest, latest
  CHECK(content_of(files.folder / "got") == whole);
  CHECK(content_of(files.folder / "later") != whole);  // "training" has changed the parameters
}

TEST_CASE("saver: a new save first completes the one that is under way") {
  run_files const files;
  auto config = files.config(8);
  config.checkpoint.save_folder = files.folder / "run";
  config.checkpoint.save_num_checkpoints_to_keep = 2;
  with_steppers(config, 2, [&](auto& step, auto& comm, auto& exchanges) {
    pc::stepper_saver saver(step, comm, exchanges, config.checkpoint.save_folder, true,
                            mpt::save_options_of(config.checkpoint));
    for (std::int64_t const batch : {1, 2, 3}) {
      step.initialise(static_cast<std::uint64_t>(batch));
      saver.save(state_of(config, batch));
      CHECK(saver.pending());
      if (batch > 1) CHECK(saver.last().filename() == pc::checkpoint_id{0, batch - 1}.text());
    }
    saver.complete();
    CHECK(saver.last().filename() == "ep0-ba3");
  });
  CHECK(fs::read_symlink(files.folder / "run" / "latest") == "ep0-ba3");
  CHECK(pc::list_checkpoints(files.folder / "run").size() == 2);
}

TEST_CASE("saver: save_overwrite replaces an earlier run's checkpoints at the first save only") {
  // The run starts anew, or from one of these checkpoints, named in any way that users write.
  for (bool const in_background : {true, false})
    for (std::string const name : {"", "ep0-ba2", "ep0-ba2/", "link"}) {
      bool const starts_from_checkpoint = !name.empty();
      CAPTURE(in_background);
      CAPTURE(name);
      run_files const files;
      auto config = files.config(8);
      auto const root = files.folder / "run";
      config.checkpoint.save_folder = root;
      config.checkpoint.save_overwrite = true;
      auto const saved_batches = [&] {
        std::vector<std::int64_t> out;
        for (auto const& entry : pc::list_checkpoints(root)) out.push_back(entry.id.batch);
        return out;
      };
      with_steppers(config, 2, [&](auto& step, auto& comm, auto& exchanges) {
        for (int const batch : {1, 2, 4, 6})
          (void)pc::save(step, comm, exchanges, root, state_of(config, batch));
        comm.barrier(exchanges).wait();
        if (comm.rank() == 0) fs::create_directory_symlink("ep0-ba2", root / "link");
        if (comm.rank() == 0) fs::create_directory_symlink("ep0-ba4", root / "best");
        comm.barrier(exchanges).wait();
        auto const start = starts_from_checkpoint ? root / name : fs::path();
        pc::stepper_saver saver(step, comm, exchanges, root, in_background,
                                mpt::save_options_of(config.checkpoint, {}, {}, start));
        comm.barrier(exchanges).wait();
        for (int const batch : {3, 4, 5}) {
          saver.save(state_of(config, batch));
          saver.complete();
          if (batch > 3 || comm.rank() == 1) continue;
          CHECK(!fs::is_symlink(root / "best"));  // its checkpoint is replaced
          CHECK(saved_batches() == (!starts_from_checkpoint ? std::vector<std::int64_t>{3}
                                                            : std::vector<std::int64_t>{3, 2, 1}));
        }
      });
      CHECK(saved_batches() == (!starts_from_checkpoint
                                    ? std::vector<std::int64_t>{5, 4, 3}
                                    : std::vector<std::int64_t>{5, 4, 3, 2, 1}));
    }
}

TEST_CASE(
    "resumed run: other streams or separators are refused where the checkpoint records them") {
  auto config = run_files().config(8);
  config.data.train_loader.streams.resize(2);
  config.data.train_loader.streams[0].weight.proportion = 0.9;
  config.data.train_loader.eos_token_id = 1;
  config.model.attn.attn_uses_sequence_id = true;
  auto const saved_order =
      mpt::detail::data_order_of(config.model, config.data, config.optimizer, config.run, {20});
  auto const refusal = [&](nlohmann::json const& saved) {
    return test::message_of([&] {
      mpt::detail::require_same_order(
          saved,
          mpt::detail::data_order_of(config.model, config.data, config.optimizer, config.run, {20}),
          "ep0-ba1");
    });
  };
  CHECK(refusal(saved_order) == "");
  auto old_format = saved_order;  // of a version that did not record these settings
  for (char const* const key : {"shares_of_streams", "eos_token_id", "bos_token_id"})
    old_format.erase(key);
  CHECK(refusal(old_format) == "");
  config.data.train_loader.eos_token_id = 2;
  CHECK(test::contains(refusal(saved_order), "was trained with eos_token_id = 1, this run has 2"));
  config.data.train_loader.eos_token_id = 1;
  config.data.train_loader.streams[0].weight.proportion = 0.1;
  CHECK(test::contains(refusal(saved_order), "was trained with shares_of_streams = "));
  config.data.train_loader.streams.pop_back();
  auto const other_data = mpt::detail::data_order_of(config.model, config.data, config.optimizer,
                                                     config.run, {20, "those of before"});
  CHECK(test::contains(
      test::message_of([&] {
        mpt::detail::require_same_order(
            other_data,
            mpt::detail::data_order_of(config.model, config.data, config.optimizer, config.run,
                                       {20, "others"}),
            "ep0-ba1");
      }),
      "ep0-ba1: was trained with other data of train_loader (examples, their order"));
  old_format["target_prompts"] = "none";  // the checkpoint is of examples, the run of text
  CHECK(test::contains(refusal(old_format), "ep0-ba1: was trained with "));
}

TEST_CASE("saver: rank 0's thread publishes a checkpoint and removes old ones, and no rank waits") {
  run_files const files;
  auto config = files.config(8);
  config.checkpoint.save_folder = files.folder / "run";
  config.checkpoint.save_num_checkpoints_to_keep = 1;
  auto const folder = [&](int batch) {
    return files.folder / "run" / pc::checkpoint_id{0, batch}.text();
  };
  for (std::string const held_action : {"rename link", "remove trash"}) {
    CAPTURE(held_action);
    int const batch = held_action == "rename link" ? 1 : 2;
    std::latch gate(1), reached(1);
    with_steppers(config, 2, [&](auto& step, auto& comm, auto& exchanges) {
      auto const hold_action = [&](std::string_view action) {
        if (!test::contains(std::string(action), held_action)) return;
        reached.count_down();
        gate.wait();
      };
      pc::stepper_saver saver(step, comm, exchanges, config.checkpoint.save_folder, true,
                              mpt::save_options_of(config.checkpoint, hold_action));
      saver.save(state_of(config, batch));
      auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      bool is_held = false;  // whether rank 0's thread has reached the action
      while (!is_held && std::chrono::steady_clock::now() < deadline) {
        saver.advance();
        std::int64_t seen = reached.try_wait() ? 1 : 0;
        comm.broadcast(exchanges, std::span<std::int64_t>(&seen, 1), 0).wait();
        is_held = seen == 1;
      }
      CHECK(is_held);
      saver.advance();
      CHECK(saver.pending());
      CHECK(saver.last().empty());
      comm.barrier(exchanges).wait();
      if (comm.rank() == 0) gate.count_down();
      saver.complete();
      CHECK(saver.last() == folder(batch));
    });
    CHECK(fs::read_symlink(files.folder / "run" / "latest") == folder(batch).filename());
    CHECK_FALSE(fs::exists(folder(batch - 1)));
  }
}

TEST_CASE("saver: an error while a checkpoint is published stops the run") {
  run_files const files;
  auto config = files.config(8);
  config.checkpoint.save_folder = files.folder / "run";
  auto const message = test::message_of([&] {
    with_steppers(config, 2, [&](auto& step, auto& comm, auto& exchanges) {
      auto const fail = [](std::string_view action) {
        parallel::require(action != "rename link", "the disk is gone");
      };
      pc::stepper_saver saver(step, comm, exchanges, config.checkpoint.save_folder, true,
                              {.on_action = fail});
      saver.save(state_of(config, 1));
      while (saver.pending()) saver.advance();
    });
  });
  CHECK(contains(message, "the disk is gone"));
}

TEST_CASE("saver: a blocking save is complete when `save` returns") {
  run_files const files;
  auto config = files.config(8);
  config.checkpoint.save_folder = files.folder / "run";
  with_steppers(config, 2, [&](auto& step, auto& comm, auto& exchanges) {
    pc::stepper_saver saver(step, comm, exchanges, config.checkpoint.save_folder, false);
    saver.save(state_of(config, 2));
    CHECK_FALSE(saver.pending());
    CHECK(saver.last().filename() == "ep0-ba2");
    CHECK(fs::exists(saver.last() / "manifest.json"));
  });
}

TEST_CASE(
    "bytes_to_save: the plan is at least the saved bytes, and exceeds them only by padding; "
    "checkpoint_bytes is their sum") {
  run_files const files;
  for (std::size_t index = 0; index < grids.size(); ++index) {
    CAPTURE(index);
    auto config = with_layout(divisible_config(files, 1), grids[index]);
    config.optimizer.disable_grad = {{"norm_1.weight", ""}};
    config.checkpoint.save_folder = files.folder / std::to_string(index);
    config.checkpoint.save_weights_only = index % 2 == 1;
    auto const plan = mpt::plan_run<bf16>(config, grids[index].ranks());
    pc::checkpoint_reader const saved(train<bf16>(config, grids[index].ranks()).checkpoint);
    std::map<std::string, std::size_t> by_file;
    for (auto const& [name, tensor] : saved.tensors())
      for (auto const& slice : tensor.slices) by_file[slice.file.substr(0, 10)] += slice.bytes;
    std::size_t largest = 0;
    for (auto const& [rank, bytes] : by_file) largest = std::max(largest, bytes);
    std::size_t planned = 0;
    for (auto const& rank : plan.by_pipeline_rank)
      planned = std::max(planned, bytes_to_save(config.checkpoint, rank));
    CHECK(largest <= planned);
    CHECK(10 * largest >= 8 * planned);
    std::size_t total = 0;
    for (auto const& [rank, bytes] : by_file) total += bytes;
    CHECK(total == mpt::checkpoint_bytes<bf16>(config));
  }
}

TEST_CASE_TEMPLATE("saver: background and blocking saves of a run leave the same checkpoints", T,
                   float, bf16) {
  run_files const files;
  auto config = files.config(5);
  config.checkpoint.save_interval = {1, time_unit::batch};
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {2, time_unit::batch};
  for (int const stage : {0, 3}) {
    config.execution.zero_stage = stage;
    auto const root = [&](std::string const& name) {
      config.checkpoint.save_folder = files.folder / (name + std::to_string(stage));
      return fs::path(config.checkpoint.save_folder);
    };
    auto const blocking = root("stopping");
    (void)train<T>(config, 2, {.in_background = false});
    auto const expected = content_of(blocking);
    CHECK(expected.contains("ep0-ba1/manifest.json"));
    CHECK(expected.at("latest") == "ep1-ba5");
    auto const in_background = root("behind");
    CHECK(train<T>(config, 2).checkpoint == in_background / "ep1-ba5");
    CHECK(content_of(in_background) == expected);
    auto const guarded = root("elsewhere");
    (void)train_guarded<T>(config, 2);
    CHECK(content_of(guarded) == expected);
  }
}

constexpr std::int64_t save_interval = 100'000;  // in batches; the second save is never reached

/// A run on two ranks that is resumed at batch save_interval - 1: it saves after its first batch.
struct long_run {
  long_run() {
    auto start = files.config(1);
    start.checkpoint.save_folder = files.folder / "start";
    with_steppers(start, 2, [&](auto& step, auto& comm, auto& exchanges) {
      auto state = state_of(start, save_interval - 1);
      state.epoch = (save_interval - 1) / 3;  // an epoch has three batches
      (void)pc::save(step, comm, exchanges, start.checkpoint.save_folder, state);
    });
    config = files.config(2 * save_interval);
    config.optimizer.scheduler.t_max = config.run.max_duration;
    config.checkpoint.load_path = files.folder / "start";
    config.checkpoint.save_folder = files.folder / "run";
    config.checkpoint.save_interval = {save_interval, time_unit::batch};
    config.output.metrics_file = files.folder / "metrics.jsonl";
  }
  [[nodiscard]] std::size_t batches() const { return lines_of(files.folder / "metrics.jsonl"); }
  [[nodiscard]] bool saved() const { return fs::exists(files.folder / "run" / "latest"); }

  run_files const files;
  train_config config;
};

TEST_CASE("background save: batches are trained while it is written, and it appears soon after") {
  for (bool const in_background : {true, false}) {  // as a control, a blocking save stops training
    CAPTURE(in_background);
    long_run const run;
    std::atomic<bool> went_on = false;
    std::atomic<bool> too_early = false;
    std::atomic<std::size_t> batches_at_commit = 0;
    std::atomic<bool> held = false;
    auto const message = test::message_of([&] {
      (void)train<float>(run.config, 2,
                         {in_background, [&](int rank, std::string_view step) {
                            if (rank == 1 && step == "write slice" && !held.exchange(true)) {
                              went_on =
                                  wait_for([&] { return run.batches() >= 4; },
                                           std::chrono::milliseconds(in_background ? 20'000 : 200));
                              too_early = run.saved();
                            }
                            if (step == "rename folder") batches_at_commit = run.batches();
                            if (step == "flush root") parallel::fail("seen enough");
                          }});
    });
    CHECK(contains(message, "seen enough"));
    CHECK(went_on == in_background);
    CHECK_FALSE(too_early);
    CHECK(run.saved());
    CHECK(batches_at_commit < static_cast<std::size_t>(save_interval));  // before the next save
    if (in_background)
      CHECK(batches_at_commit >= 4);
    else
      CHECK(batches_at_commit == 1);
    pc::checkpoint_reader(run.files.folder / "run" / "latest").verify();
  }
}

TEST_CASE("saver: when one rank cannot write, the run ends on all ranks with that rank's message") {
  for (int const rank : {0, 1}) {
    long_run const run;
    auto const message = test::message_of([&] {
      (void)train<float>(run.config, 2, {true, [&](int saving_rank, std::string_view step) {
                                           if (saving_rank == rank && step == "flush rank file")
                                             parallel::fail("the disk of ", saving_rank,
                                                            " is gone");
                                         }});
    });
    CHECK(message == parallel::concat("the disk of ", rank, " is gone"));
    CHECK_FALSE(run.saved());
  }
}

TEST_CASE("saver: a full disk ends the run, which can be resumed from the checkpoint before") {
  run_files const files;
  for (int const ranks : {1, 3}) {
    auto config = files.config(2);
    config.checkpoint.save_folder = files.folder / std::to_string(ranks);
    config.checkpoint.autoresume = true;
    auto const first = train<float>(config, ranks).checkpoint;
    auto const whole = tensors_of(first);
    config.run.max_duration.count = 5;
    {
      test::file_size_limit const limit(65'700);
      CHECK(contains(test::message_of([&] { (void)train<float>(config, ranks); }),
                     "-F32-000.safetensors: cannot write at byte"));
    }
    CHECK(pc::latest(config.checkpoint.save_folder).folder == first);
    CHECK(tensors_of(first) == whole);
    CHECK(train<float>(config, ranks).batches == 5);
    for (auto const& entry : fs::directory_iterator(config.checkpoint.save_folder))
      CHECK_FALSE(contains(entry.path().filename().string(), ".tmp-"));
  }
}

TEST_CASE("saver: a run that ends by a loss that is not finite completes the save under way") {
  run_files const files;
  auto diverging = files.config(20);
  diverging.optimizer.lr = 1e30;
  diverging.optimizer.clip = {};
  diverging.checkpoint.save_folder = files.folder / "run";
  diverging.checkpoint.save_interval = {1, time_unit::batch};
  auto const message = test::message_of([&] {
    (void)train<float>(diverging, 2,
                       {true, [](int, std::string_view step) {  // keeps the save under way
                          if (step == "write slice")
                            std::this_thread::sleep_for(std::chrono::milliseconds(5));
                        }});
  });
  REQUIRE(contains(message, "is not finite"));
  auto const newest = pc::latest(files.folder / "run");
  REQUIRE(newest.folder.has_value());
  auto const batch = pc::checkpoint_id::parse(newest.folder->filename().string())->batch;
  CHECK(contains(message, parallel::concat("batch ", batch + 1, ":")));
}

}  // namespace
}  // namespace run_checkpoint_saver_test
