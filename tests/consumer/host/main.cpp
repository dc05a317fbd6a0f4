// A small model trained on two ranks with ZeRO-1; prints the losses to the last bit.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <parallel/parallel.hpp>

namespace {

using parallel::index;
constexpr index vocabulary = 17, features = 16, rows = 8;

struct batch_view {
  parallel::vector_view<std::int32_t const> ids, labels;
};

struct next_token_model {
  using element = float;
  using microbatch = batch_view;
  using linear = parallel::linear<float>;
  using block = parallel::residual<parallel::sequential<linear, parallel::activation<float>, linear>>;

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
  index sequence(batch_view const&) const { return 4; }
  index width() const { return features; }
  void visit_units(auto&& visit) {
    using parts = std::vector<parallel::train::part>;
    using uses = std::vector<parallel::parameter_base<float>*>;
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
    auto const dlogits = training ? logits : parallel::matrix_view<float>{};
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

}  // namespace

int main() {
  parallel::threads::run(2, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    next_token_model model;
    parallel::train::session session(model, device, comm, parallel::decoupled_adamw{.learning_rate = 1e-2},
                                     {.level = parallel::zero::level::optimizer,
                                      .clip = {parallel::train::clipping_kind::norm, 1.0}});
    std::vector<std::int32_t> ids, labels;
    for (std::int32_t i = 0; i < rows; ++i) {
      ids.push_back((i + 3 * comm.rank()) % vocabulary);
      labels.push_back((3 * ids.back() + 1) % vocabulary);
    }
    batch_view const batch{{ids.data(), {rows}}, {labels.data(), {rows}}};
    parallel::index const first = 2 * comm.rank();
    auto const on_update = [&](parallel::index, auto const& result) {
      if (comm.rank() == 0) std::printf("%a\n", static_cast<double>(result.sums.mean_loss()));
    };
    parallel::train::run_training(session, {.batches = 20,
                                            .seed = 42,
                                            .data = [&](parallel::index) {
                                              return parallel::train::rank_batch<batch_view>{
                                                  .microbatches = {&batch, 1}, .first_sequences = {&first, 1}};
                                            },
                                            .on_update = on_update});
  });
}
