// The training program: plans a run, then trains it on all ranks (train.hpp).
#include <trainer/train.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <mpt/config/read_train.hpp>
#include <mpt/config/written_files.hpp>
#include <mpt/config/written_keys.hpp>
#include <mpt/console/say.hpp>
#include <mpt/tokenizer/chat/jinja_renderer.hpp>
#include <mpt/trackers/open_trackers.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/read_run_parts.hpp>
#include <mpt/train/report/metrics.hpp>
#include <mpt/train/report/run_row.hpp>
#include <mpt/train/run_parts.hpp>
#include <mpt/train/run_training.hpp>
#include <mpt/train/setup/available_per_rank.hpp>
#include <mpt/train/setup/fitting_settings.hpp>
#include <mpt/train/setup/idle_ranks.hpp>
#include <mpt/train/setup/plan_json.hpp>
#include <mpt/train/setup/preflight.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <mpt/train/setup/step_plans.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/file.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/train/step/show_step.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <cli/with_element.hpp>
#include <devices/engine.hpp>
#include <inputs/hub_names.hpp>
#include <inputs/run_inputs.hpp>
#include <inputs/same_inputs.hpp>
#include <inputs/tracking_client.hpp>
#include <launch/launch.hpp>
#include <launch/launch_environment.hpp>
#include <launch/launcher.hpp>
#include <planner/compare_layout.hpp>
#include <process/exit_code.hpp>
#include <process/process.hpp>
#include <process/program_facts.hpp>
#include <process/stop_signal.hpp>
#include <trainer/claimed_folder.hpp>
#include <trainer/journal_records.hpp>
#include <trainer/measure_machine.hpp>
#include <trainer/summary_file.hpp>
#include "exchanges.hpp"
#include "training_devices.hpp"

