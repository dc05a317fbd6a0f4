// See train.hpp.
#include "support/train.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/read_train.hpp>
#include <mpt/train/available_to_each.hpp>
#include <mpt/train/example_set.hpp>
#include <mpt/train/run_data.hpp>
#include <mpt/train/run_plan.hpp>
#include <mpt/train/run_training.hpp>
#include <mpt/train/step_plans.hpp>
#include <nlohmann/json.hpp>
#include <parallel/core/file.hpp>
#include <parallel/device/transfer.hpp>

#include "devices.hpp"
#include "support/app.hpp"
#include "support/chat_templates.hpp"
#include "support/engine.hpp"
#include "support/launch.hpp"

namespace {

void write_summary(mpt::train_config const& config, mpt::run_summary const& s,
                   mpt::run_plan const& plan, int ranks, std::string_view engine) {
  if (config.checkpoint.save_folder.empty()) return;
  auto const& m = config.model;
  auto const model = fmt::format(
      "{} parameters, {} layers × {}, {}, {}",
      mpt::console::count(static_cast<double>(parameter_count(m))), m.n_layers, m.d_model,
      positions_name(m),
      config.precision == mpt::precision_kind::fp32 ? "fp32" : "bf16 with fp32 master weights");
  nlohmann::ordered_json const record{
      {"run_name", config.run_name},
      {"model", model},
      {"ranks", ranks},
      {"ranks_text", fmt::format("{}, {} microbatches of {}", describe_layout(config, plan.layout),
                                 plan.split.accumulation, plan.split.microbatch)},
      {"engine", engine},
      {"batches", s.batches},
      {"tokens", s.tokens},
      {"loss", s.loss},
      {"tokens_per_second", s.tokens_per_second},
      {"trained_tokens_per_second", s.trained_tokens_per_second},
      {"mfu", s.mfu},
      {"mfu_causal", s.mfu_causal},
      {"seconds", s.seconds},
      {"samples_per_second",
       s.tokens_per_second / static_cast<double>(config.train_loader.max_seq_len)},
      {"data_wait_share", s.data_wait_share},
      {"peak_memory_bytes", s.peak_memory_bytes},
      {"checkpoint", s.checkpoint}};
  auto const file = std::filesystem::path(config.checkpoint.save_folder) / "summary.json";
  if (s.seconds == 0 && std::filesystem::exists(file)) return;  // keep what the run itself said
  std::filesystem::create_directories(file.parent_path());
  parallel::replace_text_file(file, record.dump(2) + "\n");
}

/// How many ranks share this rank's memory of that kind, a machine's or a GPU's.
template <class Device>
int ranks_sharing(Device const& /*device*/, int ranks) {
  int const here = apps::ranks_on_this_machine(ranks);
  return parallel::host_reaches<Device> ? here : (here + apps::gpus() - 1) / apps::gpus();
}

/// What each rank may use of the device's memory. Collective.
template <class Device>
std::size_t memory_of_each(Device const& device, parallel::any_communicator& comm) {
  return mpt::available_to_each(device.available_bytes(), ranks_sharing(device, comm.size()), comm);
}

/// What each rank may use of the machine's memory beside a GPU's; none: there is only one memory.
/// Collective.
template <class Device>
std::optional<std::size_t> host_memory_of_each(Device const& /*device*/,
                                               parallel::any_communicator& comm) {
  if (parallel::host_reaches<Device>) return std::nullopt;
  return memory_of_each(parallel::host::device(), comm);
}

/// What this device does of what was asked for: only one with memory of its own offloads, and only
/// a GPU has graphs.
template <class Device>
mpt::train_config config_on(Device const&, mpt::train_config config, bool is_primary) {
  if (!parallel::host_reaches<Device>) return config;
  auto const leave_out = [&](bool& wanted, char const* name) {
    if (std::exchange(wanted, false) && is_primary)
      fmt::print(stderr, "note: {} has no effect: the device is the CPU\n", name);
  };
  leave_out(config.offload_optimizer, "offload_optimizer");
  leave_out(config.cuda_graphs, "cuda_graphs");
  return config;
}

/// Whether how long a run takes is known from its data alone.
bool in_epochs(mpt::train_config const& config) {
  return config.max_duration.unit == mpt::time_unit::epoch;
}

template <class T, class Device>
void train(mpt::train_config const& config, mpt::run_examples const& examples,
           parallel::any_communicator& comm, Device& device, std::string const& device_name) {
  auto const available = memory_of_each(device, comm);
  auto const of_host = host_memory_of_each(device, comm);
  auto const plan = apps::on_every_rank([&] {
    auto planned = mpt::plan_run<T>(config, comm.size(), available, of_host);
    if (!config.dry_run && !config.print_plan) require_fits(planned);
    return planned;
  });
  bool const is_primary = comm.rank() == 0;
  if (config.dry_run) {
    if (!is_primary) return;
    std::int64_t batches = 0;
    try {
      batches = total_batches(clock_of(config));
    } catch (parallel::error const&) {  // epochs need the data
      batches = total_batches(
          clock_of(config, mpt::run_batches(config, examples.train, 0, 1).batches_per_epoch()));
    }
    fmt::print("{}", describe_plan(config, plan, comm.size(), batches));
    return;
  }
  if (config.print_plan) {
    if (!is_primary) return;
    auto const plans = mpt::step_plans_of<T>(config, plan);
    fmt::print("{}", mpt::describe_step(plans));
    auto const file = std::filesystem::path(config.checkpoint.save_folder) / "plan.svg";
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    parallel::write_text_file(file, parallel::train::svg_of(plans));
    fmt::print(stderr, "the picture is {}\n", file.string());
    return;
  }
  if (is_primary)
    fmt::print(stderr, "{} parameters, ranks {}, {} each, microbatch {}{}, {} per rank\n",
               mpt::console::count(static_cast<double>(parameter_count(config.model))),
               describe_layout(config, plan.layout), device_name, plan.split.microbatch,
               plan.automatic ? " (automatic)" : "",
               mpt::console::bytes(static_cast<double>(plan.memory.total())));
  auto const summary = mpt::run_training<T>(config, comm, device, plan, examples);
  if (!is_primary) return;
  write_summary(config, summary, plan, comm.size(), device_name);
  if (summary.seconds == 0) {
    fmt::print("already complete: {} batches, {} tokens{}\n", summary.batches,
               mpt::console::count(static_cast<double>(summary.tokens)),
               summary.checkpoint.empty() ? "" : ", checkpoint " + summary.checkpoint);
    return;
  }
  auto const trained = config.train_loader.finetuning
                           ? fmt::format(" ({} of them trained on)",
                                         mpt::console::count(summary.trained_tokens_per_second))
                           : std::string();
  fmt::print(
      "trained {} batches, {} tokens: loss {:.4f}, {} tokens/s{}, MFU {:.1f} %{}{}\n",
      summary.batches, mpt::console::count(static_cast<double>(summary.tokens)), summary.loss,
      mpt::console::count(summary.tokens_per_second), trained, 100 * summary.mfu,
      summary.data_wait_share < 0.02
          ? ""
          : fmt::format(", {:.0f} % of the time waiting for data", 100 * summary.data_wait_share),
      summary.checkpoint.empty() ? "" : ", checkpoint " + summary.checkpoint);
}

}  // namespace

