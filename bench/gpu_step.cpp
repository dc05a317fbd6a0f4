// gpu_step: MPT's training step on one GPU: forward, backward, clipping and AdamW, of any published
// size, in form a (learned positions and biases, as LLM Foundry's YAMLs) or b (ALiBi, no bias), or
// of a tiny one, which shows in seconds that all is in place.
//
// Its arguments are "--name value"; any wrong one prints them all. Prints "ready" when it is warm,
// then runs one step for every line of standard input and answers with its seconds, so that
// somebody else can alternate it with another program. At the end of input one JSON line: tokens a
// second of the median step, MFU by LLM Foundry's convention and the causal one, memory. With
// `--profile 1` also where the time of a step goes; with `--offload 1` optimizer states are in the
// host's memory, with `--beside 1` weight gradients run on a stream of their own, with
// `--graphs 1` a block's pass is one graph. Products are tuned first, unless `--tuned 0` or
// `--deterministic 1`.
//
// With `--text FILE` it trains on the bytes of a file instead, `--steps` long, and the JSON line
// has the loss of every step and a checksum of the weights; `--save FOLDER --save-at K` saves a
// checkpoint after step K, `--resume FOLDER` goes on from the latest.
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

#include <mpt/config/flops.hpp>
#include <mpt/config/sizes.hpp>
#include <mpt/model/model.hpp>
#include <mpt/train/placed_sequences.hpp>
#include <nlohmann/json.hpp>
#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/stepper.hpp>

#include "gpu_arguments.hpp"
#include "gpu_checkpoint.hpp"
#include "gpu_timed_device.hpp"

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

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Everything a step needs.
template <class T>
class trained {
 public:
  explicit trained(gpu_arguments const& args)
      : args_(args),
        device_(cuda_options(args)),
        compute_(device_.compute_options()),
        exchanges_(parallel::comm_options<parallel::single>(device_)),
        net_(config_of(args)),
        step_(net_, device_, comm_, optimizer, options(args)),
        memory_(device_.allocate<std::byte>(planned_passes().activations)),
        batch_(device_) {
    seed_ = static_cast<std::uint64_t>(args.number("seed"));
    step_.initialise(seed_);
  }

  /// Ids of one global batch.
  [[nodiscard]] std::size_t tokens() const {
    return static_cast<std::size_t>(args_.number("microbatch") * args_.number("accumulation") *
                                    args_.number("length"));
  }

  /// Replaces the batch that steps are about.
  void place(std::vector<std::int32_t> ids) {
    batch_.place(mpt::sequences(std::move(ids), args_.number("length")));
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
    double const begin = now();
    auto const result = step_.step(
        compute_, exchanges_, memory_, std::span<mpt::microbatch const>(parts_),
        std::span<index const>(first_), {.seed = seed_, .step = static_cast<std::uint32_t>(done_)},
        learning_rate_factor);
    double const seconds = now() - begin;
    ++done_;
    loss_ = result.sums.loss / static_cast<double>(result.sums.tokens);
    return seconds;
  }

  /// Tries the algorithms of every product and attention, by a step. Not on a deterministic device:
  /// what is the fastest would decide the last bits, and may be another in every run.
  void tune() {
    if (args_.number("tuned") == 0 || args_.number("deterministic") != 0) return;
    auto const tune = [](bool on) {
      return [on](parallel::cuda::stream& s) { parallel::cuda::tune_kernels(s, on); };
    };
    tune(true)(compute_);
    step_.for_each_compute_stream(tune(true));
    static_cast<void>(step(0.0));
    tune(false)(compute_);
    step_.for_each_compute_stream(tune(false));
  }
  /// Forgets all steps, which were at a learning rate of 0: weights stand, the optimizer's states
  /// go.
  void restart() {
    step_.clear_states(compute_);
    done_ = 0;
  }

