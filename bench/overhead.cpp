// overhead: the cost of the library on one rank. A training step by the stepper alternates with the
// same step written by hand, with direct calls of the same operations on flat arrays. The program
// prints both times and their ratio; both must give the same losses.
//
// The model has an embedding, residual blocks (norm, linear, GELU, linear), a last norm and a head.
// A step is forward, backward, clipping and AdamW.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/embedding.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/tensor/head.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/session.hpp>

#include <devices/cores.hpp>
#include <devices/engine.hpp>
#include "parts/clock.hpp"

namespace {

namespace host = parallel::host;
namespace ops = parallel::ops;
namespace train = parallel::train;
using parallel::index;
using matrix = parallel::matrix_view<float>;
using vector = parallel::vector_view<float>;
using const_matrix = parallel::matrix_view<float const>;
using ids_view = parallel::vector_view<std::int32_t const>;

struct arguments {
  index width = 256, blocks = 4, rows = 512, vocabulary = 1024;
  int threads = 1, pairs = 100;
  bool uses_processor_time = false;
};

struct batch_view {
  ids_view ids, labels;
};

constexpr double learning_rate = 1e-3;

class layered_model {
 public:
  using element = float;
  using microbatch = batch_view;
  using linear = parallel::linear<float>;
  using norm = parallel::norm<float>;
  using block =
      parallel::residual<parallel::sequential<norm, linear, parallel::activation<float>, linear>>;

  explicit layered_model(arguments const& args) : args_(args) {
    auto const table = [](std::string const& name, index out, index in) {
      return parallel::parameter<float, 2>{name, {out, in}, parallel::normal_init{0.05F}};
    };
    auto const make_norm = [&](std::string const& name) {
      return norm{{name + ".weight", {args.width}, parallel::constant_init{1.0F}},
                  {name + ".bias", {args.width}}};
    };
    tokens_.weight = table("tokens", args.vocabulary, args.width);
    for (index i = 0; i < args.blocks; ++i) {
      auto const name = std::to_string(i);
      blocks_.emplace_back(parallel::sequential(
          make_norm(name), linear{table(name + ".up", 4 * args.width, args.width), {}},
          parallel::activation<float>{},
          linear{table(name + ".down", args.width, 4 * args.width), {}}));
    }
    head_.norm_f = make_norm("norm");
    head_.weight = table("head", args.vocabulary, args.width);
  }

  [[nodiscard]] std::size_t num_blocks() const { return blocks_.size(); }
  [[nodiscard]] block const& at(std::size_t i) const { return blocks_[i]; }
  [[nodiscard]] index rows(batch_view const& b) const { return b.ids.size(); }
  [[nodiscard]] index sequence(batch_view const& b) const { return b.ids.size(); }
  [[nodiscard]] index width() const { return args_.width; }

  void visit_units(auto&& visit) {
    using parts = std::vector<train::part>;
    using uses = std::vector<parallel::parameter_base<float>*>;
    visit(std::string("tokens"), tokens_, parts{train::embed}, uses{});
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      visit(std::to_string(i), blocks_[i], parts{static_cast<index>(i)}, uses{});
    visit(std::string("head"), head_, parts{args_.blocks}, uses{});
  }
  auto embed(auto& c, batch_view const& b) const { return tokens_.forward(c, b.ids); }
  void enter_backward(auto& c, batch_view const& b, const_matrix dy) const {
    tokens_.backward_weight(c, b.ids, dy);
  }
  void head_loss(auto& c, batch_view const& b, const_matrix x, matrix dx,
                 train::statistics<double>& sums) const {
    head_.loss(c, b.labels, b.labels.size(), x, dx, sums);
  }

 private:
  arguments args_;
  parallel::embedding<float> tokens_;
  std::deque<block> blocks_;
  parallel::tensor::head<float, parallel::single> head_;
};

/// The training step that the library's session makes.
class library_step {
 public:
  library_step(arguments const& args, host::stream_options const& options, batch_view const& batch)
      : device_(options),
        model_(args),
        session_(model_, device_, comm_, parallel::decoupled_adamw{.learning_rate = learning_rate},
                 {.clip = {.kind = train::clipping_kind::norm, .threshold = 1.0}}, options,
                 host::stream_options{.threads = 1, .cores = options.cores}),
        batch_(batch) {
    session_.initialise(1);
  }

