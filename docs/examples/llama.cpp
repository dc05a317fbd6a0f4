// A model of the Llama family (Touvron et al., 2023: RMSNorm, rotary positions, grouped queries,
// SwiGLU, no biases, an untied head). It is trained on one rank; then on eight, tensor 2 x pipeline
// 2 x ZeRO-3 over 2, saved, and continued in another layout of eight, tensor 2 x context 2 x ZeRO-1
// over 2. The losses are the same. The task is Fibonacci's rule modulo 29: the two last tokens
// determine the next. Two sequences are held out for evaluation.
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/checkpoint/series.hpp>
#include <parallel/parallel.hpp>

namespace example {

namespace context_parallel = parallel::context_parallel;
namespace tensor = parallel::tensor;
namespace train = parallel::train;
using parallel::index;
using communicator = parallel::threads::communicator;
using region = tensor::region<communicator>;
using attention_ranks = context_parallel::attention_ranks<communicator>;

constexpr index vocabulary = 32, features = 32, hidden = 64, layers = 4;
constexpr parallel::ops::head_layout heads{.heads = 4, .kv_heads = 2, .dim = 8};
constexpr index sequences = 8, held_out = 2, length = 12, steps = 40;

struct batch_view {
  parallel::vector_view<std::int32_t const> ids, labels;  // [sequences * length]
};

// [guide: llama]
class llama {
 public:
  using element = float;
  using microbatch = batch_view;
  using column_linear = tensor::column_linear<float, communicator>;
  using row_linear = tensor::row_linear<float, communicator>;
  using attention = context_parallel::attention<float, communicator, column_linear, row_linear>;
  using swiglu = parallel::feed_forward<parallel::activation<float>, column_linear, row_linear>;
  template <class Layer>  // x + layer(norm(x)); it does not compile without the row_linear
  using branch = parallel::residual<parallel::sequential<parallel::norm<float>, Layer>>;
  using block = parallel::sequential<branch<attention>, branch<swiglu>>;

  /// `ranks`: those along the tensor axis; `sequence_ranks`: those along the context axis.
  llama(region const& ranks, attention_ranks const& sequence_ranks)
      : ranks_(ranks),
        sequence_ranks_(sequence_ranks),
        tensor_position_{ranks.rank(), ranks.size()} {
    auto const rows = [&](std::string const& name) {
      auto const rank_rows = tensor_position_.part_of(vocabulary, "vocabulary");
      return tensor::keep_outputs(tensor_position_, linear(name, vocabulary, features), {rank_rows})
          .weight;
    };
    tokens_ = {ranks_, rows("tokens")};
    for (index i = 0; i < layers; ++i) {
      auto const name = "block." + std::to_string(i) + '.';
      blocks_.emplace_back(make_branch(name + "attention_norm", make_attention(name)),
                           make_branch(name + "feed_forward_norm", make_swiglu(name)));
    }
    head_.tensor_region = ranks_;
    head_.norm_f = make_norm("norm");
    head_.weight = rows("output");
  }

