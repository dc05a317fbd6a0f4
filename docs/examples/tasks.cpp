// One small model with what the how-to pages of the site show: tied weights, a block that is used
// three times, recomputation, a user-defined loss, microbatches, a learning rate schedule, a table
// of metrics and an evaluation; in float and in bf16. Recomputation and a loop of one's own change
// no bit, and two ranks with ZeRO-3 give the losses of one.
//
// The task: the token after t is (3 t + 1) mod 17.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <parallel/parallel.hpp>

namespace example {

using parallel::accumulate_t;
using parallel::index;
using parallel::matrix_view;
using parallel::vector_view;

constexpr index vocabulary = 17, features = 16, sequences = 7, length = 4, batches = 80;

struct batch_view {
  vector_view<std::int32_t const> ids, labels;  // [sequences * length]
};

// [guide: own_loss]
/// losses[i] = |logits[i] - onehot(labels[i])|^2 / 2, and its gradient. Losses are of rows, and
/// nothing is divided: the optimizer divides once, by the tokens of the whole global batch.
constexpr auto squared_error =
    []<class T>(matrix_view<T> dlogits, vector_view<accumulate_t<T>> losses,
                matrix_view<T const> logits, vector_view<std::int32_t const> labels) {
      using A = accumulate_t<T>;
      for (index i = 0; i < logits.extent(0); ++i) {
        A sum = 0;
        for (index j = 0; j < logits.extent(1); ++j) {
          A const difference = A(logits(i, j)) - A(j == labels(i) ? 1 : 0);
          sum += difference * difference / 2;
          dlogits(i, j) = static_cast<T>(difference);
        }
        losses(i) = sum;
      }
    };
// [guide: end]

template <class T>
struct tied_model {
  using element = T;
  using microbatch = batch_view;
  using linear = parallel::linear<T>;
  // [guide: recompute]
  using branch = parallel::residual<parallel::sequential<linear, parallel::activation<T>, linear>>;
  using block = parallel::recompute<branch>;  // keeps the block's input alone, where it is active
  // [guide: end]

  parallel::embedding<T> tokens;
  block body;
  linear exit;

  explicit tied_model(bool recomputes) {
    parallel::initializer const start = parallel::normal_init{0.2F};
    auto& [up, activation, down] = body.inner.inner.layers;
    up.weight = {"up", {4 * features, features}, start};
    down.weight = {"down", {features, 4 * features}, start};
    body.active = recomputes;
    // [guide: tied]
    tokens.weight = {"tokens", {vocabulary, features}, start};
    exit.weight = {"tokens", {vocabulary, features}, start};  // the same name, the same shape
    // [guide: end]
  }

  // [guide: shared]
  static constexpr index blocks = 3;
  std::size_t num_blocks() const { return blocks; }
  block const& at(std::size_t) const { return body; }  // the same layer three times

  void visit_units(auto&& visit) {
    using parts = std::vector<parallel::train::part>;
    using uses = std::vector<parallel::parameter_base<T>*>;  // of tied weights
    // the table, which the embedding and the exit (part number `blocks`) compute with
    visit(std::string("tokens"), tokens, parts{parallel::train::embed, blocks}, uses{&exit.weight});
    visit(std::string("body"), body, parts{0, 1, 2}, uses{});  // its gradients are added
  }
  // [guide: end]

  index rows(batch_view const& b) const { return b.ids.size(); }
  index sequence(batch_view const&) const { return length; }
  index width() const { return features; }

  auto embed(auto& c, batch_view const& b) const { return tokens.forward(c, b.ids); }
  void enter_backward(auto& c, batch_view const& b, matrix_view<T const> dy) const {
    tokens.backward_weight(c, b.ids, dy);
  }

  // [guide: head_loss]
  void head_loss(auto& c, batch_view const& b, matrix_view<T const> x, matrix_view<T> dx,
                 parallel::train::statistics<double>& sums) const {
    typename linear::saved state;
    matrix_view<T const> const logits = exit.forward(c, x, state);
    auto const dlogits = c.template allocate<T, 2>(logits.extents());
    auto const losses = c.template allocate<accumulate_t<T>, 1>({x.extent(0)});
    parallel::ops::custom(c.stream, squared_error, dlogits, losses, logits, b.labels);
    parallel::ops::sum(c.stream, &sums.loss, std::span<accumulate_t<T> const>(losses.span()));
    sums.tokens += b.labels.size();
    if (dx.extent(0) == 0) return;  // an evaluation
    auto const gradient = exit.backward_input(c, dlogits, state);
    exit.backward_weight(c, state);
    parallel::ops::copy(c.stream, dx.span(), std::span<T const>(gradient.span()));
  }
  // [guide: end]
};

// [guide: microbatches]
/// The data of a rank: its share of the sequences of a batch, in microbatches of two.
struct rank_data {
  rank_data(index begin, int rank, int ranks)
      : max_microbatches(
            static_cast<std::size_t>(parallel::data::max_microbatches(sequences, ranks, 2))) {
    auto const share = parallel::data::share_of(sequences, rank, ranks);
    for (index s = share.begin; s < share.end; ++s)
      for (index t = 0, token = begin + s; t < length; ++t, token = (3 * token + 1) % vocabulary) {
        ids.push_back(static_cast<std::int32_t>(token));
        labels.push_back(static_cast<std::int32_t>((3 * token + 1) % vocabulary));
      }
    for (auto const& part : parallel::data::microbatches(share, 2)) {
      auto const row = (part.begin - share.begin) * length, rows = part.size() * length;
      microbatches.push_back({{ids.data() + row, {rows}}, {labels.data() + row, {rows}}});
      first_sequences.push_back(part.begin);
    }
  }
  parallel::train::rank_batch<batch_view> batch() const {
    return {.microbatches = microbatches,
            .first_sequences = first_sequences,
            .max_microbatches = max_microbatches};  // of any rank: others are given empty ones
  }

