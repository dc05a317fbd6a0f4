// A user-defined model, trained on three ranks with ZeRO-1 and on one: the losses are the same.
//
// The task: the token after t is (3 t + 1) mod 17. The model: an embedding, one residual block, a
// head. A second training uses a user-defined optimizer with the embedding frozen.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/parallel.hpp>

namespace example {

using parallel::index;

// [guide: model]
constexpr index vocabulary = 17, features = 16, sequences = 9, length = 4;

struct batch_view {
  parallel::vector_view<std::int32_t const> ids, labels;  // [sequences * length]
};

struct next_token_model {
  using element = float;
  using microbatch = batch_view;
  using linear = parallel::linear<float>;
  using gelu = parallel::activation<float>;
  using block = parallel::residual<parallel::sequential<linear, gelu, linear>>;

  parallel::embedding<float> tokens;
  block body;
  linear exit;

  next_token_model() {
    parallel::initializer const start = parallel::normal_init{0.2F};
    tokens.weight = {"tokens", {vocabulary, features}, start};
    auto& [up, activation, down] = body.inner.layers;
    up.weight = {"up", {4 * features, features}, start};
    down.weight = {"down", {features, 4 * features}, start};
    exit.weight = {"exit", {vocabulary, features}, start};
  }

  std::size_t num_blocks() const { return 1; }
  block const& at(std::size_t) const { return body; }
  index rows(batch_view const& b) const { return b.ids.size(); }
  index sequence(batch_view const&) const { return length; }
  index width() const { return features; }

  /// Visits the units, each with the parts after which its gradients are complete. A unit's
  /// parameters are stored, reduced and sharded together.
  void visit_units(auto&& visit) {
    using parts = std::vector<parallel::train::part>;
    using uses = std::vector<parallel::parameter_base<float>*>;  // of tied weights
    visit(std::string("tokens"), tokens, parts{parallel::train::embed}, uses{});
    visit(std::string("body"), body, parts{0}, uses{});
    visit(std::string("exit"), exit, parts{1}, uses{});
  }

  auto embed(auto& c, batch_view const& b) const { return tokens.forward(c, b.ids); }

  void enter_backward(auto& c, batch_view const& b, parallel::matrix_view<float const> dy) const {
    tokens.backward_weight(c, b.ids, dy);
  }

  void head_loss(auto& c, batch_view const& b, parallel::matrix_view<float const> x,
                 parallel::matrix_view<float> dx, parallel::train::statistics<double>& sums) const {
    linear::saved state;
    auto const logits = exit.forward(c, x, state);
    auto const losses = c.template allocate<float, 1>({x.extent(0)});
    auto const correct = c.template allocate<std::uint8_t, 1>({x.extent(0)});
    bool const training = dx.extent(0) > 0;
    auto const dlogits = training ? logits : parallel::matrix_view<float>{};  // in place
    parallel::ops::cross_entropy(c.stream, dlogits, losses, correct,
                                 parallel::matrix_view<float const>(logits), b.labels);
    parallel::ops::sum(c.stream, &sums.loss, std::span<float const>(losses.span()));
    parallel::ops::sum(c.stream, &sums.correct, std::span<std::uint8_t const>(correct.span()));
    sums.tokens += b.labels.size();
    if (!training) return;
    auto const gradient = exit.backward_input(c, dlogits, state);
    exit.backward_weight(c, state);
    parallel::ops::copy(c.stream, dx.span(), std::span<float const>(gradient.span()));
  }
};
// [guide: end]

// [guide: own_optimizer]
/// m = momentum m + g, w -= rate m, where `*scale` has its value only when this runs.
constexpr auto descend = []<class T, class A>(std::span<T> values, std::span<A> master,
                                              std::span<A> velocity, std::span<A const> gradients,
                                              A rate, A momentum, A const* scale) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    velocity[i] = momentum * velocity[i] + gradients[i] * *scale;
    master[i] -= rate * velocity[i];
    values[i] = static_cast<T>(master[i]);
  }
};

/// Gradient descent with momentum.
struct momentum_descent {
  double learning_rate = 0.1, momentum = 0.9;

  static std::span<std::string_view const> state_names() {  // in checkpoints: "exit#velocity"
    static constexpr std::array<std::string_view, 1> names = {"velocity"};
    return names;
  }
  void visit_settings(auto&& visit) const {  // ranks compare these by name
    visit("learning_rate", learning_rate);
    visit("momentum", momentum);
  }