namespace {

/// Whether this machine has a core, or a GPU, for each of `ranks` ranks, or a launcher started
/// them.
template <class Device>
bool fits_this_machine(int ranks) {
  if (apps::processes_started()) return true;
  auto const slots = parallel::host_reaches<Device> ? apps::available_cores().size()
                                                    : static_cast<std::size_t>(apps::gpus());
  return static_cast<std::size_t>(ranks) <= slots;
}

/// The bytes of device memory that each rank may use: its share of the machine's memory, or of a
/// GPU's. Collective.
template <class Device>
std::size_t memory_per_rank(Device const& device, parallel::any_communicator& comm) {
  int sharing = apps::ranks_on_this_machine(comm.size());
  if constexpr (!parallel::host_reaches<Device>) sharing = mpt::ranks_on_device(device, comm);
  return mpt::available_per_rank(device.available_bytes(), sharing, comm);
}

/// The bytes of host memory that each rank may use in addition to a GPU's; std::nullopt if the
/// device is the host. Collective.
template <class Device>
std::optional<std::size_t> host_memory_per_rank(Device const& /*device*/,
                                                parallel::any_communicator& comm) {
  if (parallel::host_reaches<Device>) return std::nullopt;
  return memory_per_rank(parallel::host::device(), comm);
}

/// The configuration without the settings that the device does not support: only a device with
/// separate memory offloads, and only a GPU has graphs.
template <class Device>
mpt::train_config supported_config(Device const&, mpt::train_config config, bool is_primary) {
  if (!parallel::host_reaches<Device>) return config;
  auto const disable = [&](bool& setting, char const* name) {
    if (std::exchange(setting, false) && is_primary)
      mpt::console::say("note: {} has no effect: the device is the CPU\n", name);
  };
  disable(config.execution.offload_optimizer, "offload_optimizer");
  disable(config.execution.cuda_graphs, "cuda_graphs");
  return config;
}

/// Whether the number of batches of a run depends on its data.
bool needs_data_for_duration(mpt::run_config const& run) {
  return run.max_duration.unit == mpt::time_unit::epoch;
}

/// Whether the packing of a run's examples depends on its data.
bool needs_data_for_packing(mpt::data_config const& data) {
  auto const& examples = data.train_loader.finetuning;
  return examples && examples->packing && !examples->packing->ratio;
}

/// The bytes that one rank of a plan may use: what the configuration says, or else, if this machine
/// can run so many ranks, its share of the machine's memory or the memory of a GPU; 0: not known.
template <class Device>
std::size_t planned_memory(mpt::execution_config const& execution, Device const& device,
                           int ranks) {
  if (execution.device_memory) return *execution.device_memory;
  if (!fits_this_machine<Device>(ranks)) return 0;
  int const sharing = parallel::host_reaches<Device> ? apps::ranks_on_this_machine(ranks) : 1;
  return device.available_bytes() / static_cast<std::size_t>(sharing);
}

/// Returns the plan of a run with additional settings.
using settings_planner = std::function<mpt::run_plan(mpt::settings const&)>;

/// The plan with additional settings as JSON, or why there is none.
nlohmann::ordered_json try_settings(mpt::settings const& settings,
                                    settings_planner const& plan_with) {
  nlohmann::ordered_json out{{"settings", settings}, {"fits", false}};
  try {
    auto const plan = plan_with(settings);
    out["fits"] = fits(plan);
    out["total_bytes"] = plan.memory.total();
  } catch (parallel::error const& problem) {  // an impossible layout
    out["reason"] = problem.what();
  }
  return out;
}

/// The devices of a planned run.
struct planned_devices {
  bool one_queue;  ///< all work runs in one queue
  bool offloads;   ///< their memory is not the host's
};

/// Prints the plan of a run, which may be meant for other machines. Throws when it does not fit,
/// naming settings that would fit.
void print_plan(mpt::train_config const& config, mpt::run_parts const& parts,
                mpt::run_plan const& plan, int ranks, planned_devices devices,
                apps::results_file const& json, settings_planner const& plan_with) {
  std::int64_t batches = 0;
  try {
    batches = total_batches(clock_of(config.data, config.run));
  } catch (parallel::error const&) {  // epochs need the data
    batches = total_batches(
        clock_of(config.data, config.run,
                 parts.data->batches(config.model, config.data, config.execution, 0, 1)
                     ->batches_per_epoch()));
  }
  auto document = json_of_plan(config, plan, ranks, batches);
  auto& candidates = document["candidates"] = nlohmann::ordered_json::array();
  std::string fitting;
  if (!fits(plan))
    fitting = mpt::settings_that_fit(
        memory_saving_settings(config.data, config.execution, ranks, devices.offloads),
        [&](mpt::settings const& settings) {
          candidates.push_back(try_settings(settings, plan_with));
          return candidates.back().at("fits").get<bool>();
        });
  std::vector<parallel::train::step_plan> step;
  if (config.run.print_plan)
    step = apps::with_element(config.execution.precision, [&]<class T>(T) {
      return mpt::step_plans_of<T>(config.model, config.optimizer, config.execution, config.run,
                                   plan, devices.one_queue);
    });
  if (config.run.print_plan) document["step"] = mpt::json_of_step(step);
  json.write(document);
  auto const bytes = [](std::size_t n) { return mpt::console::bytes(static_cast<double>(n)); };
  if (!json.is_printed_alone()) {
    fmt::print("{}", describe_plan(config, plan, ranks, batches));
    for (auto const& note : notes_on_idle_ranks(config.data, config.execution, plan))
      fmt::print("note: {}\n", note);
    if (config.run.print_plan) fmt::print("{}", mpt::describe_step(step));
    if (plan.available == 0)
      fmt::print(
          "whether it fits is not known: say what a rank may use, as in device_memory=80GB\n");
    else if (fits(plan))
      fmt::print("fits: {} of {} per rank\n", bytes(plan.memory.total()), bytes(plan.available));
  }
  if (fits(plan)) return;
  parallel::fail(
      "does not fit: ", bytes(plan.memory.total()), " per rank, of ", bytes(plan.available), "; ",
      fitting.empty() ? "no ZeRO stage, recomputation, offloading or number of ranks makes it fit: "
                        "use a smaller model or max_seq_len, or parallelism.tensor"
                      : "set " + fitting);
}

/// HYBRID_SHARD's machines must be alike, since the layout follows from their ranks. Collective.
void check_machines(mpt::execution_config const& execution, parallel::any_communicator& comm) {
  if (!execution.parallelism.shard_within_node) return;
  parallel::host::stream exchanges;
  auto const local_count = std::to_string(apps::ranks_on_this_machine(comm.size()));
  for (auto const& count : parallel::gather_texts(comm, exchanges, local_count))
    if (count != local_count)
      throw apps::refusal(
          "HYBRID_SHARD: machines have different numbers of ranks; start the same number on each, "
          "or set "
          "fsdp_config.data_parallel_shard_degree");
}

/// Measures and prints the rates of network and devices, for both communicators if the steps use a
/// separate one, and returns those of the one that steps use. Refuses a network that changes what
/// is sent. Collective.
template <class T, class Device, class Exchanges>
parallel::network_measurements check_network(parallel::any_communicator& comm, Exchanges& exchanges,
                                             Device& device) {
  auto const check = [&](auto& communicator, std::string_view prefix,
                         std::string const& interface) {
    auto const found =
        mpt::preflight<T>(device, comm, communicator, parallel::machine_name(), interface);
    if (comm.rank() == 0)
      for (auto const& line : mpt::describe(found)) mpt::console::say("{}{}\n", prefix, line);
    apps::on_every_rank([&] {
      parallel::require(found.wrong_elements == 0, "preflight: ", prefix, found.wrong_elements,
                        " numbers arrived changed; repair the network first");
    });
    return found;
  };
  // the interface that `launch` has chosen, if it has: the ranks' connections use no other
  char const* const interface = std::getenv(apps::launch_environment::interface);
  auto found = check(comm, "", interface == nullptr ? "" : interface);
  if constexpr (!std::is_same_v<Exchanges, parallel::any_communicator>)
    found = check(exchanges, "over NCCL: ", "");
  return found;
}

/// The number of machines of the ranks. Collective.
int machines(parallel::any_communicator& comm) {
  parallel::host::stream exchanges;
  auto const names = parallel::gather_texts(comm, exchanges, parallel::machine_name());
  return static_cast<int>(std::set(names.begin(), names.end()).size());
}

/// Prints how to resume a run that a signal has stopped.
void say_how_to_resume(mpt::checkpoint_config const& checkpoint, mpt::run_summary const& summary) {
  if (summary.stop_asked && !checkpoint.save_folder.empty())
    mpt::console::say(
        "stopped by a signal after batch {}; {}\n", summary.batches,
        checkpoint.save_weights_only
            ? summary.checkpoint +
                  " holds weights alone (save_weights_only), so no run can resume from it"
            : fmt::format("the same command with autoresume=true{} goes on from {}",
                          checkpoint.save_overwrite ? " save_overwrite=false" : "",
                          summary.checkpoint));
}

/// What a run that saves into `save_folder` answers to signals that ask it to stop.
apps::stop_signals::answer_lines answers_to_signals(std::string const& save_folder) {
  if (!apps::is_primary_here()) return {};  // one of the ranks speaks for all
  auto const line = [](std::string const& text) {
    return fmt::format("{}{}\n", ::isatty(STDERR_FILENO) == 1 ? "\n" : "", text);  // after a bar
  };
  if (save_folder.empty())
    return {line("stopping after this batch or evaluation; nothing is saved, as the run has no "
                 "save_folder; the same signal again (Ctrl-C) ends the run at once"),
            line("ended at once; nothing is saved")};
  return {line(fmt::format("stopping after this batch or evaluation, then saving into {}; the same "
                           "signal again (Ctrl-C) ends the run at once, without saving",
                           save_folder)),
          line("ended at once, without saving: what was trained since the last checkpoint in " +
               save_folder + " is lost")};
}

/// Prints what a run has done. `row`: it as a row of a table.
void print_end(mpt::data_config const& data, mpt::checkpoint_config const& checkpoint,
               mpt::run_summary const& summary, mpt::run_row const& row, int ranks) {
  if (summary.seconds == 0) {
    fmt::print("already complete: {} batches, {} tokens{}\n", summary.batches,
               mpt::console::count(static_cast<double>(summary.tokens)),
               summary.checkpoint.empty() ? "" : ", checkpoint " + summary.checkpoint);
    return;
  }
  auto const trained = data.train_loader.finetuning
                           ? fmt::format(" ({} of them trained on)",
                                         mpt::console::count(summary.trained_tokens_per_second))
                           : std::string();
  auto const skipped = summary.skipped_batches > 0
                           ? fmt::format(", of which {} were skipped", summary.skipped_batches)
                           : std::string();
  fmt::print(
      "trained {} batches{}, {} tokens: loss {:.4f}, {} tokens/s{}, MFU {:.1f} %{}{}\n",
      summary.batches, skipped, mpt::console::count(static_cast<double>(summary.tokens)),
      summary.loss, mpt::console::count(summary.tokens_per_second), trained, 100 * summary.mfu,
      summary.data_wait_share < 0.02
          ? ""
          : fmt::format(", {:.0f} % of the time waiting for data", 100 * summary.data_wait_share),
      checkpoint.save_folder.empty() ? "" : ", checkpoint " + summary.checkpoint);
  fmt::print("{}", to_string(row));
  say_how_to_resume(checkpoint, summary);
  constexpr double long_run = 600;  // seconds after which the interval of saves matters
  if (summary.seconds < long_run) return;
  fmt::print("goodput {:.1f} %: the share of the program's time in which it trained\n",
             100 * summary.seconds / row.seconds);
  if (auto const text = mpt::text_of_saves(summary, ranks); !text.empty()) fmt::print("{}\n", text);
}

/// run(), of which an error goes into the journal, too, where rank 0 has claimed it.
template <class Run>
mpt::run_summary noting_failure(mpt::checkpoint_config const& checkpoint,
                                apps::folder_claims const& claims, Run const& run) {
  try {
    return run();
  } catch (std::exception const& problem) {
    if (claims.shared) apps::write_failure(checkpoint, *claims.shared, problem.what());
    throw;
  }
}

template <class T, class Device>
void train(mpt::train_config const& config, apps::results_file const& json,
           mpt::run_parts const& parts, parallel::any_communicator& comm, Device& device,
           std::string const& device_name, apps::placement const& rank_placement,
           mpt::run_hooks hooks, std::atomic<bool>& stopped) {
  check_machines(config.execution, comm);
  auto const device_memory = memory_per_rank(device, comm);
  auto const available = config.execution.device_memory.value_or(device_memory);
  auto const host_memory = host_memory_per_rank(device, comm);
  auto const plan = apps::on_every_rank([&] {
    auto planned = mpt::plan_run<T>(config, comm.size(), available, host_memory);
    if (!config.run.print_plan) require_fits(planned);
    return planned;
  });
  bool const is_primary = comm.rank() == 0;
  if (config.run.print_plan) {
    if (!is_primary) return;
    auto const plans =
        mpt::step_plans_of<T>(config.model, config.optimizer, config.execution, config.run, plan,
                              parallel::train::waits_for_all_streams<Device>);
    json.write({{"step", mpt::json_of_step(plans)}});
    if (!json.is_printed_alone()) fmt::print("{}", mpt::describe_step(plans));
    auto const file = std::filesystem::path(config.checkpoint.save_folder) / "plan.svg";
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    parallel::write_text_file(file, parallel::train::svg_of(plans));
    mpt::console::say("the picture is {}\n", file.string());
    return;
  }
  if (is_primary)
    mpt::console::say("{} parameters, ranks {}, {} each, microbatch {}{}, {} per rank\n",
                      mpt::console::count(static_cast<double>(parameter_count(config.model))),
                      describe_layout(config.execution, plan.layout), device_name,
                      plan.split.microbatch, plan.is_microbatch_automatic ? " (automatic)" : "",
                      mpt::console::bytes(static_cast<double>(plan.memory.total())));
  if (is_primary)
    for (auto const& note : notes_on_idle_ranks(config.data, config.execution, plan))
      mpt::console::say("note: {}\n", note);
  hooks.expected_step = apps::on_every_rank([&] { return apps::expected_step(config, plan); });
  int const nodes = machines(comm);
  apps::folder_claims claims;
  std::optional<parallel::network_measurements> network;
  mpt::measured_links links;
  auto const run = [&] {
    return apps::with_exchanges(
        comm, device, hooks.deadline.value(), rank_placement.recorder, [&](auto& exchanges) {
          if (config.run.preflight) network = check_network<T>(comm, exchanges, device);
          if (!config.run.measure.empty())
            links = mpt::measure_links<T>(device, comm, exchanges, parallel::machine_name());
          claims = apps::claim_save_folders(config.data, config.checkpoint, config.callbacks,
                                            config.output, comm, hooks);
          if (is_primary)
            apps::write_start(
                config.checkpoint, config.output,
                apps::start_record(config.model, config.data, config.execution, config.run, plan,
                                   comm.size(), nodes, device_name));
          rank_placement.record_calls_in_file();
          if (rank_placement.recorder)
            hooks.exchange_seconds = [recorder = rank_placement.recorder] {
              return std::chrono::duration<double>(recorder->time_in_calls()).count();
            };
          return mpt::run_training<T>(config, comm, exchanges, device, plan, parts, hooks);
        });
  };
  auto const summary = noting_failure(config.checkpoint, claims, run);
  if (summary.stop_asked) stopped = true;
  if (!is_primary) return;
  if (!config.run.measure.empty()) {
    mpt::console::say("{}",
                      apps::write_machine({config, plan, summary, links, nodes, device_memory}));
    return;
  }
  auto const row = row_of(config.model, config.data, config.evaluation, summary,
                          apps::program_seconds(), nodes, apps::bytes_in(summary.checkpoint));
  apps::write_end(config.checkpoint, summary);
  auto results = apps::json_of_run(config.model, config.execution, config.run, summary, plan,
                                   comm.size(), device_name, row, parts.packing_ratio);
  if (network) results["network"] = mpt::to_json(*network);
  json.write(apps::write_summary(config.checkpoint, summary, results));
  if (json.is_printed_alone())
    say_how_to_resume(config.checkpoint, summary);
  else
    print_end(config.data, config.checkpoint, summary, row, comm.size());
  mpt::console::say("{}", apps::compare_with_prediction(config, plan, summary));
}

/// Compares the layout of a run on these machines with the best, and says so on the primary rank.
using layout_comparison = std::function<void(apps::run_machines const&, bool is_primary)>;

/// The comparison that a run asks for; nothing if it asks for none. The arguments must outlive it.
layout_comparison comparison_of(mpt::run_config const& run, apps::training_file& source,
                                std::vector<std::string> const& overrides) {
  if (!run.compares_layouts) return {};
  return [&](apps::run_machines const& machines, bool is_primary) {
    auto const cluster = apps::cluster_of(run, machines);
    if (is_primary)
      mpt::console::say("{}\n", apps::compare_layout(source, overrides, cluster, machines.ranks));
  };
}

/// Trains as one rank, on the device and in the precision that the configuration names.
void train_rank(mpt::train_config const& config, apps::results_file const& json,
                mpt::run_parts const& parts, parallel::any_communicator& comm,
                apps::placement const& rank_placement, apps::engine const& engine,
                mpt::run_hooks const& hooks, layout_comparison const& compare,
                std::atomic<bool>& stopped) {
  apps::with_training_device(
      {.kind = config.execution.device,
       .local_rank = rank_placement.local_rank,
       .cores = rank_placement.cores,
       .threads = static_cast<int>(config.execution.threads.value_or(0)),
       .deterministic = config.execution.deterministic,
       .graphs = config.execution.cuda_graphs,
       .products = &engine},
      [&]<class Device>(Device& device, std::string const& name) {
        auto const supported = supported_config(device, config, comm.rank() == 0);
        if (compare)
          compare({.device = name, .ranks = comm.size(), .nodes = machines(comm)},
                  comm.rank() == 0);
        if (supported.execution.precision == mpt::precision_kind::fp32)
          train<float>(supported, json, parts, comm, device, name, rank_placement, hooks, stopped);
        else if constexpr (apps::trains_in_bf16<Device>)
          train<parallel::bf16>(supported, json, parts, comm, device, name, rank_placement, hooks,
                                stopped);
        else
          throw apps::refusal("device=kokkos trains in fp32; set precision=fp32");
      });
}

/// The number of ranks on a machine: all ranks if they are threads; eight in a plan for other
/// machines, since most have eight GPUs.
int ranks_on_one_machine(mpt::run_config const& run, mpt::execution_config const& execution,
                         int ranks) {
  bool const is_plan_for_others =
      run.dry_run && !apps::processes_started() &&
      (execution.device_memory || static_cast<std::size_t>(ranks) > apps::available_cores().size());
  return is_plan_for_others ? std::min(ranks, 8) : apps::ranks_on_this_machine(ranks);
}

/// Prints the plan of a run, and looks for settings with which it would fit where it does not.
void print_dry_run(mpt::train_config const& config, mpt::run_parts const& parts, int rank_count,
                   apps::engine const& engine, apps::training_file& source,
                   std::vector<std::string> const& overrides, apps::results_file const& json,
                   layout_comparison const& compare) {
  apps::with_training_device(
      {.kind = config.execution.device, .cores = apps::available_cores(), .products = &engine},
      [&]<class Device>(Device& device, std::string const& name) {
        if (compare) compare({.device = name, .ranks = rank_count}, true);
        auto const supported = config.execution.device_memory
                                   ? config
                                   : supported_config(device, config, apps::is_primary());
        auto const available = planned_memory(supported.execution, device, rank_count);
        auto const plan_of = [&](auto const& planned, int ranks) {
          // a device whose size is given has separate memory, and the host's is not known
          auto const host_memory =
              planned.execution.device_memory ? std::optional<std::size_t>(0) : std::nullopt;
          return apps::with_element(planned.execution.precision, [&]<class T>(T) {
            return mpt::plan_run<T>(planned, ranks, available, host_memory);
          });
        };
        print_plan(supported, parts, plan_of(supported, rank_count), rank_count,
                   {.one_queue = parallel::train::waits_for_all_streams<Device>,
                    .offloads = !parallel::host_reaches<Device> ||
                                supported.execution.device_memory.has_value()},
                   json, [&](mpt::settings const& settings) {
                     auto all_overrides = overrides;
                     all_overrides.insert(all_overrides.end(), settings.begin(), settings.end());
                     auto other = source.load(all_overrides);
                     auto const other_ranks =
                         static_cast<int>(other.execution.ranks.value_or(rank_count));
                     shard_within(other.execution.parallelism, other_ranks,
                                  ranks_on_one_machine(other.run, other.execution, other_ranks));
                     return plan_of(other, other_ranks);
                   });
      });
}

/// Prints the keys that a YAML file may have, sorted, a line each: name, form of the value and
/// default, between tabs. Completion of command lines reads it.
void print_keys(std::filesystem::path const& file, std::vector<std::string> const& overrides) {
  auto const keys = mpt::known_keys(file, overrides);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto const& key = keys[i];
    bool const is_section = i + 1 < keys.size() && keys[i + 1].name.starts_with(key.name + '.');
    if (key.role == mpt::key_role::effective && !is_section)
      fmt::print("{}\t{}\t{}\n", key.name, key.form, mpt::printable(key.fallback));
  }
}