namespace apps {

int train_program(int argc, char** argv, std::string const& what) {
  std::filesystem::path file;
  std::vector<std::string> overrides;
  CLI::App app{what};
  app.add_option("config", file, "training YAML")->required()->check(CLI::ExistingFile);
  app.add_option("overrides", overrides, "key.sub=value, over what the YAML says");
  auto const body = [&] {
    auto const config = mpt::load_train_config(file, overrides);
    if (apps::is_primary()) {
      if (auto const line = describe_ignored(config.report); !line.empty())
        fmt::print(stderr, "{}\n", line);
      for (auto const& note : config.report.notes) fmt::print(stderr, "note: {}\n", note);
    }
    auto const engine = apps::make_engine();
    // without a number of ranks, as many as mpirun started or the layout needs
    auto const started = apps::ranks_of_mpirun();
    std::optional<int> ranks = started;
    if (config.ranks) ranks = static_cast<int>(*config.ranks);
    if (!ranks) ranks = config.parallelism.least_ranks();
    static_cast<void>(mpt::run_layout(config, started.value_or(*ranks)));
    bool const reads = !config.print_plan && !(config.dry_run && !in_epochs(config));
    auto const examples =
        reads ? mpt::read_run_examples(config, apps::template_engine()) : mpt::run_examples();
    if (is_primary())
      for (auto const& line : describe(examples, config)) fmt::print(stderr, "{}\n", line);
    apps::launch({.ranks = ranks,
                  .deadline = config.dist_timeout,
                  .flight_folder = config.checkpoint.save_folder},
                 [&](parallel::any_communicator& comm, apps::place const& where) {
                   apps::with_device({.kind = config.device,
                                      .local_rank = where.local_rank,
                                      .cores = where.cores,
                                      .threads = static_cast<int>(config.threads.value_or(0)),
                                      .deterministic = config.deterministic,
                                      .graphs = config.cuda_graphs,
                                      .products = &engine},
                                     [&](auto& device, std::string const& name) {
                                       auto const own = config_on(device, config, comm.rank() == 0);
                                       if (own.precision == mpt::precision_kind::fp32)
                                         train<float>(own, examples, comm, device, name);
                                       else
                                         train<parallel::bf16>(own, examples, comm, device, name);
                                     });
                 });
  };
  return apps::run(app, argc, argv, body, apps::is_primary_here());
}

}  // namespace apps