  /// Runs a step; returns the mean loss.
  double step() {
    index const first = 0;
    return session_.step({{&batch_, 1}, {&first, 1}, {.seed = 1, .step = step_count_++}})
        .sums.mean_loss();
  }

  /// All parameters, in the order of the model.
  [[nodiscard]] std::vector<float> values() {
    std::vector<float> out;
    model_.visit_units([&](auto const&, auto& layer, auto const&, auto const&) {
      layer.visit_parameters([&](auto& p) { out.insert(out.end(), p.data, p.data + p.size()); });
    });
    return out;
  }

 private:
  host::device device_;
  parallel::single comm_;
  layered_model model_;
  train::session<layered_model, host::device, parallel::single, parallel::decoupled_adamw> session_;
  batch_view batch_;
  std::uint32_t step_count_ = 0;
};

/// The training step written by hand. Values, gradients and each optimizer state of all parameters
/// are one array each.
class manual_step {
 public:
  manual_step(arguments const& args, host::stream_options const& options, batch_view const& batch,
              std::vector<float> const& values)
      : args_(args), stream_(options), batch_(batch), values_(allocate(std::ssize(values))) {
    std::ranges::copy(values, values_.data());
    for (auto* const state : {&gradients_, &first_moment_, &second_moment_})
      *state = allocate(std::ssize(values));
    index const n = args_.rows, d = args_.width;
    for (auto* const x : {&dx_, &normed_, &d_normed_, &next_dx_}) *x = allocate(n * d);
    saved_.resize(static_cast<std::size_t>(args_.blocks));
    for (auto& saved : saved_) {
      for (auto* const x : {&saved.x, &saved.normed}) *x = allocate(n * d);
      for (auto* const x : {&saved.up, &saved.activated}) *x = allocate(4 * n * d);
      for (auto* const x : {&saved.mean, &saved.rstd}) *x = allocate(n);
    }
    for (auto* const x : {&last_x_, &losses_}) *x = allocate(n * d);
    for (auto* const x : {&mean_, &rstd_}) *x = allocate(n);
    d_up_ = allocate(4 * n * d);
    logits_ = allocate(n * args_.vocabulary);
    correct_.resize(size(n));
  }

