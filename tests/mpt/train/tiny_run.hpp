// Runs a tiny model on threads, in any layout, for tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/run_training.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <nlohmann/json.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/support/files.hpp>

#include "mpt/train/parts_of.hpp"
#include "mpt/train/token_set.hpp"

namespace tiny_run {

namespace fs = std::filesystem;
using mpt::time_unit;
using mpt::train_config;

constexpr std::int32_t length = 8;
constexpr std::int32_t vocabulary = 23;

/// Writes `count` sequences that count upwards in steps of 1 or 2, which are easily learnt.
inline void write_set(fs::path const& folder, std::int32_t count) {
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(count));
  for (std::int32_t row = 0; row < count; ++row)
    for (std::int32_t position = 0; position < length; ++position)
      rows[static_cast<std::size_t>(row)].push_back((row * 5 + position * (1 + row % 2)) %
                                                    vocabulary);
  test::write_token_set(folder, rows);
}

/// A temporary folder with 20 training sequences (3 batches of 6 in an epoch) and 7 held-out ones;
/// tests let their runs write into it, too.
struct run_files {
  run_files() {
    write_set(folder / "train", 20);
    write_set(folder / "val", 7);
  }

  [[nodiscard]] train_config config(double batches) const {
    train_config c;
    c.run.name = "tiny";
    c.model.d_model = 16;
    c.model.n_heads = 2;
    c.model.n_layers = 2;
    c.model.vocab_size = vocabulary;
    c.model.max_seq_len = length;
    c.model.resid_pdrop = 0.1;
    c.optimizer.lr = 1e-2;
    c.optimizer.clip = {parallel::train::clipping_kind::norm, 1.0};
    c.optimizer.scheduler.t_warmup = {2, time_unit::batch};
    c.optimizer.scheduler.t_max = {40, time_unit::batch};
    c.optimizer.scheduler.alpha_f = 0.1;
    c.data.train_loader.streams = {{.local = folder / "train"}};
    c.data.train_loader.shuffle = true;
    c.data.train_loader.max_seq_len = length;
    c.data.global_train_batch_size = 6;
    c.data.device_train_microbatch_size = 2;
    c.run.max_duration = {batches, time_unit::batch};
    c.evaluation.eval_interval = {0, time_unit::batch};
    c.evaluation.device_eval_batch_size = 2;
    c.output.log_to_console = false;
    c.callbacks.gpu_flops_available = 1e12;  // not measured
    return c;
  }

  [[nodiscard]] mpt::loader_config held_out() const {
    mpt::loader_config loader;
    loader.streams = {{.local = folder / "val"}};
    loader.max_seq_len = length;
    return loader;
  }

  test::temporary_folder folder;
};

/// The way in which a run saves, and the function that observes it.
struct save_behaviour {
  bool in_background = true;  // while training goes on
  std::function<void(int rank, std::string_view step)> on_action = {};
  std::vector<std::string> nodes = {};  // node names by rank; empty: all ranks are on one node
};

/// Trains on threads as ranks. make_device() returns a rank's device; on_end(device, memory plan of
/// the rank's stage) is called at the end of each rank.
template <class T, class MakeDevice, class OnEnd>
mpt::run_summary train_on(train_config const& config, int ranks, MakeDevice const& make_device,
                          OnEnd const& on_end, save_behaviour const& saves = {}) {
  using device_type = std::invoke_result_t<MakeDevice>;
  auto plan = mpt::plan_run<T>(config, ranks);
  plan.saves_in_background = saves.in_background;
  auto const parts = parts_of(config);
  mpt::run_summary out;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    bool const is_primary = comm.rank() == 0;
    auto const stage = static_cast<std::size_t>(
        plan.layout.template coordinate<parallel::axis::pipeline>(comm.rank()));
    parallel::any_communicator any(std::move(comm));
    device_type device = make_device();
    parallel::action_hook on_save;
    if (saves.on_action)
      on_save = [&saves, rank = any.rank()](std::string_view step) { saves.on_action(rank, step); };
    mpt::run_hooks hooks{.on_save = on_save};
    if (!saves.nodes.empty()) hooks.nodes.emplace(saves.nodes);
    auto const summary = mpt::run_training<T>(config, any, device, plan, parts, hooks);
    on_end(device, plan.by_pipeline_rank[stage]);
    if (is_primary) out = summary;
  });
  return out;
}