  std::size_t max_microbatches;
  std::vector<std::int32_t> ids, labels;
  std::vector<batch_view> microbatches;
  std::vector<index> first_sequences;
};
// [guide: end]

// [guide: schedule]
parallel::train::learning_rate_schedule const rate{
    .shape = parallel::train::decay::cosine, .warmup = 5, .end = batches, .to = 0.1};
// [guide: end]

struct outcome {
  std::vector<double> losses;
  double held_out = 0;
};

template <class T>
outcome train(int ranks, bool recomputes, std::FILE* table = nullptr) {
  outcome out;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    tied_model<T> model(recomputes);
    parallel::train::session session(model, device, comm,
                                     parallel::decoupled_adamw{.learning_rate = 1e-2},
                                     {.level = parallel::zero::level::parameters});  // ZeRO-3
    rank_data const data(0, comm.rank(), comm.size());
    rank_data const held_out(sequences, comm.rank(), comm.size());
    // [guide: log]
    auto const on_update = [&](index batch, auto const& result) {
      if (comm.rank() != 0) return;  // all ranks have the same sums
      out.losses.push_back(result.sums.mean_loss());
      if (table != nullptr)
        std::fprintf(table, "%td,%.5f,%.5f,%.5f\n", batch, result.sums.mean_loss(),
                     result.gradient_norm, 1e-2 * rate.at(static_cast<double>(batch - 1)));
    };
    // [guide: end]
    // [guide: evaluate]
    auto const on_evaluation = [&](index, auto const& sums) {
      if (comm.rank() == 0) out.held_out = sums.mean_loss();
    };
    parallel::train::run_training(session, {.batches = batches,
                                            .seed = 42,
                                            .learning_rate = rate,
                                            .data = [&](index) { return data.batch(); },
                                            .evaluation_data = [&] { return held_out.batch(); },
                                            .evaluation_interval = 20,
                                            .on_update = on_update,
                                            .on_evaluation = on_evaluation});
    // [guide: end]
  });
  return out;
}

/// The losses of the same training on one rank, by its own loop.
std::vector<double> train_in_own_loop() {
  std::vector<double> losses;
  parallel::threads::run(1, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    tied_model<float> model(false);
    parallel::train::session session(model, device, comm,
                                     parallel::decoupled_adamw{.learning_rate = 1e-2},
                                     {.level = parallel::zero::level::parameters});
    rank_data const data(0, comm.rank(), comm.size());
    // [guide: own_loop]
    session.initialise(42);
    for (index batch = 0; batch < batches; ++batch) {
      parallel::position const current{.seed = 42, .step = static_cast<std::uint32_t>(batch)};
      auto const result = session.step(data.batch(), current, rate.at(static_cast<double>(batch)));
      losses.push_back(result.sums.mean_loss());
    }
    // [guide: end]
  });
  return losses;
}

bool is_close(outcome const& a, outcome const& b, double tolerance) {
  if (a.losses.size() != batches || b.losses.size() != batches) return false;
  auto const bound = tolerance * a.losses[0];
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    if (std::abs(a.losses[i] - b.losses[i]) > bound) return false;
  return std::abs(a.held_out - b.held_out) <= bound;
}

/// Compares the gradients of the whole model with differences of its loss.
bool check_gradients() {
  // [guide: check_model]
  tied_model<double> model(true);
  rank_data const data(0, 0, 1);
  auto const rows = static_cast<index>(data.ids.size());
  batch_view const whole{{data.ids.data(), {rows}}, {data.labels.data(), {rows}}};
  auto const result = parallel::check_model(model, whole, data.microbatches);
  // [guide: end]
  return result.difference < 1e-8;
}

}  // namespace example

int main() {
  using example::train;
  std::puts("batch,loss,gradient norm,learning rate");
  auto const stored = train<float>(1, false, stdout);
  auto const recomputed = train<float>(1, true);
  auto const two_ranks = train<float>(2, true);
  auto const rounded = train<parallel::bf16>(2, true);
  std::printf("held out: %.4f, recomputed %.4f, on two ranks %.4f, in bf16 %.4f\n", stored.held_out,
              recomputed.held_out, two_ranks.held_out, rounded.held_out);
  bool const is_learned = stored.losses.back() < 0.1 * stored.losses.front();
  return is_learned && example::check_gradients() &&
                 stored.losses == example::train_in_own_loop() && is_close(stored, recomputed, 0) &&
                 is_close(stored, two_ranks, 1e-3) && is_close(stored, rounded, 0.1)
             ? 0
             : 1;
}