  /// Runs a step; returns the mean loss.
  double step() {
    // rows, width, width of the hidden layer, vocabulary
    index const n = args_.rows, d = args_.width, h = 4 * d, v = args_.vocabulary;
    index const block_size = 2 * d + 2 * h * d;
    index const tail_begin = v * d + args_.blocks * block_size;  // offset of the last norm
    double loss = 0, squared = 0;
    std::int64_t correct = 0;
    // Only sums need cleared gradients: products overwrite their results.
    auto const clear = [&](index begin, index count) {
      ops::fill(stream_, gradient(begin, count).span(), 0.0F);
    };
    clear(0, v * d);
    for (index i = 0; i < args_.blocks; ++i) clear(v * d + i * block_size, 2 * d);
    clear(tail_begin, 2 * d);
    auto x = view(saved_.empty() ? last_x_ : saved_[0].x, n, d);
    ops::embedding(stream_, x, batch_.ids, const_matrix(values_.data(), {v, d}));
    for (index i = 0; i < args_.blocks; ++i) {
      auto& saved = saved_[static_cast<std::size_t>(i)];
      index const offset = v * d + i * block_size;  // of the block's parameters
      bool const is_last = i + 1 == args_.blocks;
      auto const y = view(is_last ? last_x_ : saved_[static_cast<std::size_t>(i + 1)].x, n, d);
      ops::layer_norm(stream_, view(saved.normed, n, d), view(saved.mean, n), view(saved.rstd, n),
                      as_const(x), value(offset, d), value(offset + d, d));
      ops::matmul(stream_, view(saved.up, n, h), as_const(view(saved.normed, n, d)),
                  value(offset + 2 * d, h, d), {.transpose_b = true});
      ops::activation(stream_, saved.activated.span(), std::span<float const>(saved.up.span()),
                      gelu);
      ops::matmul(stream_, y, as_const(view(saved.activated, n, h)),
                  value(offset + 2 * d + h * d, d, h), {.transpose_b = true}, as_const(x));
      x = y;
    }
    auto const normed = view(normed_, n, d), d_normed = view(d_normed_, n, d);
    auto dx = view(dx_, n, d), next_dx = view(next_dx_, n, d);
    auto const logits = view(logits_, n, v);
    ops::layer_norm(stream_, normed, view(mean_, n), view(rstd_, n), as_const(x),
                    value(tail_begin, d), value(tail_begin + d, d));
    ops::matmul(stream_, logits, as_const(normed), value(tail_begin + 2 * d, v, d),
                {.transpose_b = true});
    vector const losses(losses_.data(), {n});
    parallel::vector_view<std::uint8_t> const is_correct(correct_.data(), {n});
    ops::cross_entropy(stream_, logits, losses, is_correct, as_const(logits), batch_.labels);
    ops::sum(stream_, &loss, std::span<float const>(losses.span()));
    ops::sum(stream_, &correct, std::span<std::uint8_t const>(is_correct.span()));
    ops::matmul(stream_, d_normed, as_const(logits), value(tail_begin + 2 * d, v, d));
    ops::matmul(stream_, gradient(tail_begin + 2 * d, v, d), as_const(logits), as_const(normed),
                {.transpose_a = true});
    ops::layer_norm_backward_input(stream_, dx, as_const(d_normed), as_const(x),
                                   value(tail_begin, d), view(mean_, n), view(rstd_, n));
    ops::layer_norm_backward_weight(stream_, gradient(tail_begin, d), gradient(tail_begin + d, d),
                                    as_const(d_normed), as_const(x), view(mean_, n),
                                    view(rstd_, n));
    for (index i = args_.blocks; i-- > 0;) {
      auto& saved = saved_[static_cast<std::size_t>(i)];
      index const offset = v * d + i * block_size;
      auto const d_up = view(d_up_, n, h);
      ops::matmul(stream_, d_up, as_const(dx), value(offset + 2 * d + h * d, d, h));
      ops::matmul(stream_, gradient(offset + 2 * d + h * d, d, h), as_const(dx),
                  as_const(view(saved.activated, n, h)), {.transpose_a = true});
      ops::activation_backward(stream_, d_up.span(), std::span<float const>(saved.up.span()),
                               as_const(d_up).span(), gelu);
      ops::matmul(stream_, d_normed, as_const(d_up), value(offset + 2 * d, h, d));
      ops::matmul(stream_, gradient(offset + 2 * d, h, d), as_const(d_up),
                  as_const(view(saved.normed, n, d)), {.transpose_a = true});
      ops::layer_norm_backward_input(stream_, next_dx, as_const(d_normed),
                                     as_const(view(saved.x, n, d)), value(offset, d),
                                     view(saved.mean, n), view(saved.rstd, n), as_const(dx));
      ops::layer_norm_backward_weight(stream_, gradient(offset, d), gradient(offset + d, d),
                                      as_const(d_normed), as_const(view(saved.x, n, d)),
                                      view(saved.mean, n), view(saved.rstd, n));
      std::swap(dx, next_dx);
    }
    ops::embedding_backward(stream_, gradient(0, v, d), as_const(dx), batch_.ids);
    ops::squared_norm(stream_, &squared, std::span<float const>(gradients_.span()));
    stream_.synchronize();
    double const norm = std::sqrt(squared) / static_cast<double>(n);
    auto const scale =
        static_cast<float>(std::min(1.0, 1.0 / (norm + 1e-6)) / static_cast<double>(n));
    ops::adamw(stream_, values_.span(), values_.span(), first_moment_.span(), second_moment_.span(),
               std::span<float const>(gradients_.span()),
               {.lr = learning_rate,
                .initial_lr = learning_rate,
                .step = ++step_count_,
                .gradient_scale = &scale});
    stream_.synchronize();
    return loss / static_cast<double>(n);
  }

 private:
  using numbers = parallel::buffer<float>;  // memory of the device, aligned
  static constexpr auto gelu = ops::activation_kind::gelu;

