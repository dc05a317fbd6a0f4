// gpu_step: MPT's training step on one GPU: forward, backward, clipping and AdamW. The model has
// any published size, in form a (learned positions and biases, as LLM Foundry's YAMLs) or b (ALiBi,
// no bias), or the size "tiny", which shows in seconds that everything is installed.
//
// Its arguments are "--name value"; a wrong one prints all of them. The program warms up, runs
// steps for `--seconds` (one step at least), and prints one JSON line: tokens per second of the
// median step, MFU by LLM Foundry's convention and the causal one, memory. `--profile 1` adds the
// time of a step by operation; with `--offload 1` optimizer states are in the host's memory, with
// `--beside 1` weight gradients run on a separate stream, with `--graphs 1` a block's pass is one
// graph. Products are tuned first, unless `--tuned 0` or `--deterministic 1`.
//
// With `--text FILE` it trains on the bytes of a file instead, for `--steps` steps, and the JSON
// line has the loss of every step and a checksum of the weights; `--save FOLDER --save-at K` saves
// a checkpoint after step K, `--resume FOLDER` continues from the latest one.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/model/sizes.hpp>
#include <mpt/model/device_sequences.hpp>
#include <mpt/model/model.hpp>
#include <nlohmann/json.hpp>
#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/session.hpp>

#include "parts/gpu_arguments.hpp"
#include "parts/gpu_checkpoint.hpp"
#include "parts/gpu_timed_device.hpp"

