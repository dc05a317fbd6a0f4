// train_step: the speed of MPT-125M's training on this machine, or of another family's. A step is
// forward, backward, clipping and AdamW, with random weights and tokens, on one rank.
//
// The program prints one JSON line: tokens/s and seconds of a step, seconds by operation, and a
// lower bound: the time that the step's matrix products take when nothing else runs. Each product
// of a layer is timed alone; those inside causal attention are counted at the mean rate of the
// others. The bound is measured after every step, with the step's own engine and with a library.
// Its share is the median over steps of the bound / the seconds of the step before it.
//
// --follow: for every line of standard input the program runs one step and its products, and
// answers with the seconds of the step, so that a driver can alternate it with another program; the
// JSON line comes at the end of input.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <nlohmann/json.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/session.hpp>

#include <cli/app.hpp>
#include <devices/cores.hpp>
#include <devices/engine.hpp>
#include "parts/allocations.hpp"
#include "parts/clock.hpp"
#include "parts/timed_device.hpp"
#include "statistics.hpp"

namespace {

using parallel::bf16;
using parallel::index;
using parallel::matrix_view;

struct arguments {
  std::string size = "125m", form = "a", precision = "bf16", config;
  index batch = 1, length = 1024;
  int threads = 0, steps = 5;
  double dropout = 0;
  bool is_following = false;
  bench::clock_kind clock = bench::clock_kind::wall;
};

/// A model with everything that a training step needs.
template <class T>
class timed_training {
 public:
  timed_training(arguments const& args, parallel::host::stream_options const& options)
      : clock_(args.clock),
        device_(options),
        net_(config_of(args)),
        session_(net_, device_, comm_, parallel::decoupled_adamw{.learning_rate = 6e-4},
                 {.clip = {.kind = parallel::train::clipping_kind::norm, .threshold = 1.0}},
                 options, parallel::host::stream_options{.threads = 1, .cores = options.cores}),
        ids_(static_cast<std::size_t>(args.batch * args.length)),
        labels_(ids_.size()) {
    parallel::philox const random(1, parallel::stream_id("train_step"));
    for (std::size_t i = 0; i < ids_.size(); ++i)
      ids_[i] = static_cast<std::int32_t>(random.bits(i) %
                                          static_cast<std::uint32_t>(net_.config().vocab_size));
    std::rotate_copy(ids_.begin(), ids_.begin() + 1, ids_.end(), labels_.begin());
    index const count = std::ssize(ids_);
    batch_ = {{ids_.data(), {count}}, {labels_.data(), {count}}, args.batch, args.length, count};
    session_.initialise(1);
  }

  /// Seconds of one step.
  double step() {
    double const begin = bench::read_clock(clock_);
    index const first = 0;
    auto const result =
        session_.step({{&batch_, 1}, {&first, 1}, {.seed = 1, .step = step_count_++}});
    double const seconds = bench::read_clock(clock_) - begin;
    loss_ = result.sums.mean_loss();
    return seconds;
  }

  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] mpt::model_config const& config() const { return net_.config(); }
  [[nodiscard]] bench::timed_stream& compute() { return session_.compute(); }

 private:
  static mpt::model_config read_config(std::string const& file) {
    std::ifstream text(file);
    auto read = mpt::from_hf_json(nlohmann::json::parse(text), file).model;
    read.max_seq_len = std::min<std::int64_t>(read.max_seq_len, 4096);
    return read;
  }

  static mpt::model_config config_of(arguments const& args) {
    auto config = args.config.empty() ? mpt::named_size(args.size) : read_config(args.config);
    if (args.form == "b") config = mpt::hub_form(config);
    config.attn.attn_pdrop = config.resid_pdrop = config.emb_pdrop = args.dropout;
    return config;
  }

  bench::clock_kind clock_;
  bench::timed_device device_;
  parallel::single comm_;
  mpt::model<T> net_;
  parallel::train::session<mpt::model<T>, bench::timed_device, parallel::single,
                           parallel::decoupled_adamw>
      session_;
  std::vector<std::int32_t> ids_, labels_;
  mpt::microbatch batch_;
  std::uint32_t step_count_ = 0;
  double loss_ = 0;
};

template <class T, class C>
double seconds_of(bench::product const& p, bench::timed_stream& stream, bench::clock_kind clock) {
  std::vector<T> const a(static_cast<std::size_t>(p.m * p.k), T(0.01F));
  std::vector<T> const b(static_cast<std::size_t>(p.k * p.n), T(0.01F));
  std::vector<C> c(static_cast<std::size_t>(p.m * p.n), C(0.0F));
  auto const view_as_stored = [](auto const& v, index rows, index columns, bool transposed) {
    return matrix_view<T const>(v.data(), transposed ? parallel::shape<2>{columns, rows}
                                                     : parallel::shape<2>{rows, columns});
  };
  double seconds = 0;
  for (int run = 0; run < 3; ++run) {  // the first one warms up
    double const begin = bench::read_clock(clock);
    parallel::ops::matmul(stream, matrix_view<C>(c.data(), {p.m, p.n}),
                          view_as_stored(a, p.m, p.k, p.options.transpose_a),
                          view_as_stored(b, p.k, p.n, p.options.transpose_b), p.options);
    stream.synchronize();
    if (run > 0) seconds += bench::read_clock(clock) - begin;
  }
  return seconds / 2;
}