  template <class Stream, class T, parallel::reduced_gradient Gradient>
  void update(Stream& s, parallel::update_ranges<T, Gradient> const& ranges,
              parallel::step_info<parallel::accumulate_t<T>> const& info) const {
    using A = parallel::accumulate_t<T>;
    parallel::ops::custom(
        s, descend, parallel::ops::updates(ranges.values), parallel::ops::updates(ranges.master),
        parallel::ops::updates(ranges.states[0]), std::span<A const>(ranges.gradients.elements),
        static_cast<A>(learning_rate * info.learning_rate_factor), static_cast<A>(momentum),
        info.gradient_scale);
  }
};
// [guide: end]

/// Trains with groups of parameters; returns the mean loss of the last step.
double train_by_groups() {
  double loss = 0;
  parallel::threads::run(1, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    next_token_model model;
    // [guide: groups]
    parallel::train::optimizer_groups<momentum_descent> const groups(
        {momentum_descent{}, momentum_descent{.learning_rate = 0.02}},  // by group
        [](std::string const& name) {
          return parallel::segment_key{.trainable = name != "tokens",  // else frozen
                                       .group = name == "exit" ? 1 : 0};
        });
    parallel::train::session session(model, device, comm, groups, {});
    // [guide: end]
    session.initialise(42);
    std::vector<std::int32_t> ids, labels;
    constexpr std::int32_t rows = 4 * length;  // whole sequences
    for (std::int32_t i = 0; i < rows; ++i) {
      ids.push_back(i);
      labels.push_back((3 * i + 1) % vocabulary);
    }
    batch_view const batch{{ids.data(), {rows}}, {labels.data(), {rows}}};
    index const first = 0;
    for (std::uint32_t i = 0; i < 200; ++i) {
      auto const result = session.step({{&batch, 1}, {&first, 1}, {.seed = 42, .step = i}});
      loss = result.sums.mean_loss();
    }
  });
  return loss;
}

// [guide: data]
/// The data of a rank: its share of the sequences, as one microbatch. The token after t is
/// (3 t + 1) mod 17.
struct rank_data {
  rank_data(int rank, int ranks) : share(parallel::data::share_of(sequences, rank, ranks)) {
    for (index s = share.begin; s < share.end; ++s)
      for (index t = 0, token = s; t < length; ++t, token = (3 * token + 1) % vocabulary) {
        ids.push_back(static_cast<std::int32_t>(token));
        labels.push_back(static_cast<std::int32_t>((3 * token + 1) % vocabulary));
      }
    auto const rows = static_cast<index>(ids.size());
    microbatch = {{ids.data(), {rows}}, {labels.data(), {rows}}};
  }
  parallel::train::rank_batch<batch_view> batch() const {
    return {.microbatches = {&microbatch, 1}, .first_sequences = {&share.begin, 1}};
  }

  parallel::data::share share;
  std::vector<std::int32_t> ids, labels;
  batch_view microbatch;
};
// [guide: end]

std::vector<double> train(int ranks) {
  std::vector<double> losses;
  // [guide: train]
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    next_token_model model;
    parallel::train::session session(model, device, comm,
                                     parallel::decoupled_adamw{.learning_rate = 1e-2},
                                     {.level = parallel::zero::level::optimizer,  // ZeRO-1
                                      .clip = {parallel::train::clipping_kind::norm, 1.0}});
    rank_data const data(comm.rank(), comm.size());
    auto const on_update = [&](index, auto const& result) {
      if (comm.rank() == 0) losses.push_back(result.sums.mean_loss());
    };
    parallel::train::run_training(session, {.batches = 60,
                                            .seed = 42,
                                            .data = [&](index) { return data.batch(); },
                                            .on_update = on_update});
  });
  // [guide: end]
  return losses;
}

}  // namespace example

int main() {
  constexpr int ranks = 3;
  auto const single_rank = example::train(1);
  auto const several_ranks = example::train(ranks);
  std::printf("loss %.4f -> %.4f on one rank, %.4f -> %.4f on %d\n", single_rank.front(),
              single_rank.back(), several_ranks.front(), several_ranks.back(), ranks);
  for (std::size_t i = 0; i < single_rank.size();
       ++i)  // another order of sums may change the last digits
    if (std::abs(single_rank[i] - several_ranks[i]) > 1e-3 * single_rank[0]) return 1;
  parallel::check_optimizer(example::momentum_descent{});  // throws at a mistake in its rule
  auto const group_loss = example::train_by_groups();
  std::printf("loss %.4f with a user-defined optimizer\n", group_loss);
  return single_rank.back() < 0.1 && group_loss < 0.5 ? 0 : 1;
}