  [[nodiscard]] numbers allocate(index n) const { return device_.allocate_zeroed<float>(size(n)); }
  static std::size_t size(index n) { return static_cast<std::size_t>(n); }
  static matrix view(numbers& x, index rows, index columns) { return {x.data(), {rows, columns}}; }
  static vector view(numbers& x, index n) { return {x.data(), {n}}; }
  static const_matrix as_const(matrix x) { return x; }
  [[nodiscard]] parallel::vector_view<float const> value(index begin, index n) const {
    return {values_.data() + begin, {n}};
  }
  [[nodiscard]] const_matrix value(index begin, index rows, index columns) const {
    return {values_.data() + begin, {rows, columns}};
  }
  vector gradient(index begin, index n) { return {gradients_.data() + begin, {n}}; }
  matrix gradient(index begin, index rows, index columns) {
    return {gradients_.data() + begin, {rows, columns}};
  }

  struct saved_block {
    numbers x, normed, up, activated, mean, rstd;
  };

  arguments args_;
  host::device device_;
  host::stream stream_;
  batch_view batch_;
  numbers values_, gradients_, first_moment_, second_moment_;
  std::vector<saved_block> saved_;
  numbers last_x_, normed_, d_normed_, dx_, next_dx_, d_up_, logits_, losses_, mean_, rstd_;
  std::vector<std::uint8_t> correct_;
  std::int64_t step_count_ = 0;
};

double median(std::vector<double> x) {
  std::ranges::sort(x);
  return x[x.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Measures the time that the library adds to a training step written by hand"};
  app.add_option("--width", args.width);
  app.add_option("--blocks", args.blocks);
  app.add_option("--rows", args.rows, "tokens per step");
  app.add_option("--vocabulary", args.vocabulary);
  app.add_option("--threads", args.threads);
  app.add_option("--pairs", args.pairs, "number of pairs: one step by the library, one by hand");
  app.add_flag("--processor-time", args.uses_processor_time,
               "measure the processor time of all threads instead of elapsed time");
  CLI11_PARSE(app, argc, argv);

  auto const engine = apps::make_engine();
  host::stream_options const options{
      .threads = args.threads, .cores = apps::available_cores(), .engine = engine.products.get()};
  std::vector<std::int32_t> ids, labels;
  for (parallel::index i = 0; i < args.rows; ++i) {
    ids.push_back(static_cast<std::int32_t>(i * 7919 % args.vocabulary));
    labels.push_back(static_cast<std::int32_t>((i * 7919 + 1) % args.vocabulary));
  }
  batch_view const batch{{ids.data(), {args.rows}}, {labels.data(), {args.rows}}};
  library_step library_program(args, options, batch);
  manual_step manual_program(args, options, batch, library_program.values());

  auto const clock =
      args.uses_processor_time ? bench::clock_kind::processor : bench::clock_kind::wall;
  std::vector<double> library_seconds, manual_seconds, ratios;
  double difference = 0, loss = 0;
  for (int pair = -5; pair < args.pairs; ++pair) {  // the first five pairs warm up
    double seconds[2];
    double losses[2];
    for (int turn = 0; turn < 2; ++turn) {  // the two programs alternate in going first
      int const program = (turn + pair + 6) % 2;
      double const begin = bench::read_clock(clock);
      losses[program] = program == 0 ? library_program.step() : manual_program.step();
      seconds[program] = bench::read_clock(clock) - begin;
    }
    loss = losses[0];
    difference = std::max(difference, std::abs(losses[0] - losses[1]));
    if (pair < 0) continue;
    library_seconds.push_back(seconds[0]);
    manual_seconds.push_back(seconds[1]);
    ratios.push_back(seconds[0] / seconds[1]);
  }
  fmt::print(
      "{} engine, {} threads: by hand {:.2f} ms, with the library {:.2f} ms (medians of {})\n",
      engine.name, args.threads, 1e3 * median(manual_seconds), 1e3 * median(library_seconds),
      args.pairs);
  fmt::print("overhead: median of ratios {:+.2f} %, of the fastest steps {:+.2f} %\n",
             100 * (median(ratios) - 1),
             100 * (*std::ranges::min_element(library_seconds) /
                        *std::ranges::min_element(manual_seconds) -
                    1));
  fmt::print("the last loss is {:.5f}, losses differ by at most {:.1e}\n", loss, difference);
  return difference < 1e-3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