/// Measures the products of a step on one stream.
template <class T>
class timed_products {
 public:
  timed_products(std::vector<bench::product> const& step_products, bench::timed_stream& stream,
                 bench::clock_kind clock)
      : stream_(stream), clock_(clock) {
    for (auto const& p : step_products) {
      auto const entry = std::ranges::find_if(
          kinds_, [&](auto const& kind) { return key_of(kind.first) == key_of(p); });
      if (entry == kinds_.end())
        kinds_.emplace_back(p, 1);
      else
        ++entry->second;
      operations_ += 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n * p.k);
    }
  }

  /// The seconds of all products: each kind is measured alone and multiplied by its count.
  [[nodiscard]] double measure() const {
    double sum = 0;
    for (auto const& [p, count] : kinds_)
      sum += count * (p.output == p.input
                          ? seconds_of<T, T>(p, stream_, clock_)
                          : seconds_of<T, parallel::accumulate_t<T>>(p, stream_, clock_));
    return sum;
  }
  [[nodiscard]] double operations() const { return operations_; }

 private:
  static auto key_of(bench::product const& p) {
    return std::tuple(p.m, p.n, p.k, p.output, p.options.transpose_a, p.options.transpose_b,
                      p.options.accumulate);
  }

  bench::timed_stream& stream_;
  bench::clock_kind clock_;
  std::vector<std::pair<bench::product, int>> kinds_;  // with the count of each
  double operations_ = 0;
};

template <class T>
void run(arguments const& args, apps::engine const& engine) {
  auto const cores = apps::available_cores();
  int const threads =
      args.threads > 0 ? args.threads : std::max<int>(1, static_cast<int>(cores.size()));
  timed_training<T> training(args,
                             {.threads = threads, .cores = cores, .engine = engine.products.get()});
  for (int warm_up_step = 0; warm_up_step < 2; ++warm_up_step) static_cast<void>(training.step());

  static_cast<void>(bench::take_allocations());
  static_cast<void>(training.step());
  auto const allocated = bench::take_allocations();
  training.compute().start(args.clock);
  double const profiled = training.step();
  auto const profile = training.compute().stop();

  auto const library = apps::library_product();
  bool const is_library = library.name == engine.name;
  bench::timed_stream library_stream(
      {.threads = threads, .cores = cores, .engine = library.products.get()});
  timed_products<T> const own_products(profile.products, training.compute(), args.clock);
  timed_products<T> const library_bound_products(profile.products, library_stream, args.clock);
  std::vector<double> seconds, product_seconds, library_product_seconds;
  auto const run_round = [&] {
    seconds.push_back(training.step());
    product_seconds.push_back(own_products.measure());
    library_product_seconds.push_back(is_library ? product_seconds.back()
                                                 : library_bound_products.measure());
    return seconds.back();
  };
  if (args.is_following) {
    std::cout << "ready" << std::endl;
    for (std::string line; std::getline(std::cin, line);) std::cout << run_round() << std::endl;
  } else {
    for (int i = 0; i < args.steps; ++i) run_round();
  }
  if (seconds.empty()) return;

  auto const tokens = static_cast<double>(args.batch * args.length);
  auto const& config = training.config();
  double const attention = 6.0 * tokens * static_cast<double>(config.n_layers * config.d_model) *
                           static_cast<double>(args.length + 1);
  double const bound_factor = 1 + attention / own_products.operations();
  double const best = std::ranges::min(seconds);
  nlohmann::ordered_json out{
      {"size", args.config.empty() ? args.size : args.config},
      {"form", args.form},
      {"precision", args.precision},
      {"batch", args.batch},
      {"length", args.length},
      {"threads", threads},
      {"engine", engine.name},
      {"dropout", args.dropout},
      {"seconds", best},
      {"median_seconds", bench::median(seconds)},
      {"tokens_per_second", tokens / best},
      {"product_rate", own_products.operations() / bench::median(product_seconds)},
      {"parameters", mpt::parameter_count(config)},
      {"used_parameters", mpt::used_parameter_count(config)},
      {"bound_seconds", bound_factor * bench::median(product_seconds)},
      {"share_of_bound", bound_factor * bench::median_share(product_seconds, seconds)},
      {"library", library.name},
      {"share_of_library_bound",
       bound_factor * bench::median_share(library_product_seconds, seconds)},
      {"allocated_bytes", allocated.bytes},
      {"allocations", allocated.calls},
      {"largest_allocation", allocated.largest},
      {"loss", training.loss()},
      {"profiled_seconds", profiled}};
  std::vector<std::pair<double, std::string_view>> order;
  for (auto const& [name, spent] : profile.seconds) order.emplace_back(spent, name);
  std::ranges::sort(order, std::greater{});
  for (auto const& [spent, name] : order) out["operations"][std::string(name)] = spent;
  out["operations"]["(products alone)"] = bench::median(product_seconds);
  std::cout << out.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Time of one training step of MPT on this machine, as a JSON line"};
  app.add_option("--size", args.size, "125m, 350m, ...");
  app.add_option("--form", args.form, "a: learned positions and biases; b: ALiBi, no bias")
      ->check(CLI::IsMember({"a", "b"}));
  app.add_option("--config", args.config, "a family's config.json, in place of size and form")
      ->check(CLI::ExistingFile);
  app.add_option("--precision", args.precision)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--batch", args.batch, "sequences")->check(CLI::PositiveNumber);
  app.add_option("--length", args.length, "tokens of a sequence")->check(CLI::PositiveNumber);
  app.add_option("--threads", args.threads, "default: one per core");
  app.add_option("--steps", args.steps)->check(CLI::PositiveNumber);
  app.add_option("--dropout", args.dropout, "everywhere, attention included");
  app.add_flag_callback(
      "--processor-time", [&] { args.clock = bench::clock_kind::processor; },
      "count processor time of all threads instead of time; use with --threads 1");
  app.add_flag("--follow", args.is_following, "one step for each line of standard input");
  return apps::run(app, argc, argv, [&] {
    auto const engine = apps::make_engine();
    if (args.precision == "fp32")
      run<float>(args, engine);
    else
      run<bf16>(args, engine);
  });
}