  void go_on_from(std::string const& folder) {
    done_ = bench::load_training(step_, exchanges_, folder);
  }
  void save(std::string const& folder) { bench::save_training(step_, folder, done_); }
  [[nodiscard]] std::uint64_t checksum() { return bench::checksum_of_training(step_); }
  [[nodiscard]] index done() const { return done_; }
  [[nodiscard]] index vocabulary() const { return net_.config().vocab_size; }
  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] bench::timed_stream& compute() { return compute_; }

  /// What is there to say of steps that took `seconds`.
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
    auto const one = mpt::sequences::shape_of(args_.number("microbatch"), args_.number("length"));
    std::vector<mpt::microbatch> const all(static_cast<std::size_t>(args_.number("accumulation")),
                                           one);
    return step_.plan_passes(all);
  }

  static parallel::cuda::stream_options cuda_options(gpu_arguments const& args) {
    return {.deterministic = args.number("deterministic") != 0,
            .graphs = args.number("graphs") != 0};
  }

  /// All that it was planned to ask the device for: units, activations, and a batch's ids and
  /// labels.
  [[nodiscard]] std::size_t planned_bytes() {
    mpt::model<T> meant(net_.config());
    auto plan = parallel::train::plan_units<parallel::decoupled_adamw>(meant, optimizer, {},
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
  bench::timed_stream compute_;
  parallel::comm_stream<bench::timed_device, parallel::single> exchanges_;
  mpt::model<T> net_;
  parallel::train::stepper<mpt::model<T>, bench::timed_device, parallel::single,
                           parallel::decoupled_adamw>
      step_;
  parallel::arena memory_;
  mpt::placed_sequences<bench::timed_device> batch_;
  std::vector<mpt::microbatch> parts_;
  std::vector<index> first_;
  index done_ = 0;
  double loss_ = 0;
};

/// Where the time of one step goes, the most expensive first.
template <class T>
ordered_json profile(trained<T>& training) {
  training.compute().start();
  double const seconds = training.step(1.0);
  auto const times = training.compute().stop();
  std::vector<std::pair<std::string, bench::operation_time>> order(times.begin(), times.end());
  std::ranges::sort(order, std::greater{}, [](auto const& one) { return one.second.seconds; });
  ordered_json rows = ordered_json::array();
  for (auto const& [name, time] : order) {
    ordered_json row{{"name", name}, {"milliseconds", 1e3 * time.seconds}, {"calls", time.calls}};
    if (time.operations > 0) row["tflops"] = 1e-12 * time.operations / time.seconds;
    rows.push_back(std::move(row));
  }
  return {{"step_milliseconds", 1e3 * seconds}, {"operations", std::move(rows)}};
}

/// Steps on random tokens, one for each line of input.
template <class T>
void follow(gpu_arguments const& args, trained<T>& training) {
  parallel::philox const random(1, parallel::stream_id("gpu_step"));
  std::vector<std::int32_t> ids(training.tokens());
  auto const tokens = static_cast<std::uint32_t>(std::min<index>(50257, training.vocabulary()));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(random.bits(i) % tokens);
  training.place(std::move(ids));
  training.tune();
  for (int warm = 0; warm < 3; ++warm) static_cast<void>(training.step(1.0));
  std::cout << "ready" << std::endl;
  std::vector<double> seconds;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << seconds.emplace_back(training.step(1.0)) << std::endl;
  if (seconds.empty()) return;
  auto out = training.report(seconds);
  if (args.number("profile") != 0) out["profile"] = profile(training);
  std::cout << out.dump() << std::endl;
}

/// Trains on the bytes of a file, one after another, from its beginning again when it ends.
template <class T>
void train(gpu_arguments const& args, trained<T>& training) {
  std::ifstream in(args.text("text"), std::ios::binary);
  std::vector<unsigned char> const text{std::istreambuf_iterator<char>(in), {}};
  parallel::require(!text.empty(), args.text("text"), ": cannot be read, or is empty");
  auto const ids_of = [&](index step) {
    std::vector<std::int32_t> ids(training.tokens());
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = text[(static_cast<std::size_t>(step) * ids.size() + i) % text.size()];
    return ids;
  };
  training.place(ids_of(0));
  training.tune();
  training.restart();
  if (args.given("resume")) training.go_on_from(args.text("resume"));
  index const first = training.done();
  std::vector<double> seconds, losses;
  while (training.done() < args.number("steps")) {
    training.place(ids_of(training.done()));
    double const factor = std::min(1.0, static_cast<double>(training.done() + 1) / 100.0);
    seconds.push_back(training.step(factor));
    losses.push_back(training.loss());
    if (args.given("save") && training.done() == args.number("save-at")) {
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
  trained<T> training(args);
  if (args.given("text"))
    train(args, training);
  else
    follow(args, training);
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