/// The function that opens the trackers of a run. On the primary process it has been checked that
/// they can begin.
mpt::tracker_opener trackers_of(mpt::train_config const& config, int ranks, bool is_primary) {
  auto loggers = config.output.loggers;
  if (!loggers.has_trackers()) return {};
  auto facts = apps::program_facts();
  facts.emplace_back("parameters", std::to_string(parameter_count(config.model)));
  facts.emplace_back("ranks", describe_layout(config.execution, run_layout(config, ranks)));
  for (auto const& [name, text] : facts)
    if (!text.empty()) loggers.settings.push_back({"program." + name, text});
  auto const client = apps::tracking_client();
  if (is_primary) loggers = mpt::trackers::checked_loggers(std::move(loggers), client);
  return mpt::trackers::make_tracker_opener(config.run, config.checkpoint, loggers, client);
}

}  // namespace

namespace apps {

int train_program(int argc, char** argv, std::string const& description,
                  std::vector<std::string> const& examples) {
  std::filesystem::path file;
  std::vector<std::string> overrides;
  bool lists_keys = false;
  CLI::App app{description};
  add_examples(app, examples);
  app.add_option("config", file, "training YAML")->required()->check(CLI::ExistingFile);
  app.add_option("overrides", overrides, "key.sub=value, which replaces the YAML's value");
  app.add_flag("--keys", lists_keys,
               "instead of a run: print the keys that this YAML may have, with the forms of their "
               "values and the defaults");
  apps::results_file json;
  json.add_to(app, "the results of the run, or the plan that dry_run=true prints,");
  auto const body = [&] {
    if (lists_keys) return print_keys(file, overrides);
    apps::require_own_launch();
    json.check({file});
    std::vector<mpt::written_key> written;
    apps::training_file source(file);
    auto config = source.load(overrides, [&](mpt::config_node const& document) {
      written = mpt::written_keys(document);
    });
    if (!config.run.measure.empty()) config = apps::measuring_config(std::move(config));
    auto const compare = comparison_of(config.run, source, overrides);
    config.output.loggers.settings = std::move(written);
    auto const conflict =
        mpt::file_conflict(json.file(), config.checkpoint.save_folder,
                           {config.output.metrics_file, config.output.loggers.csv.value_or("")});
    parallel::require(conflict.empty(), "--json: ", conflict);
    if (apps::is_primary()) {
      if (auto const line = describe_ignored(config.output.report); !line.empty())
        mpt::console::say("{}\n", line);
      for (auto const& note : config.output.report.notes) mpt::console::say("note: {}\n", note);
    }
    auto const engine =
        mpt::is_canonical(config.execution) ? apps::own_product() : apps::make_engine();
    // by default, as many ranks as the launcher started or the layout needs
    auto const started = apps::processes_started();
    std::optional<int> ranks = started;
    if (config.execution.ranks) ranks = static_cast<int>(*config.execution.ranks);
    if (!ranks) ranks = config.execution.parallelism.least_ranks();
    auto const rank_count = started.value_or(*ranks);
    shard_within(config.execution.parallelism, rank_count,
                 ranks_on_one_machine(config.run, config.execution, rank_count));
    static_cast<void>(mpt::run_layout(config, rank_count));
    bool const reads_data =
        !config.run.print_plan && (!config.run.dry_run || needs_data_for_duration(config.run) ||
                                   needs_data_for_packing(config.data));
    mpt::remote_sets sets;
    if (reads_data) {
      apps::fetch_named_sets(config.data);
      sets = apps::open_remote_sets(config.data);
    }
    auto const open_trackers = config.run.dry_run || config.run.print_plan
                                   ? mpt::tracker_opener()
                                   : trackers_of(config, rank_count, is_primary());
    apps::run_inputs inputs;
    mpt::run_parts parts;
    mpt::input_facts facts;
    auto const read_data = [&](std::chrono::local_seconds date) {
      inputs = apps::read_run_inputs(config.model, config.data, config.evaluation, sets, date);
      if (started && !config.run.dry_run)
        facts = apps::run_facts(file, config, inputs.examples, sets);
      parts = mpt::read_run_parts(config, std::move(inputs.examples), sets);
      parts.open_trackers = open_trackers;
    };
    auto date = mpt::local_now();
    if (config.data.train_loader.finetuning && reads_data)  // else no checkpoint has a date
      date = mpt::date_of_resumed_run(config.checkpoint).value_or(date);
    if (reads_data) read_data(date);
    parts.open_trackers = open_trackers;
    if (is_primary())
      for (auto const& line : inputs.lines) mpt::console::say("{}\n", line);
    if (config.run.dry_run)
      return print_dry_run(config, parts, rank_count, engine, source, overrides, json, compare);
    apps::stop_signals const signals(answers_to_signals(config.checkpoint.save_folder));
    parallel::shared_deadline const deadline =
        std::chrono::duration<double>(config.run.deadlines.setup);
    mpt::run_hooks const hooks{.stop_asked = [] { return apps::stop_signals::received(); },
                               .deadline = deadline};
    std::atomic<bool> stopped = false;
    apps::launch(
        {.ranks = ranks, .deadline = deadline, .flight_folder = config.checkpoint.save_folder},
        [&](parallel::any_communicator& comm, apps::placement const& rank_placement) {
          if (started) {
            auto const first_date = apps::date_of_first_rank(date, comm);
            bool const is_equal = apps::equals_first_rank(facts, comm);
            // a chat template may have shown this rank another time
            if (!is_equal && first_date != date) read_data(first_date);
            apps::check_same_inputs(facts, comm);
          }
          train_rank(config, json, parts, comm, rank_placement, engine, hooks, compare, stopped);
        });
    if (!stopped) return;
    parallel::require(!config.checkpoint.save_folder.empty(),
                      "stopped by a signal, and nothing is saved: the run has no save_folder");
    throw apps::stopped_early();
  };
  settle_threads(argv);
  return apps::run(app, argc, argv, apps::is_primary_here(), body);
}

}  // namespace apps