  std::size_t num_blocks() const { return layers; }
  block const& at(std::size_t i) const { return blocks_[i]; }
  index rows(batch_view const& b) const { return ranks_.rows_outside(b.ids.size()); }
  index sequence(batch_view const&) const { return partition().length(); }
  /// The rows that this rank holds: of each sequence, and among those of the tensor axis.
  parallel::row_share share(batch_view const& b) const {
    auto out = partition().share();
    out.first_row = ranks_.first_row_outside(b.ids.size());
    return out;
  }
  index width() const { return features; }
  /// Visits the units, each with the parts after which its gradients are complete. A unit's
  /// parameters are stored, reduced and sharded together.
  void visit_units(auto&& visit) {
    using parts = std::vector<train::part>;
    using uses = std::vector<parallel::parameter_base<float>*>;  // of tied weights
    visit(std::string("tokens"), tokens_, parts{train::embed}, uses{});
    for (index i = 0; i < layers; ++i)
      visit("block." + std::to_string(i), blocks_[static_cast<std::size_t>(i)], parts{i}, uses{});
    visit(std::string("head"), head_, parts{layers}, uses{});
  }
  auto embed(auto& c, batch_view const& b) const { return tokens_.forward(c, b.ids); }
  void enter_backward(auto& c, batch_view const& b, parallel::matrix_view<float const> dy) const {
    tokens_.backward_weight(c, b.ids, dy);
  }
  void head_loss(auto& c, batch_view const& b, parallel::matrix_view<float const> x,
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
    out.weight.replicated(ranks_.replication_outside());
    return out;
  }
  template <class Layer>
  branch<Layer> make_branch(std::string const& norm, Layer layer) const {
    return parallel::residual(parallel::sequential(make_norm(norm), std::move(layer)));
  }
  attention make_attention(std::string const& name) const {
    auto const rank_rows = tensor::rows_of_heads(tensor_position_.queries_of(heads), heads.dim);
    attention out;
    out.ranks = sequence_ranks_;
    out.layout = tensor_position_.part_of(heads);
    out.qkv = decltype(out.qkv)(
        tensor::keep_heads(tensor_position_, heads, linear(name + "wq", heads.width(), features),
                           linear(name + "wk", heads.kv_width(), features),
                           linear(name + "wv", heads.kv_width(), features)),
        ranks_);
    out.out = make_last(name + "wo", heads.width(), rank_rows);
    out.scores.scale = 1.0 / std::sqrt(static_cast<double>(heads.dim));
    out.positions.frequencies = parallel::ops::rope_frequencies(1e4, heads.dim);
    return out;
  }
  swiglu make_swiglu(std::string const& name) const {
    auto const rank_rows = tensor_position_.part_of(hidden, "hidden");
    swiglu out;
    out.activate.kind = parallel::ops::activation_kind::silu;
    out.gate =
        tensor::keep_outputs(tensor_position_, linear(name + "w1", hidden, features), {rank_rows});
    out.up = {ranks_, tensor::keep_outputs(tensor_position_, linear(name + "w3", hidden, features),
                                           {rank_rows})};
    out.down = make_last(name + "w2", hidden, rank_rows);
    return out;
  }
  /// The second linear layer of a branch. Its inputs are `in` columns, of which this rank has
  /// `rank_columns`.
  row_linear make_last(std::string const& name, index in, parallel::row_range rank_columns) const {
    return {ranks_,
            tensor::keep_inputs(tensor_position_, linear(name, features, in), rank_columns),
            {}};
  }

  [[nodiscard]] context_parallel::sequence_partition partition() const {
    return {sequence_ranks_.group.rank(), sequence_ranks_.group.size(), length};
  }

  region ranks_;
  attention_ranks sequence_ranks_;
  tensor::axis_position tensor_position_;
  tensor::embedding<float, communicator> tokens_;
  std::deque<block> blocks_;  // a deque, because addresses must not change
  tensor::head<float, communicator> head_;
};
// [guide: end]

// [guide: batches]
/// The microbatches of one rank, of two sequences each, and their first sequences in the global
/// batch.
struct data {
  data(index first_sequence, index count, train::process_groups<communicator>& groups)
      : max_microbatches(static_cast<std::size_t>(
            parallel::data::max_microbatches(count, groups.data_ranks(), 2))) {
    auto const own_sequences =
        parallel::data::share_of(count, groups.data_rank(), groups.data_ranks());
    for (index s = own_sequences.begin; s < own_sequences.end; ++s)
      for (std::int32_t t = 0, a = static_cast<std::int32_t>(first_sequence + s), b = 1; t < length;
           ++t) {
        x.push_back(a);
        y.push_back(b);
        a = std::exchange(b, (a + b) % 29);
      }
    // Ranks along the context axis hold other rows of the same sequences.
    context_parallel::sequence_partition const partition(groups.context.rank(),
                                                         groups.context.size(), length);
    x = partition.pick(std::span<std::int32_t const>(x));
    y = partition.pick(std::span<std::int32_t const>(y));
    for (auto const& part : parallel::data::microbatches(own_sequences, 2)) {
      index const rows = part.size() * partition.length();
      index const begin = (part.begin - own_sequences.begin) * partition.length();
      batches.push_back({{x.data() + begin, {rows}}, {y.data() + begin, {rows}}});
      first.push_back(part.begin);
    }
  }
  [[nodiscard]] train::rank_batch<batch_view> batch() const {
    return {
        .microbatches = batches, .first_sequences = first, .max_microbatches = max_microbatches};
  }

