// A model of the Llama family (Touvron et al., 2023: RMSNorm, rotary positions, grouped queries,
// SwiGLU, no biases, an untied head) on eight ranks, tensor 2 x pipeline 2 x ZeRO-3 over 2, and on
// one: the same losses. The task is Fibonacci's rule modulo 29: a token follows from two.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/context/attention.hpp>
#include <parallel/data/share.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/tensor/embedding.hpp>
#include <parallel/tensor/head.hpp>
#include <parallel/tensor/layers.hpp>
#include <parallel/tensor/slices.hpp>
#include <parallel/train/stepper.hpp>

namespace example {

namespace tensor = parallel::tensor;
namespace train = parallel::train;
using parallel::index;
using communicator = parallel::threads::communicator;
using region = tensor::region<communicator>;

constexpr index vocabulary = 32, features = 32, hidden = 64, layers = 4;
constexpr parallel::ops::head_layout heads{.heads = 4, .kv_heads = 2, .dim = 8};
constexpr index sequences = 8, length = 12;

struct batch_view {
  parallel::vector_view<std::int32_t const> ids, labels;  // [sequences * length]
};

// [guide: llama]
class llama {
 public:
  using element = float;
  using microbatch = batch_view;
  using attention = parallel::context_parallel::attention<float, communicator>;
  using swiglu = parallel::feed_forward<parallel::activation<float>>;
  using gather = tensor::gather<float, communicator>;
  using reduce = tensor::reduce<float, communicator>;
  template <class Layer>  // x + layer(norm(x)), divided; it does not compile without reduce
  using branch = parallel::residual<
      parallel::sequential<parallel::norm<float>, gather, tensor::sliced<Layer>, reduce>>;
  using block = parallel::sequential<branch<attention>, branch<swiglu>>;

  explicit llama(region const& ranks) : ranks_(ranks), here_{ranks.rank(), ranks.size()} {
    auto const rows = [&](std::string const& name) {
      auto const some = here_.part_of(vocabulary, "vocabulary");
      return tensor::keep_outputs(here_, linear(name, vocabulary, features), {some}).weight;
    };
    tokens_ = {ranks_, rows("tokens")};
    for (index i = 0; i < layers; ++i) {
      auto const name = "block." + std::to_string(i) + '.';
      blocks_.emplace_back(make_branch(name + "attention_norm", make_attention(name)),
                           make_branch(name + "feed_forward_norm", make_swiglu(name)));
    }
    head_.of = ranks_;
    head_.norm_f = make_norm("norm");
    head_.weight = rows("output");
  }

  std::size_t num_blocks() const { return layers; }
  block const& at(std::size_t i) const { return blocks_[i]; }
  index rows(batch_view const& b) const { return ranks_.rows_outside(b.ids.size()); }
  index sequence(batch_view const&) const { return length; }
  index width() const { return features; }
  /// What is kept, reduced and sharded together, and after which part its gradients are complete.
  void visit_units(auto&& visit) {
    using parts = std::vector<train::part>;
    using uses = std::vector<parallel::parameter_base<float>*>;  // of tied weights
    visit(std::string("tokens"), tokens_, parts{train::enter}, uses{});
    for (index i = 0; i < layers; ++i)
      visit("block." + std::to_string(i), blocks_[static_cast<std::size_t>(i)], parts{i}, uses{});
    visit(std::string("head"), head_, parts{layers}, uses{});
  }
  auto enter(auto& c, batch_view const& b) const { return tokens_.forward(c, b.ids); }
  void enter_backward(auto& c, batch_view const& b, parallel::matrix_view<float const> dy) const {
    tokens_.backward_weight(c, b.ids, dy);
  }
  void leave(auto& c, batch_view const& b, parallel::matrix_view<float const> x,
             parallel::matrix_view<float> dx, train::statistics<double>& sums) const {
    head_.loss(c, b.labels, b.labels.size(), x, dx, sums);
  }