/// Trains on the host and checks that the largest peak of memory equals the planned one. Where
/// tensor ranks do not divide the vocabulary, ranks with a smaller slice may need less.
template <class T>
mpt::run_summary train(train_config const& config, int ranks = 1,
                       save_behaviour const& saves = {}) {
  bool const divides = config.model.vocab_size % config.execution.parallelism.tensor == 0;
  std::mutex lock;
  std::map<std::size_t, std::size_t> largest_peaks;  // by planned bytes
  auto out = train_on<T>(
      config, ranks, [] { return parallel::host::device(); },
      [&](auto const& device, parallel::train::memory_plan const& plan) {
        // the monitor copies weights, which the plan does not count
        if (config.callbacks.optimizer_monitor_interval > 0) return;
        std::scoped_lock const guard(lock);
        if (divides) CHECK(device.peak_bytes() == plan.total());
        largest_peaks[plan.total()] = std::max(largest_peaks[plan.total()], device.peak_bytes());
      },
      saves);
  for (auto const& [planned, used] : largest_peaks) CHECK(used == planned);
  return out;
}

/// The bytes of all tensor files in a checkpoint, by file name.
inline std::map<std::string, std::string> tensors_of(fs::path const& checkpoint) {
  std::map<std::string, std::string> out;
  for (auto const& entry : fs::directory_iterator(checkpoint))
    if (entry.path().extension() == ".safetensors")
      out[entry.path().filename()] = test::read_all(entry.path());
  return out;
}

/// The bytes of all whole tensors in a checkpoint, by tensor name; verifies the checkpoint.
inline std::map<std::string, std::vector<std::byte>> content_of(fs::path const& folder) {
  parallel::checkpoint::checkpoint_reader const reader(folder);
  reader.verify();
  std::map<std::string, std::vector<std::byte>> out;
  for (auto const& [name, tensor] : reader.tensors()) {
    auto& bytes = out[name];
    bytes.resize(static_cast<std::size_t>(tensor.size()) * size_of(tensor.type));
    reader.read_bytes(name, 0, bytes);
  }
  return out;
}

/// The records of a metrics file.
inline std::vector<nlohmann::json> records(fs::path const& file) {
  std::vector<nlohmann::json> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

/// A layout of ranks: degrees of the model's axes, and `data` data-parallel ranks.
struct grid {
  int zero_stage = 0;
  int data = 1;
  mpt::parallelism_config parallelism = {};
  [[nodiscard]] int ranks() const { return data * parallelism.ranks_of_model(); }
};

inline train_config with_layout(train_config config, grid const& layout) {
  config.execution.zero_stage = layout.zero_stage;
  config.execution.parallelism = layout.parallelism;
  return config;
}

/// The configuration of a model whose extents many degrees divide.
inline train_config divisible_config(run_files const& files, double batches) {
  auto config = files.config(batches);
  config.model.n_heads = 4;
  config.model.n_layers = 4;
  config.model.vocab_size = 24;
  config.data.global_train_batch_size = 12;
  return config;
}

/// The configuration of a model whose extents few degrees divide, and of a batch that few numbers
/// of data ranks divide.
inline train_config indivisible_config(run_files const& files, double batches) {
  auto config = files.config(batches);
  config.model.d_model = 20;
  config.model.n_heads = 10;
  config.model.attn.kv_n_heads = 5;
  config.model.attn.qk_ln = true;
  config.model.n_layers = 4;
  config.model.ffn_hidden_size = 13;
  config.data.global_train_batch_size = 7;
  return config;
}

inline std::vector<grid> const uneven_grids{
    {.zero_stage = 1, .data = 4},
    {.data = 2, .parallelism = {.tensor = 2, .sequence_parallel = true, .pipeline = 2}},
    {.zero_stage = 3, .data = 3, .parallelism = {.tensor = 3, .pipeline = 2}},
    {.zero_stage = 2,
     .data = 2,
     .parallelism = {.tensor = 4,
                     .sequence_parallel = true,
                     .pipeline = 2,
                     .schedule = "zb-v",
                     .stages_per_rank = 2}},
    {.zero_stage = 3, .data = 2, .parallelism = {.tensor = 3, .context = 2}},
};

inline std::vector<grid> const grids{
    {.data = 2, .parallelism = {.tensor = 2}},
    {.zero_stage = 1, .data = 2, .parallelism = {.tensor = 2, .sequence_parallel = true}},
    {.parallelism = {.tensor = 2, .pipeline = 2}},
    {.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2, .pipeline = 2}},
    {.zero_stage = 2,
     .data = 2,
     .parallelism = {.pipeline = 2, .schedule = "zb-v", .stages_per_rank = 2}},
    {.zero_stage = 1,
     .data = 3,
     .parallelism = {.pipeline = 2, .schedule = "interleaved", .stages_per_rank = 2}},
    {.parallelism = {.context = 2, .pipeline = 3, .blocks_by_stage = {1, 1, 2}}},
    {.parallelism = {.tensor = 2,
                     .sequence_parallel = true,
                     .context = 2,
                     .context_method = parallel::context_parallel::method::ulysses}},
    {.zero_stage = 3, .data = 4, .parallelism = {.tensor = 2, .shard = 2}},
};

}  // namespace tiny_run