namespace {

using bench::gpu_arguments;
using nlohmann::ordered_json;
using parallel::bf16;
using parallel::index;

gpu_arguments arguments(int argc, char** argv) {
  return {argc,
          argv,
          {{"size", "125m"},
           {"form", "b"},
           {"precision", "bf16"},
           {"length", "2048"},
           {"microbatch", "16"},
           {"accumulation", "1"},
           {"tuned", "1"},
           {"deterministic", "0"},
           {"offload", "0"},
           {"beside", "0"},
           {"graphs", "0"},
           {"profile", "0"},
           {"seconds", "20"},
           {"text", ""},
           {"steps", "300"},
           {"seed", "1"},
           {"save", ""},
           {"save-at", "0"},
           {"resume", ""}}};
}

mpt::model_config config_of(gpu_arguments const& args) {
  bool const is_tiny = args.text("size") == "tiny";
  auto config = mpt::named_size(is_tiny ? "125m" : args.text("size"));
  auto const& form = args.text("form");
  parallel::require(form == "a" || form == "b", "--form ", form, ": there are a and b");
  if (form == "b") config = mpt::hub_form(config);
  if (is_tiny) {
    config.d_model = 128;
    config.n_heads = config.n_layers = 2;
    config.vocab_size = 512;
  }
  config.max_seq_len = args.number("length");
  config.attn.attn_pdrop = config.resid_pdrop = config.emb_pdrop = 0;
  check_model(config, "");
  return config;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A model with everything that a training step needs.
template <class T>
class gpu_training {
 public:
  explicit gpu_training(gpu_arguments const& args)
      : args_(args),
        device_(cuda_options(args)),
        net_(config_of(args)),
        session_(net_, device_, comm_, optimizer, options(args)),
        batch_(device_) {
    seed_ = static_cast<std::uint64_t>(args.number("seed"));
    session_.initialise(seed_);
    session_.reserve(planned_passes().activations);
  }

  /// The number of tokens of one global batch.
  [[nodiscard]] std::size_t tokens() const {
    return static_cast<std::size_t>(args_.number("microbatch") * args_.number("accumulation") *
                                    args_.number("length"));
  }

  /// Replaces the batch that steps train on.
  void set_batch(std::vector<std::int32_t> ids) {
    batch_.assign(mpt::sequences(std::move(ids), args_.number("length")));
    parts_.clear();
    first_.clear();
    for (auto const& part :
         parallel::data::microbatches({0, batch_.count()}, args_.number("microbatch"))) {
      parts_.push_back(batch_.view(part));
      first_.push_back(part.begin);
    }
  }

  /// Seconds of one step.
  double step(double learning_rate_factor) {
    double const begin = wall_seconds();
    auto const result =
        session_.step({parts_,
                       first_,
                       {.seed = seed_, .step = static_cast<std::uint32_t>(step_count_)},
                       learning_rate_factor});
    double const seconds = wall_seconds() - begin;
    ++step_count_;
    loss_ = result.sums.mean_loss();
    return seconds;
  }

  /// Tunes the algorithms of every product and attention in one step. Does nothing on a
  /// deterministic device, where the choice of the fastest algorithm, which may differ between
  /// runs, would decide the last bits.
  void tune() {
    if (args_.number("tuned") == 0 || args_.number("deterministic") != 0) return;
    auto const set_tuning = [](bool is_on) {
      return [is_on](parallel::cuda::stream& s) { parallel::cuda::tune_kernels(s, is_on); };
    };
    set_tuning(true)(compute());
    session_.stepper().for_each_compute_stream(set_tuning(true));
    static_cast<void>(step(0.0));
    set_tuning(false)(compute());
    session_.stepper().for_each_compute_stream(set_tuning(false));
  }
  /// Discards all steps so far. They had a learning rate of 0, so the weights are unchanged; the
  /// optimizer's states are cleared.
  void restart() {
    session_.clear_states();
    step_count_ = 0;
  }

  void resume(std::string const& folder) {
    step_count_ = bench::load_training(session_.stepper(), session_.exchanges(), folder);
  }
  void save(std::string const& folder) {
    bench::save_training(session_.stepper(), folder, step_count_);
  }
  [[nodiscard]] std::uint64_t checksum() { return bench::checksum_of_training(session_.stepper()); }
  [[nodiscard]] index step_count() const { return step_count_; }
  [[nodiscard]] index vocabulary() const { return net_.config().vocab_size; }
  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] bench::timed_stream& compute() { return session_.compute(); }

  /// The results of steps that took `seconds`.
  [[nodiscard]] ordered_json report(std::vector<double> seconds) {
    std::ranges::sort(seconds);
    double const median = seconds[seconds.size() / 2];
    double const rate = static_cast<double>(tokens()) / median;
    double const peak = device_.peak_flops(parallel::dtype_of<T>);
    auto const& config = net_.config();
    index const length = args_.number("length");
    auto const mfu = [&](std::int64_t flops) {
      return peak > 0 ? rate * static_cast<double>(flops) / peak : 0.0;
    };
    std::size_t free = 0, total = 0;
    parallel::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {{"program", "ParallelLM"},
            {"size", args_.text("size")},
            {"form", args_.text("form")},
            {"precision", args_.text("precision")},
            {"length", length},
            {"microbatch", args_.number("microbatch")},
            {"accumulation", args_.number("accumulation")},
            {"offload", args_.number("offload") != 0},
            {"parameters", parameter_count(config)},
            {"steps", seconds.size()},
            {"milliseconds", 1e3 * median},
            {"best_milliseconds", 1e3 * seconds.front()},
            {"worst_milliseconds", 1e3 * seconds.back()},
            {"tokens_per_second", rate},
            {"mfu", mfu(flops_per_token(config, length))},
            {"mfu_causal", mfu(causal_flops_per_token(config, length))},
            {"peak_bytes", device_.peak_bytes() + device_.peak_scratch_bytes()},
            {"planned_bytes", planned_bytes()},
            {"allocated_bytes", device_.peak_bytes()},
            {"scratch_bytes", device_.peak_scratch_bytes()},
            {"planned_scratch_bytes", planned_passes().scratch.total()},
            {"device_bytes", total - free},
            {"loss", loss_},
            {"gpu", device_.name()}};
  }

 private:
  [[nodiscard]] parallel::train::pass_memory_plan planned_passes() {
    auto const shape = mpt::sequences::shape_of(args_.number("microbatch"), args_.number("length"));
    std::vector<mpt::microbatch> const microbatches(
        static_cast<std::size_t>(args_.number("accumulation")), shape);
    return session_.stepper().plan_passes(microbatches);
  }

  static parallel::cuda::stream_options cuda_options(gpu_arguments const& args) {
    return {.deterministic = args.number("deterministic") != 0,
            .graphs = args.number("graphs") != 0};
  }

  /// The planned device memory: units, activations, and a batch's ids and labels.
  [[nodiscard]] std::size_t planned_bytes() {
    mpt::model<T> planned_model(net_.config());
    auto plan = parallel::train::plan_units<parallel::decoupled_adamw>(planned_model, optimizer, {},
                                                                       options(args_));
    plan.activations = planned_passes().activations;
    return plan.total() + 2 * sizeof(std::int32_t) * tokens();
  }

  static constexpr parallel::decoupled_adamw optimizer{.learning_rate = 6e-4, .weight_decay = 0};

  static parallel::train::stepper_options options(gpu_arguments const& args) {
    return {.clip = {.kind = parallel::train::clipping_kind::norm, .threshold = 1.0},
            .optimizer_memory = optimizer_memory(args),
            .pipeline = {.overlap_weight_gradients = args.number("beside") != 0}};
  }

  static parallel::zero::optimizer_memory optimizer_memory(gpu_arguments const& args) {
    using enum parallel::zero::optimizer_memory;
    return args.number("offload") != 0 ? host : device;
  }

  gpu_arguments const& args_;
  std::uint64_t seed_ = 1;
  bench::timed_device device_;
  parallel::single comm_;
  mpt::model<T> net_;
  parallel::train::session<mpt::model<T>, bench::timed_device, parallel::single,
                           parallel::decoupled_adamw>
      session_;
  mpt::device_sequences<bench::timed_device> batch_;
  std::vector<mpt::microbatch> parts_;
  std::vector<index> first_;
  index step_count_ = 0;
  double loss_ = 0;
};

/// The time of one step by operation, the most expensive first.
template <class T>
ordered_json profile(gpu_training<T>& training) {
  training.compute().start();
  double const seconds = training.step(1.0);
  auto const times = training.compute().stop();
  std::vector<std::pair<std::string, bench::operation_time>> order(times.begin(), times.end());
  std::ranges::sort(order, std::greater{}, [](auto const& entry) { return entry.second.seconds; });
  ordered_json rows = ordered_json::array();
  for (auto const& [name, time] : order) {
    ordered_json row{{"name", name}, {"milliseconds", 1e3 * time.seconds}, {"calls", time.calls}};
    if (time.operations > 0) row["tflops"] = 1e-12 * time.operations / time.seconds;
    rows.push_back(std::move(row));
  }
  return {{"step_milliseconds", 1e3 * seconds}, {"operations", std::move(rows)}};
}

/// Runs steps on random tokens for the given seconds.
template <class T>
void measure(gpu_arguments const& args, gpu_training<T>& training) {
  parallel::philox const random(1, parallel::stream_id("gpu_step"));
  std::vector<std::int32_t> ids(training.tokens());
  auto const tokens = static_cast<std::uint32_t>(std::min<index>(50257, training.vocabulary()));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(random.bits(i) % tokens);
  training.set_batch(std::move(ids));
  training.tune();
  for (int warm_up_step = 0; warm_up_step < 3; ++warm_up_step)
    static_cast<void>(training.step(1.0));
  double const end = wall_seconds() + static_cast<double>(args.number("seconds"));
  std::vector<double> seconds;
  do {
    seconds.push_back(training.step(1.0));
  } while (wall_seconds() < end);
  auto out = training.report(seconds);
  if (args.number("profile") != 0) out["profile"] = profile(training);
  std::cout << out.dump() << std::endl;
}

/// Trains on the bytes of a file in order, repeating the file when it ends.
template <class T>
void train(gpu_arguments const& args, gpu_training<T>& training) {
  std::ifstream in(args.text("text"), std::ios::binary);
  std::vector<unsigned char> const text{std::istreambuf_iterator<char>(in), {}};
  parallel::require(!text.empty(), args.text("text"), ": cannot be read, or is empty");
  auto const ids_of = [&](index step) {
    std::vector<std::int32_t> ids(training.tokens());
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = text[(static_cast<std::size_t>(step) * ids.size() + i) % text.size()];
    return ids;
  };
  training.set_batch(ids_of(0));
  training.tune();
  training.restart();
  if (args.has_value("resume")) training.resume(args.text("resume"));
  index const first = training.step_count();
  std::vector<double> seconds, losses;
  while (training.step_count() < args.number("steps")) {
    training.set_batch(ids_of(training.step_count()));
    double const factor = std::min(1.0, static_cast<double>(training.step_count() + 1) / 100.0);
    seconds.push_back(training.step(factor));
    losses.push_back(training.loss());
    if (args.has_value("save") && training.step_count() == args.number("save-at")) {
      training.save(args.text("save"));
      std::cout << "saved" << std::endl;
    }
  }
  parallel::require(!losses.empty(), "nothing is left to train: ", first, " steps are done");
  auto out = training.report(seconds);
  out["seed"] = args.number("seed");
  out["first_step"] = first;
  out["checksum"] = training.checksum();
  out["losses"] = losses;
  std::cout << out.dump() << std::endl;
}

template <class T>
void run(gpu_arguments const& args) {
  gpu_training<T> training(args);
  if (args.has_value("text"))
    train(args, training);
  else
    measure(args, training);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    auto const args = arguments(argc, argv);
    auto const& precision = args.text("precision");
    parallel::require(precision == "bf16" || precision == "fp32", "--precision ", precision,
                      ": there are bf16 and fp32");
    parallel::require(args.number("profile") == 0 || args.number("graphs") == 0,
                      "--profile 1 times operations, which --graphs 1 hides in graphs; give one");
    if (precision == "bf16")
      run<bf16>(args);
    else
      run<float>(args);
    return 0;
  } catch (std::exception const& problem) {
    std::cerr << "gpu_step: " << problem.what() << std::endl;
    return 1;
  }
}