  std::size_t max_microbatches;    // the most microbatches that a rank has
  std::vector<std::int32_t> x, y;  // tokens, and the token after each
  std::vector<batch_view> batches;
  std::vector<index> first;
};
// [guide: end]

struct outcome {
  std::map<index, double> losses;  // by step
  double held_out = 0;
};

/// Trains up to batch `batches`, starting from the latest checkpoint of `folder`.
outcome run(parallel::training_layout shape, parallel::zero::level level,
            std::filesystem::path const& folder, index batches) {
  outcome out;
  // [guide: train_llama]
  parallel::threads::run(shape.ranks(), [&](communicator& world) {
    parallel::host::device device;
    parallel::host::stream to_others, from_others, to_next, from_previous;
    train::process_groups groups(world.split(0), shape, level);
    llama model({.group = {groups.tensor, to_others, from_others}, .sequence = true},
                {.group = {groups.context, to_next, from_previous}});
    train::session session(model, device, groups, parallel::decoupled_adamw{.learning_rate = 1e-2},
                           {.level = level, .pipeline = {.schedule = "1f1b"}});

    data const training_data(0, sequences, groups);
    data const evaluation_data(sequences, held_out, groups);
    parallel::checkpoint::series saves(world, folder, {.keep = 2});
    train::run_training(
        session,
        {.batches = batches,
         .seed = 1,
         .learning_rate = {.warmup = 4, .end = steps, .to = 0.1},
         .data = [&](index) { return training_data.batch(); },
         .evaluation_data = [&] { return evaluation_data.batch(); },
         .on_resume =
             [&](index, std::string const& note) {  // such as: a damaged checkpoint was skipped
               if (world.rank() == 0 && !note.empty()) std::puts(note.c_str());
             },
         .on_update =
             [&](index batch, auto const& result) {
               if (world.rank() == 0) out.losses[batch - 1] = result.sums.mean_loss();
             },
         .on_evaluation =
             [&](index, auto const& sums) {
               if (world.rank() == 0) out.held_out = sums.mean_loss();
             }},
        saves);
  });
  // [guide: end]
  return out;
}

}  // namespace example

int main() {
  using namespace parallel;
  namespace fs = std::filesystem;
  auto const root = fs::temp_directory_path() / concat("llama-", ::getpid());
  auto const single_run = example::run({}, zero::level::none, root / "one", example::steps);
  auto shape = training_layout{}.with_degree<axis::tensor>(2).with_degree<axis::pipeline>(2);
  shape = shape.with_degree<axis::shard>(2);
  auto const second_shape = shape.with_degree<axis::pipeline>(1).with_degree<axis::context>(2);
  auto first_run = example::run(shape, zero::level::parameters, root / "many", example::steps / 2);
  auto const second_run =
      example::run(second_shape, zero::level::optimizer, root / "many", example::steps);
  first_run.losses.insert(second_run.losses.begin(), second_run.losses.end());
  fs::remove_all(root);
  std::printf("step  one rank  %s with ZeRO-3, then %s with ZeRO-1\n", shape.text().c_str(),
              second_shape.text().c_str());
  bool is_same = first_run.losses.size() == single_run.losses.size() &&
                 second_run.losses.size() == example::steps / 2;
  for (auto const& [i, loss] :
       single_run.losses) {  // another order of sums changes the last digits
    if (i % 5 == 0) std::printf("%4td  %.5f   %.5f\n", i, loss, first_run.losses.at(i));
    is_same = is_same && std::abs(loss - first_run.losses.at(i)) < 1e-4;
  }
  std::printf("held out  %.5f   %.5f\n", single_run.held_out, second_run.held_out);
  is_same = is_same && std::abs(single_run.held_out - second_run.held_out) < 1e-3;
  return is_same && single_run.losses.rbegin()->second < 0.5 * single_run.losses.at(0) ? 0 : 1;
}