 private:
  static parallel::linear<float> linear(std::string const& name, index out, index in) {
    return {{name, {out, in}, parallel::normal_init{0.15F}}, {}};
  }
  parallel::norm<float> make_norm(std::string const& name) const {
    parallel::norm<float> out;
    out.rule = parallel::norm_rule::rms;
    out.weight = {name, {features}, parallel::constant_init{1.0F}};
    out.weight.copied(ranks_.copies_outside());
    return out;
  }
  template <class Layer>
  branch<Layer> make_branch(std::string const& norm, Layer layer) const {
    return parallel::residual(parallel::sequential(
        make_norm(norm), gather{ranks_}, tensor::sliced(std::move(layer)), reduce{ranks_, {}}));
  }
  attention make_attention(std::string const& name) const {
    auto const some = tensor::rows_of_heads(here_.part_of(heads.heads, "heads"), heads.dim);
    attention out;
    out.layout = here_.part_of(heads);
    out.qkv = parallel::qkv_projection(
        tensor::keep_heads(here_, heads, linear(name + "wq", heads.width(), features),
                           linear(name + "wk", heads.kv_width(), features),
                           linear(name + "wv", heads.kv_width(), features)));
    out.out = tensor::keep_inputs(here_, linear(name + "wo", features, heads.width()), some);
    out.scale = 1.0 / std::sqrt(static_cast<double>(heads.dim));
    out.rotations = parallel::ops::rope_frequencies(1e4, heads.dim);
    return out;
  }
  swiglu make_swiglu(std::string const& name) const {
    auto const some = here_.part_of(hidden, "hidden");
    swiglu out;
    out.activate.kind = parallel::ops::activation_kind::silu;
    out.gate = tensor::keep_outputs(here_, linear(name + "w1", hidden, features), {some});
    out.up = tensor::keep_outputs(here_, linear(name + "w3", hidden, features), {some});
    out.down = tensor::keep_inputs(here_, linear(name + "w2", features, hidden), some);
    return out;
  }

  region ranks_;
  tensor::place here_;
  tensor::embedding<float, communicator> tokens_;
  std::deque<block> blocks_;  // addresses stay
  tensor::head<float, communicator> head_;
};
// [guide: end]

std::vector<double> run(parallel::training_layout shape, parallel::zero::stage stage) {
  std::vector<double> losses;
  // [guide: train_llama]
  parallel::threads::run(shape.ranks(), [&](communicator& world) {
    parallel::host::device device;
    parallel::host::stream compute, traffic, within_layers;
    train::training_groups groups(world.split(0), shape);
    llama model({.group = {groups.tensor, within_layers}, .sequence = true});
    train::stepper step(model, device, groups, parallel::decoupled_adamw{.learning_rate = 1e-2},
                        {.stage = stage, .pipeline = {.schedule = "1f1b"}});
    step.initialise(1);

    std::vector<std::int32_t> x, y;  // tokens, and those that follow
    for (std::int32_t s = 0; s < sequences; ++s)
      for (std::int32_t t = 0, a = s, b = 1; t < length; ++t) {
        x.push_back(a);
        y.push_back(b);
        a = std::exchange(b, (a + b) % 29);
      }
    std::vector<batch_view> batches;
    std::vector<index> first;
    auto const mine =
        parallel::data::share_of(sequences, groups.shards.rank(), groups.shards.size());
    for (auto const& part : parallel::data::microbatches(mine, 2)) {
      index const begin = part.begin * length, rows = part.size() * length;
      batches.push_back({{x.data() + begin, {rows}}, {y.data() + begin, {rows}}});
      first.push_back(part.begin);
    }
    auto const storage = device.allocate<std::byte>(step.plan_activations(batches));
    parallel::arena memory(storage);
    for (std::uint32_t i = 0; i < 40; ++i) {
      parallel::position const at{.seed = 1, .step = i};
      auto const sums = step.step(compute, traffic, memory, batches, first, at, 1.0).sums;
      if (world.rank() == 0) losses.push_back(sums.loss / static_cast<double>(sums.tokens));
    }
  });
  // [guide: end]
  return losses;
}

}  // namespace example

int main() {
  using namespace parallel;
  auto const one = example::run({}, zero::stage::none);
  auto shape = training_layout{}.with<axis::tensor>(2).with<axis::pipeline>(2);
  shape = shape.with<axis::shard>(2);
  auto const eight = example::run(shape, zero::stage::parameters);
  std::printf("step  one rank  %s, ZeRO-3\n", shape.text().c_str());
  bool same = one.size() == eight.size();
  for (std::size_t i = 0; i < one.size(); ++i) {  // sums in another order: other last digits
    if (i % 5 == 0 || i + 1 == one.size()) std::printf("%4zu  %.5f   %.5f\n", i, one[i], eight[i]);
    same = same && std::abs(one[i] - eight[i]) < 1e-4;
  }
  return same && one.back() < 0.5 * one.front() ? 0 : 1;
}
